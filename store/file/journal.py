"""The redo journal: a commit of several files, written down whole before any of them changes. Pure; does no I/O.

One line of JSON that lists the files (a size of null is a deletion) with a digest of the rest, then their contents.
"""

import hashlib
import json
from typing import NamedTuple

from store.errors import DataLossError


class Change(NamedTuple):
    """One file's new content (None = the file goes), its name being relative to the store's folder."""

    file: str
    content: bytes | None


class Entry(NamedTuple):
    """A commit's changes, and its time in nanoseconds since 1970, which becomes the files' time."""

    changes: list[Change]
    time: int


def encode_entry(entry: Entry) -> bytes:
    """The content of the journal's file."""
    body = b"".join(change.content or b"" for change in entry.changes)
    files = [[change.file, None if change.content is None else len(change.content)] for change in entry.changes]
    head = json.dumps({"time": entry.time, "files": files}).encode()
    digest = hashlib.sha256(head + b"\n" + body).hexdigest().encode()
    return b"%b\n%b\n%b" % (digest, head, body)


def decode_entry(content: bytes, name: str) -> Entry:
    """The entry that `content` holds; DataLossError with `name` where it is not exactly what was written."""
    digest, _, rest = content.partition(b"\n")
    if digest != hashlib.sha256(rest).hexdigest().encode():
        raise DataLossError(name, "the journal of an interrupted commit was truncated or altered")
    line, _, body = rest.partition(b"\n")
    head = json.loads(line)
    changes, offset = [], 0
    for file, size in head["files"]:
        changes.append(Change(file, None if size is None else body[offset : offset + size]))
        offset += size or 0
    return Entry(changes, head["time"])
