"""Reads: rows, session documents, and the states behind them. Writes nothing.

A load that takes several round trips makes all of them at the first one's time, so that a delete in between is never
seen half-way; what is missing *then* is damage.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from store.database import Document, Kind, Path
from store.documents.apart import apart
from store.documents.legacy import legacy_row, legacy_session, load_legacy_state
from store.documents.shelf import Shelf, record_path, row_path, shard_path
from store.errors import DataLossError
from store.layout import records, rows
from store.layout.chain import Chain, Ground, rebuild
from store.layout.codec import decode_checked, unseal
from store.layout.fields import FieldReader
from store.layout.records import Record, lacks_copy, read_copy, read_record, read_tail
from store.layout.rows import Row, read_row
from store.layout.runs import Run, run_key
from store.legacy.rows import is_legacy
from store.models import Scope
from store.rules.history import last_message_id, messages_of
from store.rules.retention import is_expired
from store.state import State

# What one read may ask for, so that it comes within the time that one attempt has.
_MOST_BYTES = 8_388_608  # of shards, as they lie there
_MOST_SHARDS = 300


class RowRead(NamedTuple):
    """A row, None where this caller has none of that id, and the database's time of the read."""

    row: Row | None
    time: datetime


class RecordRead(NamedTuple):
    """A session, None where this caller has none of that id, and the database's time of the read."""

    record: Record | None
    time: datetime
    has_copy: bool
    ground: Ground | None = None  # the head's state, where it had to be loaded to make the record


async def read_one_row(
    shelf: Shelf, scope: Scope, snapshot_id: str, *, with_request: bool = False, at: datetime | None = None
) -> RowRead:
    """One round trip, one document, as of `at` or now. Its patch is not asked for before it is known whose row it is:
    how long it takes to read would tell that it is there."""
    path = row_path(shelf.require_scope(scope), snapshot_id)
    mask = (*rows.METADATA_FIELDS, "request") if with_request else rows.METADATA_FIELDS
    read = await shelf.database.get([path], mask=mask, at=at)
    return RowRead(await found_row(shelf, scope, read.documents[path], read.time), read.time)


async def found_row(shelf: Shelf, scope: Scope, document: Document | None, time: datetime) -> Row | None:
    """The row in a document that was read at `time`, one of Genkit's included, where this caller may read it."""
    if document is not None and is_legacy(document):
        return await legacy_row(shelf, scope, document, time)
    return visible_row(scope, document, time)


def visible_row(scope: Scope, document: Document | None, now: datetime) -> Row | None:
    """The row of ours in `document` where it is the caller's and neither expired nor pruned."""
    if document is None or is_legacy(document) or is_anothers(scope, document):
        return None
    row = read_row(document)
    if row.owner_id != scope.user or row.is_pruned or is_expired(row.expires_at, now):
        return None
    return row


async def read_one_record(shelf: Shelf, scope: Scope, session_id: str, *, with_copy: bool) -> RecordRead:
    """One round trip, one document."""
    path = record_path(shelf.require_scope(scope), session_id)
    read = await shelf.database.get([path], mask=None if with_copy else records.METADATA_FIELDS)
    return await found_record(shelf, scope, read.documents[path], read.time, has_copy=with_copy)


async def found_record(
    shelf: Shelf, scope: Scope, document: Document | None, time: datetime, *, has_copy: bool
) -> RecordRead:
    """The session in a document that was read at `time`, one of Genkit's included, where this caller may read it."""
    if document is not None and is_legacy(document):
        found = await legacy_session(shelf, scope, document, time)
        return RecordRead(found.record, time, True, found.ground) if found else RecordRead(None, time, has_copy)
    return RecordRead(visible_record(scope, document, time), time, has_copy)


def visible_record(scope: Scope, document: Document | None, now: datetime) -> Record | None:
    """The session of ours in `document` where it is the caller's and neither expired nor being deleted."""
    if document is None or is_legacy(document) or is_anothers(scope, document):
        return None
    record = read_record(document)
    if record.session.owner_id != scope.user or record.is_deleting or is_expired(record.session.expires_at, now):
        return None
    return record


def is_anothers(scope: Scope, document: Document) -> bool:
    """Asked before anything else of the document is read: that it is damaged, or how long it takes to read, would tell
    that it is there."""
    owner = document.fields.get("ownerId")
    return isinstance(owner, str) and owner != scope.user


async def load_row_state(shelf: Shelf, scope: Scope, row: Row, time: datetime) -> Ground | None:
    """The state of a row that was read at `time`, with where it lies; None where the row has none. One round trip where
    it is not cached, in which the row is read again where it was read without its patch."""
    if row.chain is None or row.is_legacy:
        return await load_legacy_state(shelf, scope, row, time) if row.is_legacy else None
    cached = shelf.cache.get(scope.tenant, row.snapshot.snapshot_id)
    if cached is not None and cached.chain == row.chain:
        return cached
    has_patch = not row.chain.is_checkpoint and "statePatch" in row.document.fields
    segments = row.chain.segment_path[:-1] if has_patch else row.chain.segment_path
    paths = [row_path(scope, segment) for segment in segments]
    stored = await _read_chain(shelf, scope, row.snapshot.session_id, row.chain, paths, time)
    patches = [(str(path), read_row(_required(stored.segments, path)).patch) for path in paths]
    if has_patch:
        patches.append((row.name, row.patch))
    state = await _rebuilt(row.name, row.chain, stored, patches)
    ground = Ground(row.snapshot.snapshot_id, row.chain, state, stored.runs)
    shelf.cache.put(scope.tenant, ground)
    return ground


async def load_head(shelf: Shelf, scope: Scope, read: RecordRead) -> Ground | None:
    """The state of the session's head; None before the first turn. No round trip where the state is cached or the
    record was read with its copy; one for the copy, one for the shards of a state too large for it."""
    record = read.record
    if record is None or record.head is None or read.ground is not None:
        return read.ground
    head = record.head
    cached = shelf.cache.get(scope.tenant, head.snapshot.snapshot_id)
    if cached is not None and cached.chain == head.chain:
        return _told_truly(record, cached)
    if not read.has_copy:
        path = record.document.path
        again = await shelf.database.get([path], at=read.time)
        record = read_record(_required(again.documents, path))
    state = read_copy(record)
    if state is None and lacks_copy(record):
        row = await read_one_row(shelf, scope, head.snapshot.snapshot_id, at=read.time)
        if row.row is None or row.row.chain != head.chain:
            raise DataLossError(record.name, f"the row of its head, {head.snapshot.snapshot_id!r}, is another one")
        return await load_row_state(shelf, scope, row.row, read.time)
    if state is None:
        stored = await _read_chain(shelf, scope, record.session.id, head.chain, [], read.time)
        state = await _rebuilt(record.name, head.chain, stored, _named(record))
    ground = Ground(head.snapshot.snapshot_id, head.chain, state, head.runs)
    shelf.cache.replace_head(scope.tenant, record.session.id, ground)
    return _told_truly(record, ground)


def _told_truly(record: Record, ground: Ground) -> Ground:
    """The head's state; DataLossError where the session tells something else of its transcript."""
    session, state = record.session, ground.state
    if (session.last_message_id, session.message_count) != (last_message_id(state), len(messages_of(state))):
        raise DataLossError(record.name, "what it says of its last message is not so")
    return ground


def _named(record: Record) -> list[tuple[str, bytes]]:
    return [(record.name, patch) for _, patch in read_tail(record)]


async def read_request(shelf: Shelf, scope: Scope, row: Row) -> bytes:
    """The text of what a running row was asked to do; one round trip where it lies in shards. The row must have been
    read with it."""
    if not row.request_shards:
        return unseal(row.document.fields.get("request"), row.name)
    paths = [shard_path(scope.tenant, shard_id) for shard_id in row.request_shards]
    read = await shelf.database.get(paths)
    return b"".join(read_run(_required(read.documents, path)) for path in paths)


class _Stored(NamedTuple):
    """A chain's documents: the text of its runs in order, what tells them apart, and the rows of its segments."""

    texts: list[bytes]
    runs: tuple[Run, ...]
    segments: Mapping[Path, Document | None]

    def consumed(self) -> Iterator[bytes]:
        """The texts, each let go of once it was taken: together they are as large as the state."""
        self.texts.reverse()
        while self.texts:
            yield self.texts.pop()


async def _rebuilt(name: str, chain: Chain, stored: _Stored, patches: Sequence[tuple[str, bytes]]) -> State:
    return await apart(sum(map(len, stored.texts)), lambda: rebuild(name, chain, stored.consumed(), patches))


async def _read_chain(
    shelf: Shelf, scope: Scope, session_id: str, chain: Chain, segments: Sequence[Path], time: datetime
) -> _Stored:
    """One round trip for up to some megabytes, and one for every further some."""
    found: dict[str, tuple[bytes, int]] = {}
    others: dict[Path, Document | None] = {}
    shards = [shard_path(scope.tenant, shard_id) for shard_id in dict.fromkeys(chain.shards)]
    most = _shards_at_once(chain)
    for start in range(0, len(shards), most):
        batch = [*shards[start : start + most], *(() if start else segments)]
        documents = (await shelf.database.get(batch, at=time)).documents
        for path in batch:
            if path.kind is Kind.SHARDS:
                found[path.id] = _run(_required(documents, path), session_id)
            else:
                others[path] = documents[path]
    texts = [found[shard_id][0] for shard_id in chain.shards]
    runs = tuple(Run(shard_id, run_key([found[shard_id][0]]), found[shard_id][1]) for shard_id in chain.shards)
    return _Stored(texts, runs, others)


def _shards_at_once(chain: Chain) -> int:
    mean = chain.checkpoint_bytes // len(chain.shards)
    return min(_MOST_SHARDS, max(1, _MOST_BYTES // max(1, mean)))


def _run(document: Document, session_id: str) -> tuple[bytes, int]:
    """The text in a shard of the session, and the bytes that it takes there."""
    text = read_run(document)
    if document.fields.get("sessionId") != session_id:
        raise DataLossError(str(document.path), "it holds another session's id")
    return text, len(document.fields["chunk"])


def read_run(document: Document) -> bytes:
    """The text in a shard; DataLossError where it is damaged."""
    reader = FieldReader.of(document)
    if reader.text("shardId") != document.path.id:
        raise reader.damaged("it holds another shard's id")
    return decode_checked(document.fields, "chunk", "digest", reader.document)


def _required(documents: Mapping[Path, Document | None], path: Path) -> Document:
    document = documents[path]
    if document is None:
        raise DataLossError(str(path), "the document is missing")
    return document
