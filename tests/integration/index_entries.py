"""How many index entries a document has, and how large they are, by Firestore's own rules and the project's index file.
Holds no test.

A field of its own is indexed twice, ascending and descending; an array once for each element; a map field by field. A
composite index has an entry where the document has all of its fields. An exemption of a map holds for what is in it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as File
from typing import Any

from store.database import Document
from tests.benchmarks.sizes import COLLECTION, name_size, value_size

INDEXES = json.loads(
    (File(__file__).resolve().parents[2] / "emulator_config/firestore.indexes.json").read_text("utf-8")
)
MOST_INDEXED = 1500  # bytes of a value that an entry holds


def entry_sizes(document: Document, indexes: Mapping[str, Any] = INDEXES) -> list[int]:
    """The bytes of each entry that the document has."""
    group = document.path.kind.value
    overrides = {
        entry["fieldPath"]: entry["indexes"] for entry in indexes["fieldOverrides"] if entry["collectionGroup"] == group
    }
    sizes = [size for name, value in document.fields.items() for size in _of_field(document, name, value, overrides)]
    for index in indexes["indexes"]:
        fields = [field["fieldPath"] for field in index["fields"]]
        if index["collectionGroup"] == group and all(field in document.fields for field in fields):
            values = sum(map(_indexed, (document.fields[field] for field in fields)))
            sizes.append(_place(document, index["queryScope"]) + values)
    return sizes


def _of_field(document: Document, path: str, value: Any, overrides: Mapping[str, list[Any]]) -> Iterator[int]:
    if path in overrides:
        for index in overrides[path]:
            yield _place(document, index["queryScope"]) + _names(path) + _indexed(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _of_field(document, f"{path}.{name}", inner, overrides)
    else:
        held: Iterable[Any] = value if isinstance(value, list) else (value, value)
        for one in held:
            yield _place(document, "COLLECTION") + _names(path) + _indexed(one)


def _names(path: str) -> int:
    return len(path.encode()) + 1


def _indexed(value: Any) -> int:
    return min(MOST_INDEXED, value_size(value))


def _place(document: Document, scope: str) -> int:
    """The document's name, its parent's where the index is of one collection, and what every entry takes."""
    parent = len(COLLECTION + document.path.kind.suffix) + 1 + len(document.path.tenant.encode()) + 1 + 16
    return name_size(document.path) + (parent if scope == "COLLECTION" else 0) + 32
