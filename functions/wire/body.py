"""Reads a request's body: bounded while it streams in, JSON by media type, parsed by the project's own codec."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

from functions.errors import PayloadTooLargeError, UnsupportedMediaTypeError
from store.canonical import Json, parse
from store.errors import InvalidRequestError

MAX_VALUES: Final = 100_000
"""In one body, members' names not counted. Each costs some 5 µs on its way into the store, while this instance does
nothing else: the 2.8 million empty arrays that 8 MiB hold took 13 seconds, a long time for the heartbeats of others."""

LONGEST_UPLOAD: Final = 120.0  # seconds for a whole body; enough for 8 MiB at half a megabit per second

_JSON: Final = re.compile(r"application/(?:json|[\w.!#$&^+-]+\+json)", re.IGNORECASE | re.ASCII)
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii"})


async def read_json(headers: Mapping[str, str], chunks: AsyncIterator[bytes], limit: int) -> Json:
    """The body's value; `{}` for an empty body.

    `headers` is looked up by lower-case name. PayloadTooLargeError as soon as more than `limit` bytes are announced or
    have come, or of more than MAX_VALUES values, UnsupportedMediaTypeError for a body that does not call itself JSON,
    InvalidRequestError for one that is not, or that is not there after LONGEST_UPLOAD.
    """
    _require_json(headers)
    try:
        async with asyncio.timeout(LONGEST_UPLOAD):
            text = await _read(headers, chunks, limit)
    except TimeoutError as error:
        raise InvalidRequestError(f"The body did not come within {LONGEST_UPLOAD:g} seconds.") from error
    if most_values(text) > MAX_VALUES:
        raise PayloadTooLargeError(MAX_VALUES, "values")
    return parse(text) if text else {}


def most_values(text: bytes) -> int:
    """At most how many values `text` holds, if it is JSON. Hardly costs anything."""
    marks = _marks(text)
    return marks if marks <= MAX_VALUES else _marks(_without_strings(text))  # a text may hold as many as it likes


def _without_strings(text: bytes) -> bytes:
    # Not by a regular expression: of a body that is no JSON, one that opens strings and never closes them, its time
    # grows with the square.
    return b"".join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])


def _marks(text: bytes) -> int:
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


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
