"""Deleting a session: marked in one commit, from when on it reads as missing; then document by document, resumably."""

from store.database import SERVER_TIME, Committed, Condition, Delete, Kind, Query, Update, Write
from store.documents.claim_checks import require_stale
from store.documents.commits import Retries, try_commit
from store.documents.loading import visible_record
from store.documents.settlements import plan_stale_settlement
from store.documents.shelf import Shelf, record_path
from store.errors import SessionNotFoundError
from store.layout.records import LEASE_FIELDS, METADATA_FIELDS, Record, read_record
from store.models import Scope

BATCH = 100
_KINDS = (Kind.SNAPSHOTS, Kind.SHARDS, Kind.STREAMS, Kind.BLOBS)


async def delete_session(shelf: Shelf, scope: Scope, session_id: str) -> None:
    """Afterwards no document of the session remains. A call that was cut short is finished by the next one.
    SessionNotFoundError, TurnBusyError."""
    await _mark(shelf, scope, session_id)
    for kind in _KINDS:
        await _delete_documents(shelf, scope, session_id, kind)
    await _delete_record(shelf, scope, session_id)


async def _mark(shelf: Shelf, scope: Scope, session_id: str) -> None:
    retries = Retries(shelf)
    while True:
        path = record_path(shelf.require_scope(scope), session_id)
        read = await shelf.database.get([path], mask=METADATA_FIELDS)
        document = read.documents[path]
        record = read_record(document) if document is not None else None
        if record is None or record.session.owner_id != scope.user:
            raise SessionNotFoundError(session_id)
        if record.is_deleting:
            return
        if visible_record(scope, document, read.time) is None:
            raise SessionNotFoundError(session_id)
        result = await try_commit(shelf, await _mark_writes(shelf, scope, record))
        if isinstance(result, Committed):
            return
        await retries.wait(result)


async def _mark_writes(shelf: Shelf, scope: Scope, record: Record) -> list[Write]:
    active_id = record.session.active_snapshot_id
    stale = await require_stale(shelf, scope, active_id) if active_id else None
    mark = {"deleting": True, "updatedAt": SERVER_TIME}
    writes: list[Write] = [Update(record.document.path, mark, remove=LEASE_FIELDS, update_time=record.update_time)]
    return writes if stale is None else [*writes, *plan_stale_settlement(scope, stale, f"delete:{shelf.mint()}")]


async def _delete_documents(shelf: Shelf, scope: Scope, session_id: str, kind: Kind) -> None:
    """All documents of one kind, in batches; each delete repeats the version that was found to be the session's."""
    query = Query(kind, scope.tenant, (Condition("sessionId", "==", session_id),), limit=BATCH, mask=("sessionId",))
    retries = Retries(shelf)
    while found := (await shelf.database.query(query)).documents:
        result = await try_commit(shelf, [Delete(document.path, document.update_time) for document in found])
        if not isinstance(result, Committed):
            await retries.wait(result)


async def _delete_record(shelf: Shelf, scope: Scope, session_id: str) -> None:
    path = record_path(scope, session_id)
    retries = Retries(shelf)
    while True:
        read = await shelf.database.get([path], mask=METADATA_FIELDS)
        document = read.documents[path]
        if document is None or not read_record(document).is_deleting:
            return
        result = await try_commit(shelf, [Delete(path, document.update_time)])
        if isinstance(result, Committed):
            return
        await retries.wait(result)
