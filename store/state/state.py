"""One JSON object, held member by member and message by message."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from store.canonical import Json
from store.errors import InvalidRequestError
from store.state.messages import Messages
from store.state.raw import DIGEST_BYTES, MEMBER_DEPTH, MESSAGE_DEPTH, Raw
from store.state.text import read_parts

MESSAGES = "messages"


class Piece(NamedTuple):
    """A stretch of a state's text: `opening` and `text`. Behind a message, whose digest it then has, the whole text may
    well be cut."""

    opening: bytes
    text: bytes = b""
    digest: bytes | None = None


class State:
    """An immutable JSON object. Its member `messages`, where it is a list, is held message by message."""

    __slots__ = ("__dict__", "members", "messages", "order")

    def __init__(self, order: tuple[str, ...], messages: Iterable[Raw] | None, members: Mapping[str, Raw]) -> None:
        self.order = order  # all member names in order, `messages` included where it is held message by message
        self.messages = messages if messages is None or isinstance(messages, Messages) else Messages(messages)
        self.members = members

    @classmethod
    def of(cls, value: Json) -> "State":
        """The state that equals the JSON object `value`; InvalidRequestError where JSON cannot hold it."""
        if type(value) is not dict:
            raise InvalidRequestError("A state must be a JSON object.")
        messages = None
        members: dict[str, Raw] = {}
        for name, item in value.items():
            _check_name(name)
            if name == MESSAGES and type(item) is list:
                messages = Messages(Raw.of(message, MESSAGE_DEPTH) for message in item)
            else:
                members[name] = Raw.of(item, MEMBER_DEPTH)
        return cls(tuple(value), messages, members)

    @classmethod
    def parse(cls, *pieces: bytes) -> "State":
        """The state whose canonical text our documents hold, in one piece or many. ValueError where it is not the text
        of an object."""
        return cls.read(pieces)

    @classmethod
    def read(cls, pieces: Iterable[bytes]) -> "State":
        """As `parse`, for pieces that are better not held all at once."""
        return cls(*read_parts(pieces, MESSAGES))

    def value(self) -> dict[str, Json]:
        """A freshly parsed copy."""
        return {name: self._member_value(name) for name in self.order}

    def get(self, name: str) -> Json:
        """A freshly parsed copy of one member, None where it is absent."""
        return self._member_value(name) if name in self.order else None

    def _member_value(self, name: str) -> Json:
        if name == MESSAGES and self.messages is not None:
            return [message.value() for message in self.messages]
        return self.members[name].value()

    def pieces(self, first: int = 0) -> Iterator[Piece]:
        """The canonical text, piece by piece, each of one message or one member at most; from message `first` on, where
        it is not 0."""
        opening = b"{"
        is_passed = first == 0
        for name in self.order:
            opening += _name_text(name) + b":"
            if name == MESSAGES and self.messages is not None:
                if is_passed:
                    yield Piece(opening)
                is_passed = True
                yield from _list_pieces(self.messages, first)
            elif is_passed:
                yield Piece(opening, self.members[name].text)
            opening = b","
        yield Piece(b"}" if self.order else b"{}")

    @property
    def text(self) -> bytes:
        """The canonical text of the whole state; made anew each time, because it is as large as the state."""
        return b"".join(text for piece in self.pieces() for text in piece[:2])

    @cached_property
    def size(self) -> int:
        """Bytes of the canonical text."""
        size = 2 + max(0, len(self.order) - 1)
        for name in self.order:
            size += len(_name_text(name)) + 1
            if name == MESSAGES and self.messages is not None:
                size += self.messages.size + 2 + max(0, len(self.messages) - 1)
            else:
                size += len(self.members[name].text)
        return size

    @cached_property
    def digest(self) -> bytes:
        """SHA-256, of which the first half is enough, over the digests of members and messages, in order: costs what is
        new, not what is long."""
        digest = hashlib.sha256()
        for name in self.order:
            encoded = _name_text(name)
            digest.update(len(encoded).to_bytes(4, "big") + encoded)
            if name == MESSAGES and self.messages is not None:
                digest.update(b"[" + len(self.messages).to_bytes(8, "big") + self.messages.digest)
            else:
                digest.update(b":" + self.members[name].digest)
        return digest.digest()[:DIGEST_BYTES]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        count = 0 if self.messages is None else len(self.messages)
        return f"State({', '.join(self.order)}; {count} messages)"

    def with_messages(self, messages: Iterable[Raw]) -> "State":
        """The same state with another list of messages, cheapest where it continues the present one."""
        order = self.order if MESSAGES in self.order else (MESSAGES, *self.order)
        members = {name: raw for name, raw in self.members.items() if name != MESSAGES}
        return State(order, Messages.following(self.messages, messages), members)

    def with_member(self, name: str, raw: Raw) -> "State":
        """The same state with one other member set; a new one comes last."""
        order = self.order if name in self.order else (*self.order, name)
        messages = None if name == MESSAGES else self.messages
        return State(order, messages, {**self.members, name: raw})


EMPTY = State((), None, {})


def _list_pieces(messages: Messages, first: int) -> Iterator[Piece]:
    opening = b"," if first else b"["
    for message in messages[first:]:
        yield Piece(opening, message.text, message.digest)
        opening = b","
    yield Piece(b"]" if messages else b"[]")


def _check_name(name: str) -> None:
    if type(name) is not str:
        raise InvalidRequestError("A state has a key that is not a string.")
    _name_text(name)


def _name_text(name: str) -> bytes:
    try:
        return json.dumps(name, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError("A key contains a lone surrogate.") from error
