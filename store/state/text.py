"""A state's text, as it comes, back into its members and messages.

The text arrives in pieces that may end anywhere, even within a character; all that is held of it at a time is the
piece at hand and what of the one before is unfinished. A state of many megabytes is therefore never there as one
string, which a single emoji would make four times as large as its text.
"""

import codecs
import json
from collections.abc import Iterable
from typing import NamedTuple

from store.canonical import Json
from store.state.raw import Raw

_DECODER = json.JSONDecoder()
_BEHIND_A_NUMBER = (",", "}", "]")


class Parts(NamedTuple):
    """What `State` is made of."""

    order: tuple[str, ...]
    messages: list[Raw] | None
    members: dict[str, Raw]


def read_parts(pieces: Iterable[bytes], messages: str) -> Parts:
    """The members of one JSON object, the list named `messages` element by element. ValueError for anything else."""
    try:
        return _read_object(_Text(pieces), messages)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _read_object(text: "_Text", messages: str) -> Parts:
    parts = Parts((), None, {})
    names: list[str] = []
    found: list[Raw] | None = None
    text.require("{")
    while not text.take("}"):
        if names:
            text.require(",")
        name = text.read()[1]
        text.require(":")
        if not isinstance(name, str) or name in names:
            raise ValueError("not a new member's name")
        names.append(name)
        if name == messages and text.take("["):
            found = _read_list(text)
        else:
            parts.members[name] = text.raw()
    text.require_end()
    return parts._replace(order=tuple(names), messages=found)


def _read_list(text: "_Text") -> list[Raw]:
    found: list[Raw] = []
    while not text.take("]"):
        if found:
            text.require(",")
        found.append(text.raw())
    return found


class _Text:
    """Reads on through the pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self._text = ""
        self._at = 0

    def take(self, character: str) -> bool:
        """Goes past `character` where it comes next."""
        while self._at == len(self._text) and self._append(1):
            pass
        is_next = self._text.startswith(character, self._at)
        self._at += is_next
        return is_next

    def require(self, character: str) -> None:
        """Goes past `character`, which has to come next."""
        if not self.take(character):
            raise ValueError(f"{character} expected")

    def require_end(self) -> None:
        """Nothing may come any more."""
        if self._at < len(self._text) or self._append(1):
            raise ValueError("text behind the end")

    def raw(self) -> Raw:
        """The next value."""
        text, value = self.read()
        return Raw.made(text.encode(), value)

    def read(self) -> tuple[str, Json]:
        """The next value with its text."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                complete = False
            else:
                # A number may go on in the next piece; everything else tells its end by itself.
                complete = self._text[end : end + 1] in _BEHIND_A_NUMBER or not isinstance(value, int | float)
            if complete:
                text, self._at = self._text[self._at : end], end
                return text, value
            if not self._append(len(self._text) - self._at):
                raise ValueError("not a value")

    def _append(self, at_least: int) -> bool:
        """Reads on by `at_least` characters, or to the end; whether anything came. Doubling what an unfinished value is
        tried with makes its length cost no more than twice."""
        unread = [self._text[self._at :]]
        added = 0
        while added < max(1, at_least) and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            unread.append(self._decoder.decode(piece or b"", final=self._ended))
            added += len(unread[-1])
        self._text, self._at = "".join(unread), 0
        return added > 0
