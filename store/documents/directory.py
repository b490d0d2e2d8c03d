"""Session records: create, list, rename."""

import base64
import binascii
import json
from dataclasses import replace
from datetime import datetime, timedelta

from store.database import (
    SERVER_TIME,
    Committed,
    CommitUnansweredError,
    Condition,
    Create,
    Document,
    Kind,
    Query,
    Update,
)
from store.documents.claims import record_identity
from store.documents.commits import Retries, expiry_fields, try_commit
from store.documents.loading import read_one_record, visible_record
from store.documents.reading import with_activity
from store.documents.saves import save_snapshot
from store.documents.shelf import Shelf, record_path
from store.errors import InvalidRequestError, SessionNotFoundError
from store.layout import records
from store.models import NewSession, Scope, Session, SessionPage, Snapshot
from store.rules.retention import due_at
from store.state import State


async def create_session(
    shelf: Shelf, scope: Scope, session_id: str | None, new: NewSession, custom: State | None = None
) -> Session:
    """A session without any turn; the caller's own under the same id is given back as it is. `custom` is the state of
    its root snapshot, made in the same commit."""
    session_id = shelf.mint() if session_id is None else session_id
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
        temporary=new.lifetime is not None,
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
        start_after=None if cursor is None else _open_cursor(cursor),
        limit=limit,
        mask=records.METADATA_FIELDS,
    )
    found = await shelf.database.query(query)
    visible = [visible_record(scope, document, found.time) for document in found.documents]
    sessions = tuple(record.session for record in visible if record is not None)
    return SessionPage(sessions, _cursor(found.documents[-1]) if len(found.documents) == limit else None)


def _cursor(document: Document) -> str:
    place = [document.fields["updatedAt"].isoformat(), document.path.id]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _open_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        time, session_id = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        return datetime.fromisoformat(time), str(session_id)
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidRequestError("The cursor was not made here.") from error


async def update_session(shelf: Shelf, scope: Scope, session_id: str, *, title: str) -> Session:
    """Renames. Blind in all but the session's existence, so that a running turn is no hindrance."""
    retries = Retries(shelf)
    while True:
        read = await read_one_record(shelf, scope, session_id, with_copy=False)
        if read.record is None:
            raise SessionNotFoundError(session_id)
        write = Update(
            record_path(scope, session_id),
            {"title": title, "updatedAt": SERVER_TIME},
            update_time=read.record.update_time,
        )
        result = await try_commit(shelf, [write])
        if isinstance(result, Committed):
            session = await with_activity(shelf, scope, read)
            return replace(session, title=title, updated_at=result.server_time)
        await retries.wait(result)
