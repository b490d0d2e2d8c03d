"""Stored bytes: compressed where that is smaller, with a digest of what is stored."""

import hashlib
from dataclasses import dataclass

import zstandard

from store.database import Fields, Value
from store.errors import DataLossError
from store.state import DIGEST_BYTES

JSON = "json"
ZSTD = "zstd"
_LEVEL = 9  # patches are about 1 KiB: 10 % smaller than at level 3 for some 50 µs; higher levels gain nothing there
QUICK = 3  # for text so long that its length is felt: six times as fast, and a sixth larger
_SMALLEST = 64  # bytes; a frame's own overhead exceeds any gain below


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes as they lie in a document."""

    codec: str
    content: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the stored bytes, of which the first half is enough."""
        return digest_of(self.content)


def digest_of(content: bytes) -> bytes:
    """The digest of stored bytes."""
    return hashlib.sha256(content).digest()[:DIGEST_BYTES]


def encode(text: bytes, level: int = _LEVEL) -> Stored:
    """`text` compressed with zstd, or as it is where that is not larger."""
    if len(text) >= _SMALLEST:
        packed = zstandard.ZstdCompressor(level=level, write_checksum=False).compress(text)
        if len(packed) < len(text):
            return Stored(ZSTD, packed)
    return Stored(JSON, text)


def decode(codec: Value, content: Value, document: str) -> bytes:
    """The text behind stored bytes; DataLossError naming `document`."""
    if not isinstance(content, bytes):
        raise DataLossError(document, "its content is not bytes")
    if codec == JSON:
        return content
    if codec != ZSTD:
        raise DataLossError(document, f"unknown codec {codec!r}")
    try:
        return zstandard.ZstdDecompressor().decompress(content)
    except zstandard.ZstdError as error:
        raise DataLossError(document, f"its content cannot be decompressed: {error}") from error


def decode_checked(fields: Fields, content_field: str, digest_field: str, document: str) -> bytes:
    """`decode` of one field, after comparing the stored bytes with the digest beside them."""
    content = fields.get(content_field)
    if not isinstance(content, bytes):
        raise DataLossError(document, f"{content_field} is missing or not bytes")
    if digest_of(content) != fields.get(digest_field):
        raise DataLossError(document, f"{content_field} does not match its digest")
    return decode(fields.get("codec"), content, document)


CHECK_BYTES = 8  # of a digest where it has to tell damage only


def seal(stored: Stored) -> bytes:
    """Codec, check and content in one value, for fields that have no codec and no digest beside them."""
    return b"%b:%b%b" % (stored.codec.encode(), stored.digest[:CHECK_BYTES], stored.content)


def unseal(sealed: Value, document: str) -> bytes:
    """The text behind `seal`; DataLossError naming `document`."""
    if not isinstance(sealed, bytes):
        raise DataLossError(document, "a sealed value is not bytes")
    codec, _, checked = sealed.partition(b":")
    check, content = checked[:CHECK_BYTES], checked[CHECK_BYTES:]
    if digest_of(content)[:CHECK_BYTES] != check:
        raise DataLossError(document, "a sealed value does not match its check")
    return decode(codec.decode("ascii", "replace"), content, document)
