"""Paths ⇄ file names. Pure.

    {collection}{suffix}/{tenant}/{kind}/{id}.json

Ids and the segments of a tenant are written as they are where every filesystem can hold them, percent-encoded where
not, and as a hash where that is too long; a file name alone therefore does not tell its path, the file's content does.
What begins with a dot in the folder is the store's own.
"""

import hashlib
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import quote

from store.database import Kind, Path
from store.errors import InvalidRequestError
from store.ids import require_id

SUFFIX = ".json"
MAX_NAME_BYTES = 200
MAX_TENANT_SEGMENTS = 8  # keeps a whole path far below what systems accept

_SAFE = "@+,"  # with letters, digits and _.-~; never "=", which begins the hashed names
_HASHED = "="


def require_tenant(value: object) -> str:
    """`value` as a tenant of the file store: one id, or several joined by '/'; InvalidRequestError otherwise."""
    if not isinstance(value, str):
        raise InvalidRequestError("tenant must be a string.")
    segments = value.split("/")
    if len(segments) > MAX_TENANT_SEGMENTS:
        raise InvalidRequestError(f"tenant must not have more than {MAX_TENANT_SEGMENTS} segments.")
    for segment in segments:
        require_id(segment, "tenant" if len(segments) == 1 else "A segment of the tenant")
    return value


def require_collection(value: str) -> str:
    """`value` as a collection's name, which becomes a folder's name as it is; InvalidRequestError otherwise."""
    if require_id(value, "collection") != _encoded(value):
        raise InvalidRequestError("collection must be a short name of letters, digits, '_' and '-'.")
    return value


@lru_cache(maxsize=8192)
def file_of(collection: str, path: Path) -> str:
    """The file of a document, relative to the store's folder."""
    if not path.id:
        raise InvalidRequestError("A document needs an id.")
    return f"{folder_of(collection, path.kind, path.tenant)}/{_encoded(path.id)}{SUFFIX}"


def folder_of(collection: str, kind: Kind, tenant: str) -> str:
    """The folder of a tenant's documents of one kind, relative to the store's folder."""
    segments = [_encoded_folder(segment) for segment in require_tenant(tenant).split("/")]
    return str(PurePosixPath(collection_folder(collection, kind), *segments, kind.value))


def collection_folder(collection: str, kind: Kind) -> str:
    """The folder below which all tenants' documents of one kind lie."""
    return f"{collection}{kind.suffix}"


def _encoded_folder(segment: str) -> str:
    # Never like a document's file: `a/snapshots/x.json` is a document of tenant `a`, not a tenant's folder.
    name = _encoded(segment)
    return f"{name[: -len(SUFFIX)]}%2Ejson" if name.endswith(SUFFIX) else name


def _encoded(text: str) -> str:
    name = quote(text, safe=_SAFE)
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > MAX_NAME_BYTES:
        return f"{_HASHED}{hashlib.sha256(text.encode()).hexdigest()}"
    return name
