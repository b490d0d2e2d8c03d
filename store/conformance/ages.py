"""Makes sessions older than they are, on every backend alike: nobody can move Firestore's clock. Holds no test."""

from datetime import datetime, timedelta
from typing import Any

from store.conformance.conversations import add, all_documents, plain_turn
from store.conformance.soundness import Inspected
from store.conformance.turns import ANN
from store.database import Kind, Query, Update
from store.models import NewSession, Scope, Session

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
A_DAY = 86_400.0  # seconds: a temporary session's life
_EXPIRY = ("expiresAt", "firesessionExpireAt")
_TIMES = {Kind.POINTERS: ("updatedAt", "dueAt", *_EXPIRY)}


async def age(stores: Inspected, session_id: str, by: timedelta, tenant: str = ANN.tenant) -> None:
    """Whatever was to happen to the session at some time happens that much earlier."""
    for path, document in (await all_documents(stores)).items():
        names = (document.fields.get("sessionId"), document.fields.get("id"))
        if path.tenant == tenant and session_id in names:
            times = {
                name: at - by
                for name in _TIMES.get(path.kind, _EXPIRY)
                if isinstance(at := document.fields.get(name), datetime)
            }
            await stores.database.commit([Update(path, times)])


async def aged(
    stores: Inspected, session_id: str, by: timedelta, *, scope: Scope = ANN, temporary: bool = False, turns: int = 1
) -> Session:
    """A session with so many turns, used last that long ago; a temporary one was made that long ago."""
    store = stores.open()
    await store.create_session(scope, session_id, NewSession("echo", lifetime=A_DAY if temporary else None))
    for n in range(turns):
        await add(store, session_id, plain_turn(f"{session_id}-{n}"), scope=scope)
    session = await store.get_session(scope, session_id)
    assert session is not None
    await age(stores, session_id, by, scope.tenant)
    return session


async def kept(stores: Inspected) -> set[str]:
    """The ids of all sessions that are left, marked ones included."""
    return {path.id for path in await all_documents(stores) if path.kind is Kind.POINTERS}


async def records(stores: Inspected) -> dict[str, Any]:
    """The fields of all session documents by id."""
    found = (await stores.database.query(Query(Kind.POINTERS, None, ()))).documents
    return {document.path.id: document.fields for document in found}
