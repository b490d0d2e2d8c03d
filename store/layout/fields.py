"""Reading typed fields out of a stored document; what does not fit is DataLossError naming the document."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from store.database import Document
from store.errors import DataLossError

FORMAT_VERSION = 1

_T = TypeVar("_T")


class FieldReader:
    """The fields of one document, or of a map inside it, by type."""

    def __init__(self, document: str, fields: Mapping[str, Any]) -> None:
        self.document = document
        self.fields = fields

    @classmethod
    def of(cls, document: Document) -> "FieldReader":
        """The reader of a document of ours, its format version checked."""
        reader = cls(str(document.path), document.fields)
        version = reader.get("formatVersion", int)
        if version != FORMAT_VERSION:
            raise reader.damaged(f"format version {version} is not known here (known: {FORMAT_VERSION})")
        return reader

    def damaged(self, reason: str) -> DataLossError:
        """The error to raise for this document."""
        return DataLossError(self.document, reason)

    def get(self, name: str, kind: type[_T]) -> _T:
        """The field, which must be there."""
        value = self.find(name, kind)
        if value is None:
            raise self.damaged(f"{name} is missing")
        return value

    def find(self, name: str, kind: type[_T]) -> _T | None:
        """The field, None where it is absent."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.damaged(f"{name} is not a {kind.__name__}")
        return value

    def text(self, name: str) -> str:
        """A string that must be there."""
        return self.get(name, str)

    def time(self, name: str) -> datetime | None:
        """A time, None where it is absent."""
        return self.find(name, datetime)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty where it is absent."""
        values = self.find(name, list) or []
        if not all(isinstance(value, str) for value in values):
            raise self.damaged(f"{name} is not a list of strings")
        return tuple(values)

    def member(self, name: str, allowed: type[_T]) -> _T:
        """A string that must be one of an enumeration's values."""
        value = self.text(name)
        try:
            return allowed(value)  # type: ignore[call-arg]  # an enumeration is called with its value
        except ValueError:
            raise self.damaged(f"{name} is {value!r}") from None


def present(**fields: Any) -> dict[str, Any]:
    """The fields that are not None: absent rather than null."""
    return {name: value for name, value in fields.items() if value is not None}
