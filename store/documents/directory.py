"""Session records: create, list, rename."""

from dataclasses import replace
from datetime import datetime, timedelta

from store.database import (
    SERVER_TIME,
    Committed,
    CommitUnansweredError,
    Condition,
    Create,
    Kind,
    Query,
    Update,
    Write,
)
from store.documents.claim_checks import require_stale
from store.documents.claims import record_identity
from store.documents.commits import Retries, expiry_fields, try_commit
from store.documents.conversions import convert
from store.documents.loading import read_one_record, visible_record
from store.documents.pages import cursor_after, open_cursor
from store.documents.reading import with_activity
from store.documents.saves import save_snapshot
from store.documents.settlements import plan_stale_settlement
from store.documents.shelf import Shelf, record_path
from store.errors import SessionNotFoundError
from store.ids import require_session_id
from store.layout import records
from store.layout.fields import present
from store.layout.records import LEASE_FIELDS, Record
from store.models import NewSession, Scope, Session, SessionPage, Snapshot
from store.rules.fields import require_session_fields, require_texts
from store.rules.retention import due_at
from store.state import State


async def create_session(
    shelf: Shelf, scope: Scope, session_id: str | None, new: NewSession, custom: State | None = None
) -> Session:
    """A session without any turn; the caller's own under the same id is given back as it is. `custom` is the state of
    its root snapshot, made in the same commit."""
    session_id = shelf.mint() if session_id is None else require_session_id(session_id)
    shelf.require_scope(scope)
    require_session_fields(new)
    if custom is not None:
        root = Snapshot(session_id, state=custom, model=new.model)
        await save_snapshot(shelf, scope, None, lambda _: root, new, only_in_new_session=True)
    retries = Retries(shelf)
    while True:
        read = await read_one_record(shelf, scope, session_id, with_copy=False)
        if read.record is not None:
            return await with_activity(shelf, scope, read)
        expires_at = None if new.lifetime is None else read.time + timedelta(seconds=new.lifetime)
        fields = record_identity(scope, session_id, new) | expiry_fields(expires_at)
        times = {"createdAt": SERVER_TIME, "updatedAt": SERVER_TIME, "dueAt": due_at(read.time, expires_at)}
        result = await try_commit(shelf, [Create(record_path(scope, session_id), fields | times)])
        if isinstance(result, Committed):
            return _made(scope, session_id, new, result.server_time, expires_at)
        await _require_own(shelf, scope, session_id, result)
        await retries.wait(result)


async def _require_own(shelf: Shelf, scope: Scope, session_id: str, doubt: Exception) -> None:
    """After a refusal the id is taken: by this caller, or by somebody whose session answers as missing."""
    if isinstance(doubt, CommitUnansweredError):
        return
    if (await read_one_record(shelf, scope, session_id, with_copy=False)).record is None:
        raise SessionNotFoundError(session_id)


def _made(scope: Scope, session_id: str, new: NewSession, created_at: datetime, expires_at: datetime | None) -> Session:
    return Session(
        id=session_id,
        owner_id=scope.user,
        agent=new.agent,
        title=new.title,
        model=new.model,
        created_at=created_at,
        updated_at=created_at,
        temporary=new.is_temporary,
        expires_at=expires_at,
    )


async def list_sessions(shelf: Shelf, scope: Scope, limit: int, cursor: str | None = None) -> SessionPage:
    """One query. A session in a list does not say whether a turn is alive: that would cost a read each."""
    shelf.require_scope(scope)
    query = Query(
        Kind.POINTERS,
        scope.tenant,
        (Condition("ownerId", "==", scope.user), Condition("temporary", "==", False)),
        order=(("updatedAt", True),),
        start_after=open_cursor(cursor),
        limit=limit,
        mask=records.METADATA_FIELDS,
    )
    found = await shelf.database.query(query)
    visible = [visible_record(scope, document, found.time) for document in found.documents]
    sessions = tuple(record.session for record in visible if record is not None)
    return SessionPage(
        sessions, cursor_after(found.documents[-1], "updatedAt") if len(found.documents) == limit else None
    )


async def update_session(
    shelf: Shelf, scope: Scope, session_id: str, *, title: str | None = None, model: str | None = None
) -> Session:
    """Renames, which a running turn does not hinder; changes the model, which it does: TurnBusyError."""
    require_texts(title=title, model=model)
    retries = Retries(shelf)
    is_repeated = False
    while True:
        read = await read_one_record(shelf, scope, session_id, with_copy=False)
        if read.record is None:
            raise SessionNotFoundError(session_id)
        if read.record.is_legacy:
            await convert(shelf, scope, session_id, NewSession(read.record.session.agent))
            continue
        if is_repeated and _is_as_asked(read.record.session, title, model):
            return await with_activity(shelf, scope, read)  # an earlier try has landed, and must not be refused now
        stale = [] if model is None else await _stale_writes(shelf, scope, read.record)
        fields = present(title=title, model=model, updatedAt=SERVER_TIME)
        remove = LEASE_FIELDS if stale else ()
        write = Update(read.record.document.path, fields, remove=remove, update_time=read.record.update_time)
        result = await try_commit(shelf, [write, *stale])
        if isinstance(result, Committed):
            released = replace(read.record.session, active_snapshot_id=None)
            session = released if stale else await with_activity(shelf, scope, read)
            changed = present(title=title, model=model, updated_at=result.server_time)
            return replace(session, **changed)
        await retries.wait(result)
        is_repeated = True


def _is_as_asked(session: Session, title: str | None, model: str | None) -> bool:
    return title in (None, session.title) and model in (None, session.model)


async def _stale_writes(shelf: Shelf, scope: Scope, record: Record) -> list[Write]:
    active_id = record.session.active_snapshot_id
    stale = await require_stale(shelf, scope, active_id) if active_id else None
    return [] if stale is None else plan_stale_settlement(scope, stale, shelf.mint())
