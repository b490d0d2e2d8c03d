"""Reads a request's body: bounded while it streams in, JSON by media type, parsed by the project's own codec."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

from functions.errors import PayloadTooLargeError, UnsupportedMediaTypeError
from store.canonical import Json, parse

_JSON: Final = re.compile(r"application/(?:json|[\w.!#$&^+-]+\+json)", re.IGNORECASE | re.ASCII)
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii"})


async def read_json(headers: Mapping[str, str], chunks: AsyncIterator[bytes], limit: int) -> Json:
    """The body's value; `{}` for an empty body.

    `headers` is looked up by lower-case name. PayloadTooLargeError as soon as more than `limit` bytes are announced or
    have come, UnsupportedMediaTypeError for a body that does not call itself JSON, InvalidRequestError for one that
    is not.
    """
    _require_json(headers)
    text = await _read(headers, chunks, limit)
    return parse(text) if text else {}


def _require_json(headers: Mapping[str, str]) -> None:
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaTypeError("A body must not be compressed.")
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    if media_type.strip() and not _JSON.fullmatch(media_type.strip()):
        raise UnsupportedMediaTypeError("A body must be application/json.")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in _UTF8:
            raise UnsupportedMediaTypeError("A body must be UTF-8.")


async def _read(headers: Mapping[str, str], chunks: AsyncIterator[bytes], limit: int) -> bytes:
    announced = headers.get("content-length", "")
    # Only a hint that saves reading: it may be absent or wrong, so what comes is counted below.
    if announced.isascii() and announced.isdigit() and (len(announced) > 18 or int(announced) > limit):
        raise PayloadTooLargeError(limit)
    text = bytearray()
    async for chunk in chunks:
        text += chunk
        if len(text) > limit:
            raise PayloadTooLargeError(limit)
    return bytes(text)
