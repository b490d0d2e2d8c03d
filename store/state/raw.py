"""One JSON value as text."""

import hashlib
import json
from dataclasses import dataclass

from store import canonical
from store.canonical import Json

DIGEST_BYTES = 16  # kept of a SHA-256 wherever it tells damage or sameness: they lie in every document
MEMBER_DEPTH = 2  # the root object is level 1, so a member's value stands on level 2 and a message on level 3
MESSAGE_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Raw:
    """One JSON value as canonical text (UTF-8, compact, key order as given) with its SHA-256.

    `key` is the value's own string member `id` where it has one: messages are matched by it."""

    text: bytes
    digest: bytes
    key: str | None = None

    @classmethod
    def of(cls, value: Json, depth: int = MEMBER_DEPTH) -> "Raw":
        """The checked text of `value`; InvalidRequestError where JSON cannot hold it."""
        return cls.made(canonical.dump(value, depth), value)

    @classmethod
    def stored(cls, value: Json) -> "Raw":
        """The text of a value that was parsed from our own documents, hence needs no check."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        return cls.made(text, value)

    @classmethod
    def made(cls, text: bytes, value: Json) -> "Raw":
        """`text`, which is known to be the canonical text of `value`."""
        key = value.get("id") if isinstance(value, dict) else None
        return cls(text, hashlib.sha256(text).digest(), key if isinstance(key, str) else None)

    def value(self) -> Json:
        """A freshly parsed copy: changing it changes nothing here."""
        return canonical.parse_stored(self.text)
