"""Those who write rows from aside, as a client does that knows nothing of turns."""

from collections.abc import Callable
from dataclasses import replace

from store.errors import ConflictError, NotFoundError, UnavailableError
from store.models import Snapshot, SnapshotStatus
from store.rules.history import messages_of
from store.state import EMPTY, Raw, State
from tests.properties.bystanders import any_session
from tests.properties.ledger import Meant, SessionView, Told
from tests.properties.scheduler import Killed
from tests.properties.world import SCOPE, Instance, World


async def save_some(world: World, count: int) -> None:
    """Saves heads, turns, corrections, aborts, and what somebody else's turn has come to."""
    kinds = (_save_head, _save_and_settle, _touch, _abort_by_save, _settle_by_save)
    for _ in range(count):
        session = await any_session(world)
        if session is None:
            continue
        try:
            await kinds[world.choices.pick((3, 2, 2, 2, 2))](world, world.any_instance(), session)
        except (UnavailableError, ConflictError, NotFoundError, Killed):
            continue


def _continued(state: State | None, message_id: str) -> State:
    message = Raw.of({"id": message_id, "role": "model", "content": [{"text": "Saved from aside."}]})
    return (state or EMPTY).with_messages([*messages_of(state), message])


async def _started(world: World, instance: Instance, session: SessionView) -> tuple[Told, Snapshot] | None:
    """A row that continues the present head, and what its client is told of it."""
    transcript = await instance.store.get_transcript(SCOPE, session.id)
    if transcript is None:
        return None
    row_id = f"save-{world.mint()}"
    state = _continued(transcript.state, f"{row_id}-m")
    meant = world.oracle.ledger.meant[row_id] = Meant(names_parent=True)
    meant.may_be("completed", state, f"{row_id}-m")
    parent = transcript.session.head_snapshot_id
    return world.oracle.ledger.tell(row_id, None), Snapshot(
        session.id, parent_id=parent, state=state, finish_reason="stop"
    )


async def _save(
    world: World, instance: Instance, told: Told, change: Callable[[Snapshot | None], Snapshot | None]
) -> Snapshot | None:
    """The stored row; None where it was refused, or `change` wanted nothing."""
    try:
        return await instance.store.save_snapshot(SCOPE, told.snapshot_id, change)
    except ConflictError as refusal:
        if told.snapshot_id not in world.oracle.ledger.rows:
            world.oracle.denied(told, refusal.code)
        return None


async def _save_head(world: World, instance: Instance, session: SessionView) -> None:
    """A completed row, which becomes the head where it is the newest."""
    started = await _started(world, instance, session)
    if started is None:
        return
    told, given = started
    saved = await _save(world, instance, told, lambda existing: None if existing else given)
    if saved is not None:
        world.oracle.acknowledged(told, saved)


async def _save_and_settle(world: World, instance: Instance, session: SessionView) -> None:
    """A pending row, which takes the lease, beats once, and completes."""
    started = await _started(world, instance, session)
    if started is None:
        return
    told, given = started
    pending = replace(given, status=SnapshotStatus.PENDING, state=None, finish_reason=None)
    if await _save(world, instance, told, lambda existing: None if existing else pending) is None:
        return
    await world.scheduler.pause("works", instance=instance)

    def completed(existing: Snapshot | None) -> Snapshot | None:
        if existing is None or existing.status is not SnapshotStatus.PENDING:
            return None
        return replace(existing, status=SnapshotStatus.COMPLETED, state=given.state, finish_reason="stop")

    saved = await _save(world, instance, told, completed)
    if saved is not None:
        world.oracle.acknowledged(told, saved)


async def _touch(world: World, instance: Instance, session: SessionView) -> None:
    """Corrects a settled row's metadata."""
    rows = world.oracle.ledger.resumable(session.id)
    if not rows:
        return
    row_id = rows[world.choices.pick([1] * len(rows))]
    world.oracle.ledger.touched.add(row_id)
    await instance.store.save_snapshot(SCOPE, row_id, lambda existing: existing and replace(existing, model="newer"))


async def _abort_by_save(world: World, instance: Instance, session: SessionView) -> None:
    """Flags the running row, as a client does that aborts by writing."""
    if session.active_id is None:
        return

    def flagged(existing: Snapshot | None) -> Snapshot | None:
        is_pending = existing is not None and existing.status is SnapshotStatus.PENDING
        return replace(existing, status=SnapshotStatus.ABORTING) if existing is not None and is_pending else None

    saved = await instance.store.save_snapshot(SCOPE, session.active_id, flagged)
    if saved is not None:
        world.oracle.ledger.flagged.add(session.active_id)


async def _settle_by_save(world: World, instance: Instance, session: SessionView) -> None:
    """Settles somebody else's running row, with or without a state."""
    active = session.active_id
    if active is None:
        return
    transcript = await instance.store.get_transcript(SCOPE, session.id)
    state = _continued(transcript.state if transcript else None, f"{active}-a")
    world.oracle.ledger.meant[active].may_be("completed", state, f"{active}-a")
    wants_state = world.choices.chance(0.5)

    def settled(existing: Snapshot | None) -> Snapshot | None:
        if existing is None or existing.status is not SnapshotStatus.PENDING:
            return None
        if not wants_state or transcript is None or existing.parent_id != transcript.session.head_snapshot_id:
            return replace(existing, status=SnapshotStatus.FAILED, finish_reason="failed")
        return replace(existing, status=SnapshotStatus.COMPLETED, state=state, finish_reason="stop")

    await instance.store.save_snapshot(SCOPE, active, settled)
