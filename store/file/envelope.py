"""A document ⇄ the bytes of its file: one JSON object that ends with a digest of everything before it. Pure.

    {"format":1,"path":[kind,tenant,id],"updateTime":"…","fields":{…},"sha256":"…"}

Besides JSON's own values, fields hold `{"$bytes": base64}` and `{"$time": RFC 3339}`; a map with a key that begins with
`$` is wrapped as `{"$map": {…}}`, so that no map of a caller is taken for one of these.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from store.database import Document, Kind, Path, Value
from store.errors import DataLossError

FORMAT = 1

_DIGEST = b',"sha256":"'
_TAIL = len(_DIGEST) + 64 + len(b'"}\n')
_DUMP = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_document(document: Document) -> bytes:
    """The content of the document's file."""
    envelope = {
        "format": FORMAT,
        "path": list(document.path),
        "updateTime": format_time(document.update_time),
        "fields": {name: _packed(value) for name, value in document.fields.items()},
    }
    body = _DUMP(envelope).encode()[:-1]
    return b'%b%b%b"}\n' % (body, _DIGEST, hashlib.sha256(body).hexdigest().encode())


def decode_document(content: bytes, name: str) -> Document:
    """The document that `content` holds; DataLossError with `name` where it is not exactly what was written."""
    envelope = json.loads(_verified(content, name))
    if envelope["format"] != FORMAT:
        raise DataLossError(name, f"it has the format {envelope['format']}, which this version cannot read")
    kind, tenant, identifier = envelope["path"]
    fields = {key: _unpacked(value) for key, value in envelope["fields"].items()}
    return Document(Path(Kind(kind), tenant, identifier), fields, parse_time(envelope["updateTime"]))


def _verified(content: bytes, name: str) -> bytes:
    body, tail = content[:-_TAIL], content[-_TAIL:]
    if tail != b'%b%b"}\n' % (_DIGEST, hashlib.sha256(body).hexdigest().encode()):
        raise DataLossError(name, "its file was truncated or altered: the digest does not match")
    return body + b"}"


def format_time(time: datetime) -> str:
    """`time`, which is in UTC, as text of a fixed length."""
    return time.isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """The time that `format_time` wrote; ValueError for anything else."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _packed(value: Value) -> Value:
    kind = type(value)
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode()}
    if kind is datetime:
        return {"$time": format_time(value)}
    if kind is list:
        return [_packed(item) for item in value]
    if kind is dict:
        members = {name: _packed(item) for name, item in value.items()}
        return {"$map": members} if any(name.startswith("$") for name in value) else members
    return value


def _unpacked(value: Value) -> Value:
    if type(value) is list:
        return [_unpacked(item) for item in value]
    if type(value) is not dict:
        return value
    for name, unpack in _TYPED.items():
        if name in value:
            return unpack(value[name])
    return _members(value)


def _members(value: dict[str, Value]) -> dict[str, Value]:
    return {name: _unpacked(item) for name, item in value.items()}


_TYPED: dict[str, Callable[[Any], Value]] = {"$bytes": binascii.a2b_base64, "$time": parse_time, "$map": _members}
