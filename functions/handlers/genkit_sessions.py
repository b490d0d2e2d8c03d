"""Where a turn of Genkit's goes on. Its clients choose the ids of sessions: an unknown one is one to be opened."""

from dataclasses import dataclass

from functions.wire.genkit import AgentInit
from functions.wiring import FullStore
from store.errors import InvalidRequestError, SnapshotNotFoundError, StoreError
from store.models import Scope


@dataclass(frozen=True, slots=True)
class Place:
    """`session_id` is the session, else `new_session_id` the one to be opened (neither: any new one). `refusal` is why
    the turn cannot go on."""

    session_id: str | None = None
    new_session_id: str | None = None
    good_snapshot_id: str | None = None
    refusal: StoreError | None = None


async def place_of(store: FullStore, scope: Scope, init: AgentInit) -> Place:
    """InvalidRequestError where a snapshot and a session are named that do not belong together."""
    if init.snapshot_id is not None:
        return await _place_of_snapshot(store, scope, init.snapshot_id, init.session_id)
    if init.session_id is None:
        return Place()
    if await store.get_session(scope, init.session_id) is not None:
        return Place(session_id=init.session_id)
    return Place(new_session_id=init.session_id)


async def _place_of_snapshot(store: FullStore, scope: Scope, snapshot_id: str, given_id: str | None) -> Place:
    row = await store.get_snapshot_metadata(scope, snapshot_id)
    if row is None:
        return Place(session_id=given_id, refusal=SnapshotNotFoundError(snapshot_id))
    if given_id not in (None, row.session_id):
        raise InvalidRequestError(f"The snapshot {snapshot_id!r} does not belong to session {given_id!r}.")
    return Place(session_id=row.session_id, good_snapshot_id=snapshot_id)
