"""Reading a turn's events wherever it runs: from memory where that is here, else from its row once it is settled."""

from collections.abc import AsyncGenerator
from typing import Protocol

from functions.dialects.native import ERROR
from functions.engine.assembly import Event
from functions.engine.broadcast import NumberedEvent
from functions.engine.ending import events_of
from functions.engine.engine import Engine
from functions.engine.running import RunningTurn
from store.contract import SnapshotReader, SnapshotSubscriber
from store.errors import LeaseLostError, SnapshotNotFoundError
from store.models import SameSend, Scope, Snapshot, SnapshotStatus


class FollowedStore(SnapshotReader, SnapshotSubscriber, Protocol):
    """What following a turn needs of a store."""


async def events_of_turn(
    engine: Engine, store: FollowedStore, scope: Scope, turn: RunningTurn | SameSend
) -> AsyncGenerator[NumberedEvent, None]:
    """The turn's events from the first one on, then as they come, until its end."""
    running = turn if isinstance(turn, RunningTurn) else engine.running(scope, turn.snapshot_id)
    if running is not None:
        async for numbered in running.broadcast.read():
            yield numbered
        return
    assert isinstance(turn, SameSend)
    snapshot = await wait_until_settled(store, scope, turn.snapshot_id)
    if snapshot.status is SnapshotStatus.EXPIRED:
        error = LeaseLostError(turn.snapshot_id)
        yield NumberedEvent(1, Event(ERROR, {"code": error.code, "message": error.message}))
        return
    for number, event in enumerate(events_of(snapshot), start=1):
        yield NumberedEvent(number, event)


async def wait_until_settled(store: FollowedStore, scope: Scope, snapshot_id: str) -> Snapshot:
    """The row with its state once it is settled, or has expired. SnapshotNotFoundError where it vanishes."""
    async with store.on_snapshot_status_change(scope, snapshot_id) as statuses:
        async for status in statuses:
            if status.is_terminal:
                break
    snapshot = await store.get_snapshot(scope, snapshot_id)
    if snapshot is None:
        raise SnapshotNotFoundError(snapshot_id)
    return snapshot
