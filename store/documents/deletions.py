"""Deleting a session: marked in one commit, from when on it reads as missing; then document by document, resumably."""

from collections.abc import AsyncIterator, Sequence

from store.database import SERVER_TIME, Committed, Condition, Delete, Document, Kind, Query, Update, Write
from store.documents.claim_checks import require_stale
from store.documents.commits import Retries, try_commit
from store.documents.conversions import convert
from store.documents.legacy import may_read
from store.documents.loading import is_anothers, read_one_row, visible_record
from store.documents.settlements import plan_row_end, plan_stale_settlement
from store.documents.shelf import Shelf, record_path, shard_path
from store.errors import SessionNotFoundError
from store.layout.records import LEASE_FIELDS, METADATA_FIELDS, Record, read_record
from store.legacy.rows import is_legacy, own_shards
from store.models import NewSession, Scope, SnapshotStatus

BATCH = 100
_FIELDS = ("sessionId", "formatVersion", "ownerId", "kind", "checkpointShardCount")
_KINDS = (Kind.SNAPSHOTS, Kind.SHARDS, Kind.STREAMS, Kind.BLOBS)


async def delete_session(shelf: Shelf, scope: Scope, session_id: str) -> None:
    """Afterwards no document of the session remains. A call that was cut short is finished by the next one.
    SessionNotFoundError, TurnBusyError."""
    await _mark(shelf, scope, session_id)
    await delete_marked(shelf, scope, session_id)


async def _mark(shelf: Shelf, scope: Scope, session_id: str) -> None:
    retries = Retries(shelf)
    while True:
        path = record_path(shelf.require_scope(scope), session_id)
        read = await shelf.database.get([path], mask=METADATA_FIELDS)
        document = read.documents[path]
        if document is not None and is_legacy(document) and may_read(shelf):
            await convert(shelf, scope, session_id, NewSession(agent=""))
            continue
        if document is None or is_legacy(document) or is_anothers(scope, document):
            raise SessionNotFoundError(session_id)
        record = read_record(document)
        if record.is_deleting:
            return
        if visible_record(scope, document, read.time) is None:
            raise SessionNotFoundError(session_id)
        result = await try_commit(shelf, await plan_mark(shelf, scope, record))
        if isinstance(result, Committed):
            return
        await retries.wait(result)


async def plan_mark(shelf: Shelf, scope: Scope, record: Record, *, force: bool = False) -> list[Write]:
    """From this commit on the session reads as missing; refused if it was written since `record` was read.
    TurnBusyError while a turn lives, unless `force`: then the turn is settled as aborted, and its owner is fenced."""
    active_id = record.session.active_snapshot_id
    writes = plan_bare_mark(record.document)
    if active_id is None:
        return writes
    settled_by = f"delete:{shelf.mint()}"
    if force:
        row = (await read_one_row(shelf, scope, active_id)).row
        is_running = row is not None and not row.snapshot.status.is_terminal
        return (
            [*writes, *plan_row_end(scope, row, SnapshotStatus.ABORTED, settled_by)] if row and is_running else writes
        )
    stale = await require_stale(shelf, scope, active_id)
    return writes if stale is None else [*writes, *plan_stale_settlement(scope, stale, settled_by)]


def plan_bare_mark(document: Document) -> list[Write]:
    """The mark alone, for whatever a session document holds. It is due at once, so that a deletion that is cut short is
    finished by the next sweep."""
    mark = {"deleting": True, "updatedAt": SERVER_TIME, "dueAt": SERVER_TIME}
    return [Update(document.path, mark, remove=LEASE_FIELDS, update_time=document.update_time)]


async def delete_marked(shelf: Shelf, scope: Scope, session_id: str, most: int | None = None) -> int | None:
    """Deletes the documents of a session that is marked, its own last. With `most`, no more than about as many
    documents: how many were deleted, or None where that limit left some over."""
    deleted = 0
    for kind in _KINDS:
        async for count in _batches(shelf, scope, session_id, kind):
            deleted += count
            if most is not None and deleted >= most:
                return None
    await _delete_record(shelf, scope, session_id)
    return deleted + 1


async def _batches(shelf: Shelf, scope: Scope, session_id: str, kind: Kind) -> AsyncIterator[int]:
    """All documents of one kind, in batches; each delete repeats the version that was found to be the session's.

    Another call may finish the deletion meanwhile, and the id be used again: what was found before the session was seen
    to be still marked is none of its successor's."""
    where = (Condition("sessionId", "==", session_id),)
    query = Query(kind, scope.tenant, where, limit=BATCH, mask=_FIELDS)
    retries = Retries(shelf)
    while found := (await shelf.database.query(query)).documents:
        if await _marked(shelf, scope, session_id) is None:
            return
        writes = [*_deletes(scope, found), *(Delete(document.path, document.update_time) for document in found)]
        result = await try_commit(shelf, writes)
        if isinstance(result, Committed):
            yield len(writes)
        else:
            await retries.wait(result)


def _deletes(scope: Scope, documents: Sequence[Document]) -> list[Write]:
    """The shards of rows that Genkit wrote: they name no session, but follow from their row's id."""
    rows = [document for document in documents if document.path.kind is Kind.SNAPSHOTS and is_legacy(document)]
    return [Delete(shard_path(scope.tenant, shard_id)) for row in rows for shard_id in own_shards(row)]


async def _delete_record(shelf: Shelf, scope: Scope, session_id: str) -> None:
    retries = Retries(shelf)
    while (document := await _marked(shelf, scope, session_id)) is not None:
        result = await try_commit(shelf, [Delete(document.path, document.update_time)])
        if isinstance(result, Committed):
            return
        await retries.wait(result)


async def _marked(shelf: Shelf, scope: Scope, session_id: str) -> Document | None:
    """The session's document while it is marked; None once it is gone, or another session has its id."""
    path = record_path(scope, session_id)
    document = (await shelf.database.get([path], mask=METADATA_FIELDS)).documents[path]
    return document if document is not None and document.fields.get("deleting") is True else None
