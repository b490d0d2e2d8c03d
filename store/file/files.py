"""Documents in a folder: reading them, finding them, and storing a commit. Synchronous; needs the folder's lock.

Parsed documents are kept, up to a number of bytes, by their file's identity and time: a commit gives every file its own
time, so a file that looks as it did then *is* what it was then, whichever process wrote it.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias

from store.database import Committed, Document, Path, Query, Write
from store.errors import DataLossError, InvalidRequestError, UnavailableError
from store.file.envelope import decode_document, encode_document
from store.file.folder import VERSIONS_KEPT, Folder
from store.file.journal import Change
from store.file.paths import SUFFIX, collection_folder, file_of, folder_of
from store.local.queries import select
from store.local.writes import Planned, plan_commit, plan_each

CACHE_BYTES = 64 << 20

_TICK = timedelta(microseconds=1)
_Identity: TypeAlias = tuple[int, int, int]


class Stored(NamedTuple):
    """What a commit answers, and what it changed."""

    committed: Committed
    changes: dict[Path, Document | None]


class _Parsed(NamedTuple):
    identity: _Identity
    document: Document


class DocumentFiles:
    """One collection's documents in a locked folder. The documents it gives out are its own: copy, never change."""

    def __init__(self, folder: Folder, collection: str, clock: Callable[[], datetime]) -> None:
        self._folder = folder
        self._collection = collection
        self._clock = clock
        self._floor = datetime.min.replace(tzinfo=UTC)
        self._parsed: OrderedDict[str, _Parsed] = OrderedDict()
        self._parsed_bytes = 0

    def read_time(self, at: datetime | None = None) -> datetime:
        """The moment of a read: `at`, if its documents are still kept, or now."""
        # Later commits of this process must be later than what was read here, even if the clock stands still.
        self._floor = max(self._clock().astimezone(UTC), self._folder.last_time(), self._floor)
        if at is None:
            return self._floor
        if at > self._floor:
            raise InvalidRequestError("A read cannot be of a moment in the future.")
        if at < self._floor - VERSIONS_KEPT:
            raise UnavailableError("The documents of that moment are kept no longer.")
        return at

    def as_of(self, path: Path, at: datetime) -> Document | None:
        """The document as it was at `at`; None where it did not exist then."""
        document = self.current(path)
        if document is not None and document.update_time <= at:
            return document
        content = self._folder.version(file_of(self._collection, path), at)
        if content is None:
            return None
        earlier = decode_document(content, str(path))
        if earlier.path != path:
            raise DataLossError(str(path), f"its earlier version is of another document, {earlier.path}")
        return earlier if earlier.update_time <= at else None

    def current(self, path: Path) -> Document | None:
        """The document as it is; DataLossError where its file is not what was written."""
        file = file_of(self._collection, path)
        status = self._folder.status(file)
        return None if status is None else self._document(file, status, str(path))

    def find(self, query: Query) -> list[Document]:
        """The documents that `query` finds, in its order."""
        return select(self._candidates(query), query)

    def commit(self, writes: Sequence[Write]) -> Stored:
        """All of `writes`, or CommitRefusedError."""
        time = self._next_time()
        return self._store(plan_commit(writes, self.current, time), time)

    def write_each(self, writes: Sequence[Write]) -> Stored:
        """Those of `writes` that are not refused."""
        time = self._next_time()
        return self._store(plan_each(writes, self.current, time), time)

    def _next_time(self) -> datetime:
        return max(self._clock().astimezone(UTC), self._folder.last_time() + _TICK, self._floor + _TICK)

    def _store(self, planned: Planned, time: datetime) -> Stored:
        changes = [
            Change(file_of(self._collection, path), None if document is None else encode_document(document))
            for path, document in planned.changes.items()
        ]
        self._floor = time
        self._folder.commit(changes, time)
        for change, document in zip(changes, planned.changes.values(), strict=True):
            status = self._folder.status(change.file)
            if document is not None and status is not None:
                self._remember(change.file, status, document)
        return Stored(Committed(planned.update_times, time), planned.changes)

    def _candidates(self, query: Query) -> Iterator[Document]:
        if query.tenant is not None:
            folder = folder_of(self._collection, query.kind, query.tenant)
            yield from self._documents(folder, self._folder.entries(folder), query)
            return
        folders = [collection_folder(self._collection, query.kind)]
        while folders:
            folder = folders.pop()
            entries = self._folder.entries(folder)
            folders += [f"{folder}/{entry.name}" for entry in entries if entry.is_dir()]
            if os.path.basename(folder) == query.kind.value:
                yield from self._documents(folder, entries, query)

    def _documents(self, folder: str, entries: Sequence[os.DirEntry[str]], query: Query) -> Iterator[Document]:
        for entry in entries:
            if not entry.name.endswith(SUFFIX):
                continue
            file = f"{folder}/{entry.name}"
            try:
                yield self._document(file, entry.stat(), file)
            except DataLossError as error:
                if query.on_damage is None:
                    raise
                query.on_damage(error)

    def _document(self, file: str, status: os.stat_result, name: str) -> Document:
        known = self._parsed.get(file)
        if known is not None and known.identity == _identity(status):
            self._parsed.move_to_end(file)
            return known.document
        document = decode_document(self._folder.read(file) or b"", name)
        if file_of(self._collection, document.path) != file:
            raise DataLossError(name, f"its file holds another document, {document.path}")
        self._remember(file, status, document)
        return document

    def _remember(self, file: str, status: os.stat_result, document: Document) -> None:
        replaced = self._parsed.pop(file, None)
        self._parsed_bytes += status.st_size - (replaced.identity[1] if replaced else 0)
        self._parsed[file] = _Parsed(_identity(status), document)
        while self._parsed_bytes > CACHE_BYTES:
            _, dropped = self._parsed.popitem(last=False)
            self._parsed_bytes -= dropped.identity[1]


def _identity(status: os.stat_result) -> _Identity:
    return status.st_mtime_ns, status.st_size, status.st_ino
