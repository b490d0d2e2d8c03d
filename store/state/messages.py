"""A transcript that knows its size, its digest and its ids, and hands them on to the one that continues it."""

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple

from store.state.raw import Raw


class Mark(NamedTuple):
    """A place behind `end` messages, and the keys of what the text was cut into between the mark before and here."""

    end: int
    keys: tuple[bytes, ...]


class Messages(tuple[Raw, ...]):
    """Messages, oldest first.

    A turn adds two or three to what may be thousands. What is known of the list as a whole is therefore made from what
    is known of the list that it continues, and costs what was added. Nothing refers back to that list itself."""

    _places: "_Places | None" = None
    marks: Mapping[Hashable, tuple["Mark", ...]] = MappingProxyType({})
    """What was found out about the beginning of this list, and hence holds for every list that continues it."""

    @classmethod
    def following(cls, former: "Messages | None", messages: Iterable[Raw]) -> "Messages":
        """`messages`, which may begin with all of `former`."""
        made = cls(messages)
        # Compares by identity first, and in C: microseconds for thousands of messages that are the same objects.
        if former and made[: len(former)] == former:
            return former.extended(made[len(former) :])
        return made

    def extended(self, added: Iterable[Raw]) -> "Messages":
        """These messages and `added`."""
        added = tuple(added)
        made = Messages(self + added)
        made.size = self.size + sum(len(message.text) for message in added)
        made._hash = self._hash.copy()
        made._hash.update(b"".join(message.digest for message in added))
        made.marks = self.marks
        if self._places is not None and self._places.extend(len(self), added):
            made._places = self._places
        return made

    @cached_property
    def size(self) -> int:
        """Bytes of the messages' text, without what stands between them."""
        return sum(len(message.text) for message in self)

    @property
    def digest(self) -> bytes:
        """SHA-256 over the messages' digests, in order."""
        return bytes(self._hash.digest())

    @cached_property
    def _hash(self) -> Any:  # hashlib's objects have a type without a public name
        return hashlib.sha256(b"".join(message.digest for message in self))

    def has(self, message_id: str) -> bool:
        """Whether there is a message of that id."""
        if self._places is None:
            self._places = _Places()
            self._places.extend(0, self)
        return self._places.first(message_id) < len(self)


class _Places:
    """Where each id stands first, in the longest of the lists that share this index; a shorter one ignores the rest."""

    def __init__(self) -> None:
        self._length = 0
        self._first: dict[str, int] = {}
        self._lock = Lock()  # large states are worked on in threads

    def extend(self, length: int, messages: Iterable[Raw]) -> bool:
        """Adds messages behind the first `length`; False where others stand there already."""
        with self._lock:
            if length != self._length:
                return False
            for message in messages:
                if message.key is not None:
                    self._first.setdefault(message.key, self._length)
                self._length += 1
            return True

    def first(self, message_id: str) -> int:
        """The place, beyond the end where there is none."""
        return self._first.get(message_id, self._length)
