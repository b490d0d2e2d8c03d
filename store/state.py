"""The state of a conversation, immutable by type: canonical bytes with their digests. Pure.

Equality here is equality of bytes, never Python's `==`, for which `1 == True == 1.0`. Because messages are kept as
bytes with their own digest, a new turn hashes and compares what it adds, not what was there.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from store import canonical
from store.canonical import Json
from store.errors import InvalidRequestError

MESSAGES = "messages"
_MEMBER_DEPTH = 2  # the root object is level 1, so a member's value stands on level 2 and a message on level 3
_MESSAGE_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Raw:
    """One JSON value as canonical text (UTF-8, compact, key order as given) with its SHA-256.

    `key` is the value's own string member `id` where it has one: messages are matched by it."""

    text: bytes
    digest: bytes
    key: str | None = None

    @classmethod
    def of(cls, value: Json, depth: int = _MEMBER_DEPTH) -> "Raw":
        """The checked text of `value`; InvalidRequestError where JSON cannot hold it."""
        return cls._made(canonical.dump(value, depth), value)

    @classmethod
    def stored(cls, value: Json) -> "Raw":
        """The text of a value that was parsed from our own documents, hence needs no check."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        return cls._made(text, value)

    @classmethod
    def _made(cls, text: bytes, value: Json) -> "Raw":
        key = value.get("id") if isinstance(value, dict) else None
        return cls(text, hashlib.sha256(text).digest(), key if isinstance(key, str) else None)

    def value(self) -> Json:
        """A freshly parsed copy: changing it changes nothing here."""
        return canonical.parse_stored(self.text)


class State:
    """An immutable JSON object. Its member `messages`, where it is a list, is held message by message."""

    __slots__ = ("__dict__", "members", "messages", "order")

    def __init__(self, order: tuple[str, ...], messages: tuple[Raw, ...] | None, members: Mapping[str, Raw]) -> None:
        self.order = order  # all member names in order, `messages` included where it is held message by message
        self.messages = messages
        self.members = members

    @classmethod
    def of(cls, value: Json) -> "State":
        """The state that equals the JSON object `value`; InvalidRequestError where JSON cannot hold it."""
        if type(value) is not dict:
            raise InvalidRequestError("A state must be a JSON object.")
        return cls._built(value, Raw.of)

    @classmethod
    def parse(cls, text: bytes) -> "State":
        """The state whose canonical text our documents hold. ValueError where it is not the text of an object."""
        value = canonical.parse_stored(text)
        if type(value) is not dict:
            raise ValueError("not a JSON object")
        return cls._built(value, lambda item, _depth: Raw.stored(item))

    @classmethod
    def _built(cls, value: dict[str, Json], raw: Callable[[Json, int], Raw]) -> "State":
        messages = None
        members: dict[str, Raw] = {}
        for name, item in value.items():
            _check_name(name)
            if name == MESSAGES and type(item) is list:
                messages = tuple(raw(message, _MESSAGE_DEPTH) for message in item)
            else:
                members[name] = raw(item, _MEMBER_DEPTH)
        return cls(tuple(value), messages, members)

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

    def parts(self) -> Iterator[bytes]:
        """The canonical text, piece by piece; no piece is cut inside a message."""
        opening = b"{"
        for name in self.order:
            yield opening + _name_text(name) + b":"
            opening = b","
            if name == MESSAGES and self.messages is not None:
                yield b"["
                for index, message in enumerate(self.messages):
                    yield message.text if index == 0 else b"," + message.text
                yield b"]"
            else:
                yield self.members[name].text
        yield b"}" if self.order else b"{}"

    @cached_property
    def text(self) -> bytes:
        """The canonical text of the whole state."""
        return b"".join(self.parts())

    @cached_property
    def size(self) -> int:
        """Bytes of the canonical text."""
        return sum(map(len, self.parts()))

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over the digests of members and messages, in order: costs what is new, not what is long."""
        digest = hashlib.sha256()
        for name in self.order:
            encoded = _name_text(name)
            digest.update(len(encoded).to_bytes(4, "big") + encoded)
            if name == MESSAGES and self.messages is not None:
                digest.update(b"[" + len(self.messages).to_bytes(8, "big"))
                digest.update(b"".join(message.digest for message in self.messages))
            else:
                digest.update(b":" + self.members[name].digest)
        return digest.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        count = 0 if self.messages is None else len(self.messages)
        return f"State({', '.join(self.order)}; {count} messages)"

    def with_messages(self, messages: Iterable[Raw]) -> "State":
        """The same state with another list of messages."""
        order = self.order if MESSAGES in self.order else (MESSAGES, *self.order)
        members = {name: raw for name, raw in self.members.items() if name != MESSAGES}
        return State(order, tuple(messages), members)

    def with_member(self, name: str, raw: Raw) -> "State":
        """The same state with one other member set; a new one comes last."""
        order = self.order if name in self.order else (*self.order, name)
        messages = None if name == MESSAGES else self.messages
        return State(order, messages, {**self.members, name: raw})


EMPTY = State((), None, {})


def _check_name(name: str) -> None:
    if type(name) is not str:
        raise InvalidRequestError("A state has a key that is not a string.")
    _name_text(name)


def _name_text(name: str) -> bytes:
    try:
        return json.dumps(name, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError("A key contains a lone surrogate.") from error
