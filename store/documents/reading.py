"""The contract's reads: snapshots with and without state, and transcripts."""

from dataclasses import replace

from store.documents.loading import (
    RecordRead,
    RowRead,
    load_head,
    load_row_state,
    read_one_record,
    read_one_row,
)
from store.documents.shelf import Shelf, record_path
from store.errors import DataLossError
from store.layout.records import METADATA_FIELDS, Record, read_record
from store.legacy.rows import is_legacy
from store.models import Scope, Session, Snapshot, Transcript
from store.rules.lease import is_live, status_at


async def get_snapshot(shelf: Shelf, scope: Scope, snapshot_id: str) -> Snapshot | None:
    """Two round trips; one where the state is cached or the row has none."""
    return await _with_state(shelf, scope, await read_one_row(shelf, scope, snapshot_id))


async def get_snapshot_metadata(shelf: Shelf, scope: Scope, snapshot_id: str) -> Snapshot | None:
    """One round trip, one document."""
    return _without_state(shelf, await read_one_row(shelf, scope, snapshot_id))


async def get_latest_snapshot(shelf: Shelf, scope: Scope, session_id: str) -> Snapshot | None:
    """One round trip where the latest row is the head and its state inline or cached; else the row's own."""
    with_copy = not shelf.cache.has_head(scope.tenant, session_id)
    read = await read_one_record(shelf, scope, session_id, with_copy=with_copy)
    latest_id = _latest_id(read.record)
    if read.record is None or latest_id is None:
        return None
    head = read.record.head
    if head is not None and head.snapshot.snapshot_id == latest_id:
        ground = await load_head(shelf, scope, read)
        return replace(head.snapshot, state=ground.state if ground else None)
    row = await read_one_row(shelf, scope, latest_id, at=read.time)
    return await _with_state(shelf, scope, _named_by(read.record, latest_id, row))


async def get_latest_snapshot_metadata(shelf: Shelf, scope: Scope, session_id: str) -> Snapshot | None:
    """As get_latest_snapshot, and reads no state."""
    read = await read_one_record(shelf, scope, session_id, with_copy=False)
    latest_id = _latest_id(read.record)
    if read.record is None or latest_id is None:
        return None
    head = read.record.head
    if head is not None and head.snapshot.snapshot_id == latest_id:
        return head.snapshot
    row = await read_one_row(shelf, scope, latest_id, at=read.time)
    return _without_state(shelf, _named_by(read.record, latest_id, row))


def _latest_id(record: Record | None) -> str | None:
    return record.current_snapshot_id if record else None


def _named_by(record: Record, snapshot_id: str, read: RowRead) -> RowRead:
    """The row that the session names, read at the same moment; it must be there, unless it has expired."""
    if read.row is None and record.session.expires_at is None:
        raise DataLossError(record.name, f"it names the snapshot {snapshot_id!r}, which is missing")
    if read.row is not None and read.row.snapshot.session_id != record.session.id:
        raise DataLossError(record.name, f"it names the snapshot {snapshot_id!r}, which is another session's")
    return read


async def _with_state(shelf: Shelf, scope: Scope, read: RowRead) -> Snapshot | None:
    if read.row is None:
        return None
    try:
        ground = await load_row_state(shelf, scope, read.row, read.time)
    except DataLossError:
        if await _is_being_deleted(shelf, scope, read):
            return None
        raise
    snapshot = read.row.as_snapshot(status_at(read.row, read.time, shelf.staleness))
    return replace(snapshot, state=ground.state if ground else None)


async def _is_being_deleted(shelf: Shelf, scope: Scope, read: RowRead) -> bool:
    """Whether what a row lacks was missing because its session was on its way out: rows go batch by batch, and the
    session document, marked before the first of them, goes last."""
    assert read.row is not None
    path = record_path(scope, read.row.snapshot.session_id)
    session = (await shelf.database.get([path], mask=METADATA_FIELDS, at=read.time)).documents[path]
    return session is not None and not is_legacy(session) and read_record(session).is_deleting


def _without_state(shelf: Shelf, read: RowRead) -> Snapshot | None:
    if read.row is None:
        return None
    return read.row.as_snapshot(status_at(read.row, read.time, shelf.staleness))


async def get_session(shelf: Shelf, scope: Scope, session_id: str) -> Session | None:
    """One round trip; two while a turn holds the lease, whose row tells whether it lives."""
    read = await read_one_record(shelf, scope, session_id, with_copy=False)
    return None if read.record is None else await with_activity(shelf, scope, read)


async def with_activity(shelf: Shelf, scope: Scope, read: RecordRead) -> Session:
    """The session with `is_turn_active` told by the row that holds the lease."""
    assert read.record is not None
    session = read.record.session
    if session.active_snapshot_id is None:
        return session
    active = await read_one_row(shelf, scope, session.active_snapshot_id, at=read.time)
    is_active = active.row is not None and is_live(active.row, active.time, shelf.staleness)
    return replace(session, is_turn_active=is_active)


async def get_transcript(shelf: Shelf, scope: Scope, session_id: str) -> Transcript | None:
    """One round trip where the head's state is inline or cached."""
    with_copy = not shelf.cache.has_head(scope.tenant, session_id)
    read = await read_one_record(shelf, scope, session_id, with_copy=with_copy)
    if read.record is None:
        return None
    ground = await load_head(shelf, scope, read)
    return Transcript(read.record.session, ground.state if ground else None)
