"""What documents take, by Firestore's own rules for storage size. Holds no test."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from store.database import Database, Document, Kind, Path, Query

COLLECTION = "genkit-sessions"


def value_size(value: Any) -> int:
    """Bytes of one field's value."""
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int | float | datetime):
        return 8
    if isinstance(value, str):
        return len(value.encode()) + 1
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, list):
        return sum(map(value_size, value))
    return fields_size(value)


def fields_size(fields: Mapping[str, Any]) -> int:
    """Bytes of fields with their names."""
    return sum(len(name.encode()) + 1 + value_size(value) for name, value in fields.items())


def name_size(path: Path) -> int:
    """Bytes of a document's name: every part of it and one more, and sixteen."""
    parts = (COLLECTION + path.kind.suffix, path.tenant, path.kind.value, path.id)
    return sum(len(part.encode()) + 1 for part in parts) + 16


def document_size(document: Document) -> int:
    """Bytes of a document, its indexes aside."""
    return name_size(document.path) + fields_size(document.fields) + 32


def metadata_size(row: Document) -> int:
    """Bytes of a snapshot's fields, its patch aside."""
    return fields_size({name: value for name, value in row.fields.items() if name != "statePatch"})


async def stored(database: Database) -> Counter[Kind]:
    """Bytes of all documents, by kind."""
    total: Counter[Kind] = Counter()
    for kind in Kind:
        found = await database.query(Query(kind, None, ()))
        total[kind] = sum(map(document_size, found.documents))
    return total
