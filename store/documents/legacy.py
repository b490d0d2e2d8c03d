"""Reading the sessions of Genkit's own stores in place. They have no owner: `Options.legacy_owner` decides who may.

Costs more reads than ours: a session is known by its row, the parents of that, and the state of the one that completed.
"""

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from store.database import Document, Path
from store.documents.shelf import Shelf, record_path, row_path, shard_path
from store.errors import DataLossError
from store.layout.chain import Ground
from store.layout.fields import FieldReader
from store.layout.records import Head, Record
from store.layout.rows import Row
from store.legacy.rows import is_legacy, read_legacy_row, read_time
from store.legacy.states import rebuild_legacy
from store.models import Scope, Session, SnapshotStatus
from store.rules.history import last_message_id, messages_of

POINTER_FIELDS = ("checkpointId", "checkpointShardCount", "segmentPath")
"""What Genkit's session documents hold and ours do not."""


class LegacySession(NamedTuple):
    """A session document of Genkit's as a record of ours, with the state that its next turn continues from."""

    record: Record
    ground: Ground | None


def may_read(shelf: Shelf) -> bool:
    """Whether sessions without an owner are anybody's at all."""
    return shelf.options.legacy_owner == "tenant"


async def legacy_row(shelf: Shelf, scope: Scope, document: Document, time: datetime) -> Row | None:
    """The row in a snapshot document of Genkit's; None once its session belongs to somebody else."""
    if not may_read(shelf):
        return None
    named = document.fields.get("sessionId")
    if isinstance(named, str) and named:  # asked first: that the row is damaged would tell that it is there
        is_open = await _is_open(shelf, scope, named, time)
        return await _row(shelf, scope, document, time) if is_open else None
    row = await _row(shelf, scope, document, time)
    return row if await _is_open(shelf, scope, row.snapshot.session_id, time) else None


async def _is_open(shelf: Shelf, scope: Scope, session_id: str, time: datetime) -> bool:
    """Whether rows of Genkit's in that session are this caller's to read: it is the caller's own, or nobody's yet."""
    path = record_path(scope, session_id)
    session = (await shelf.database.get([path], mask=("formatVersion", "ownerId", "deleting"), at=time)).documents[path]
    if session is None or is_legacy(session):
        return True
    return session.fields.get("ownerId") == scope.user and not session.fields.get("deleting")


async def _row(shelf: Shelf, scope: Scope, document: Document, time: datetime) -> Row:
    row = read_legacy_row(document, scope.user)
    if row.snapshot.session_id:
        return row
    ground = await load_legacy_state(shelf, scope, row, time)
    session_id = ground.state.get("sessionId") if ground else None
    if not isinstance(session_id, str) or not session_id:
        raise DataLossError(row.name, "sessionId is missing")
    return replace(row, snapshot=replace(row.snapshot, session_id=session_id))


async def load_legacy_state(shelf: Shelf, scope: Scope, row: Row, time: datetime) -> Ground | None:
    """One round trip. Not cached: Genkit's stores may rewrite a row."""
    if row.chain is None:
        return None
    shards = [shard_path(scope.tenant, shard_id) for shard_id in row.chain.shards]
    segments = [row_path(scope, segment) for segment in row.chain.segment_path]
    read = (await shelf.database.get([*shards, *segments], at=time)).documents
    state = rebuild_legacy(
        row.name, row.chain, [(path, read[path]) for path in shards], [(path, read[path]) for path in segments]
    )
    return Ground(row.snapshot.snapshot_id, row.chain, state)


async def legacy_session(shelf: Shelf, scope: Scope, document: Document, time: datetime) -> LegacySession | None:
    """The session of a session document of Genkit's. Its head is the nearest completed row, as it is for Genkit."""
    if not may_read(shelf):
        return None
    reader = FieldReader(str(document.path), document.fields)
    current_id = reader.find("currentSnapshotId", str)
    if not current_id:
        return LegacySession(_record(scope, document, None, None, None), None)
    current = await _required_row(shelf, scope, row_path(scope, current_id), reader.document, time)
    head = await _head(shelf, scope, current, time)
    ground = await load_legacy_state(shelf, scope, head, time) if head else None
    return LegacySession(_record(scope, document, current, head, ground), ground)


async def _head(shelf: Shelf, scope: Scope, current: Row, time: datetime) -> Row | None:
    """The nearest completed row from `current` back along its parents."""
    row, seen = current, {current.snapshot.snapshot_id}
    while row.snapshot.status is not SnapshotStatus.COMPLETED:
        parent_id = row.snapshot.parent_id
        if parent_id is None:
            return None
        if parent_id in seen:
            raise DataLossError(row.name, "its parents go round in a circle")
        seen.add(parent_id)
        row = await _required_row(shelf, scope, row_path(scope, parent_id), row.name, time)
    return row


async def _required_row(shelf: Shelf, scope: Scope, path: Path, named_by: str, time: datetime) -> Row:
    document = (await shelf.database.get([path], at=time)).documents[path]
    if document is None:
        raise DataLossError(named_by, f"it names the snapshot {path.id!r}, which is missing")
    if not is_legacy(document):
        raise DataLossError(named_by, f"it names the snapshot {path.id!r}, which is not Genkit's")
    return await _row(shelf, scope, document, time)


def _record(scope: Scope, document: Document, current: Row | None, head: Row | None, ground: Ground | None) -> Record:
    newest = current.snapshot if current else None
    written_at = read_time(FieldReader(str(document.path), document.fields), "updatedAt") or document.update_time
    is_running = newest is not None and not newest.status.is_terminal
    state = ground.state if ground else None
    session = Session(
        id=document.path.id,
        owner_id=scope.user,
        agent="",
        title="",
        created_at=(newest and newest.created_at) or written_at,
        updated_at=written_at,
        active_snapshot_id=newest.snapshot_id if newest and is_running else None,
        head_snapshot_id=head.snapshot.snapshot_id if head else None,
        last_message_id=last_message_id(state),
        message_count=len(messages_of(state)),
    )
    return Record(
        session=session,
        update_time=document.update_time,
        document=document,
        current_snapshot_id=newest.snapshot_id if newest else None,
        latest_created_at=newest.created_at if newest else None,
        head=Head(head.snapshot, head.chain) if head and head.chain else None,
        active_message_id=None,
        active_message_digest=None,
        tail_bytes=0,
        has_base=False,
        is_deleting=False,
        is_legacy=True,
    )


class UnconvertedSessionError(Exception):
    """An acceptable write to a session that is still Genkit's: it has to be made ours first."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id
