"""The ids of sessions whose clients choose them: each user has a name space of their own, so that nobody can find out,
or take, another's. What the client calls `x` is `x~{hash of the user}` in the store; a session whose id was minted here
is called by that id."""

import uuid
from dataclasses import dataclass

from functions.wire.genkit import AgentInit
from functions.wiring import FullStore
from store.errors import InvalidRequestError, SessionNotFoundError, SnapshotNotFoundError, StoreError
from store.models import Scope, Snapshot

_USERS = uuid.UUID("0d7f2c43-6f0e-5c8d-8a43-9a1b7f8c1d52")  # our own namespace


@dataclass(frozen=True, slots=True)
class Place:
    """Where a turn goes on. `session_id` is the stored session, else `new_session_id` the one to be opened (neither:
    any new one). `refusal` is why it cannot; `given_id` is what the client calls the session."""

    session_id: str | None = None
    new_session_id: str | None = None
    given_id: str | None = None
    good_snapshot_id: str | None = None
    refusal: StoreError | None = None


def stored_id(scope: Scope, given_id: str) -> str:
    """The stored id of a session that the client has named."""
    return given_id + _suffix(scope)


def client_id(scope: Scope, session_id: str) -> str:
    """What the client calls a stored session."""
    return session_id.removesuffix(_suffix(scope))


def _suffix(scope: Scope) -> str:
    return "~" + str(uuid.uuid5(_USERS, f"{scope.tenant}\n{scope.user}"))


async def place_of(store: FullStore, scope: Scope, init: AgentInit) -> Place:
    """InvalidRequestError where a snapshot and a session are named that do not belong together."""
    if init.snapshot_id is not None:
        return await _place_of_snapshot(store, scope, init.snapshot_id, init.session_id)
    if init.session_id is None:
        return Place()
    for session_id in (stored_id(scope, init.session_id), init.session_id):
        if await store.get_session(scope, session_id) is not None:
            return Place(session_id=session_id, given_id=init.session_id)
    return Place(new_session_id=stored_id(scope, init.session_id), given_id=init.session_id)


async def _place_of_snapshot(store: FullStore, scope: Scope, snapshot_id: str, given_id: str | None) -> Place:
    row = await store.get_snapshot_metadata(scope, snapshot_id)
    if row is None:
        return Place(given_id=given_id, refusal=SnapshotNotFoundError(snapshot_id))
    own_id = client_id(scope, row.session_id)
    if given_id not in (None, own_id, row.session_id):
        raise InvalidRequestError(f"The snapshot {snapshot_id!r} does not belong to session {given_id!r}.")
    return Place(session_id=row.session_id, given_id=own_id, good_snapshot_id=snapshot_id)


async def latest(store: FullStore, scope: Scope, given_id: str, *, metadata_only: bool) -> Snapshot:
    """The latest snapshot of a session. SessionNotFoundError."""
    read = store.get_latest_snapshot_metadata if metadata_only else store.get_latest_snapshot
    for session_id in (stored_id(scope, given_id), given_id):
        found = await read(scope, session_id)
        if found is not None:
            return found
    raise SessionNotFoundError(given_id)
