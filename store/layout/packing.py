"""Ids as bytes. A diff names its checkpoint, its shards and up to 24 rows; as text that would be most of its document.

A list is packed in the short form where all its ids are of the form that we mint ourselves, else as it is. Pure; what
cannot be unpacked is ValueError.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PREFIX = re.compile(r"[A-Za-z0-9_-]{12}")
_MOST = 100_000  # ids of one list; more can only be damage
_AS_TEXT, _SHORT = 0, 1


def shard_prefix(snapshot_id: str, token: str) -> str:
    """What the ids of a row's shards begin with; `token` is the writer's own, so that nobody else writes under them.
    Nine bytes of a hash, as twelve characters."""
    digest = hashlib.sha256(f"{token}\0{snapshot_id}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:9]).decode()


def pack_rows(ids: Sequence[str]) -> bytes:
    """Ids of snapshots: 16 bytes each where all are UUIDs."""
    return _packed_list(ids, _UUID, _uuid_bytes)


def unpack_rows(content: bytes) -> tuple[str, ...]:
    """The ids behind `pack_rows`."""
    reader = Reader(content)
    ids = reader.ids(16, _uuid_text)
    reader.end()
    return tuple(ids)


@lru_cache(maxsize=64)  # the turns of a segment have the same ones
def pack_shards(ids: tuple[str, ...]) -> bytes:
    """Ids of shards, by ranges: 11 bytes for each row that wrote some of them."""
    ranges = list(_ranges(ids))
    spans = b"".join(pack_number(first) + pack_number(count) for _, first, count in ranges)
    return _packed_list([prefix for prefix, _, _ in ranges], _PREFIX, _prefix_bytes) + spans


@lru_cache(maxsize=64)
def unpack_shards(content: bytes) -> tuple[str, ...]:
    """The ids behind `pack_shards`."""
    reader = Reader(content)
    ids: list[str] = []
    for prefix in reader.ids(9, _prefix_text):
        first, count = reader.number(), reader.number()
        if len(ids) + count > _MOST:
            raise ValueError("too many shards")
        ids += [f"{prefix}_{number}" for number in range(first, first + count)]
    reader.end()
    return tuple(ids)


def pack_number(value: int) -> bytes:
    """A whole number from 0 on, in as few bytes as it takes."""
    packed = bytearray()
    while value > 0x7F:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def pack_bytes(content: bytes) -> bytes:
    """Bytes, with their number before them."""
    return pack_number(len(content)) + content


class Reader:
    """Takes what was packed, in the same order."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def number(self) -> int:
        """The next number."""
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte <= 0x7F:
                return value

    def blob(self) -> bytes:
        """The next bytes."""
        return self._take(self.number())

    def ids(self, size: int, short: Callable[[bytes], str]) -> list[str]:
        """The next ids; in the short form each is `size` bytes, which `short` makes an id again."""
        count, form = self.number(), self.number()
        if count > _MOST or form not in (_AS_TEXT, _SHORT):
            raise ValueError("not a list of ids")
        return [short(self._take(size)) if form == _SHORT else self.blob().decode() for _ in range(count)]

    def end(self) -> None:
        """There must be nothing left."""
        if self._at != len(self._content):
            raise ValueError("bytes behind the end")

    def _take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("cut short")
        self._at += size
        return taken


def _packed_list(ids: Sequence[str], form: re.Pattern[str], short: Callable[[str], bytes]) -> bytes:
    if all(map(form.fullmatch, ids)):
        return pack_number(len(ids)) + pack_number(_SHORT) + b"".join(map(short, ids))
    return pack_number(len(ids)) + pack_number(_AS_TEXT) + b"".join(pack_bytes(each.encode()) for each in ids)


def _ranges(ids: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Prefix, first number and count of ids `prefix_number` that follow each other."""
    split = [(prefix, int(number)) for prefix, _, number in (each.rpartition("_") for each in ids)]
    for (prefix, offset), group in groupby(enumerate(split), lambda item: (item[1][0], item[1][1] - item[0])):
        members = list(group)
        yield prefix, members[0][0] + offset, len(members)


def _uuid_bytes(text: str) -> bytes:
    return binascii.unhexlify(text.replace("-", ""))


def _uuid_text(content: bytes) -> str:
    digits = content.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _prefix_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text)


def _prefix_text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode()
