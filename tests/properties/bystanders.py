"""Everybody else who touches a session while turns run: aborters, renamers, readers, the heartbeat of an instance, and
those who save rows from aside."""

from collections.abc import Callable
from dataclasses import replace

from store.errors import ConflictError, NotFoundError, UnavailableError
from store.models import Snapshot, SnapshotStatus
from store.rules.history import messages_of
from store.state import EMPTY, Raw, State
from tests.properties.ledger import Attempt, SessionView
from tests.properties.oracle import require
from tests.properties.scheduler import Killed
from tests.properties.world import SCOPE, Instance, World


def _sessions(world: World) -> list[SessionView]:
    return list(world.oracle.ledger.sessions.values())


async def _any_session(world: World) -> SessionView | None:
    """One of the sessions that are there, once there is one; None where there never will be."""
    await world.scheduler.pause("looks for a session")
    sessions = _sessions(world)
    return sessions[world.choices.pick([1] * len(sessions))] if sessions else None


async def abort_some(world: World, count: int) -> None:
    """Aborts the running turn, or an old one, by row or by session."""
    for _ in range(count):
        session = await _any_session(world)
        if session is None:
            continue
        instance = world.any_instance()
        rows = [row.id for row in world.oracle.ledger.rows.values() if row.session_id == session.id]
        target = session.active_id or (rows[world.choices.pick([1] * len(rows))] if rows else None)
        try:
            if target is None or world.choices.chance(0.4):
                answer = await instance.store.abort_session(SCOPE, session.id)
            else:
                answer = await instance.store.abort_turn(SCOPE, target)
        except (UnavailableError, NotFoundError, Killed):
            continue
        world.oracle.aborted(answer)


async def rename_some(world: World, count: int) -> None:
    """Gives the session new titles."""
    for _ in range(count):
        session = await _any_session(world)
        if session is None:
            continue
        title = f"title {world.mint()}"
        try:
            renamed = await world.any_instance().store.update_session(SCOPE, session.id, title=title)
        except (UnavailableError, Killed):
            continue
        require(renamed.title == title, f"a session renamed to {title!r} answered {renamed.title!r}")


async def read_some(world: World, count: int) -> None:
    """Reads as clients poll: what comes must be one of the states that were published, never a half of one."""
    for _ in range(count):
        session = await _any_session(world)
        if session is None:
            continue
        store = world.any_instance().store
        try:
            transcript = await store.get_transcript(SCOPE, session.id)
            latest = await store.get_latest_snapshot(SCOPE, session.id)
        except (UnavailableError, Killed):
            continue
        assert transcript is not None
        _require_published(world, transcript.session.head_snapshot_id, transcript.state)
        if latest is not None and latest.state is not None:
            _require_published(world, latest.snapshot_id, latest.state)


def _require_published(world: World, row_id: str | None, state: State | None) -> None:
    row = world.oracle.ledger.rows.get(row_id or "")
    digest = None if state is None else state.digest
    require(digest == (row.state_digest if row else None), f"{row_id} was read with a state that it never had")


async def beat_some(world: World, index: int, count: int) -> None:
    """Beats for all turns of one instance in one call."""
    for _ in range(count):
        instance = world.instances[index]
        await world.scheduler.pause("is about to beat")
        if instance.is_dead or not instance.beating:
            continue
        instance.beats_under_way += 1
        try:
            await _beat(world, instance)
        except (UnavailableError, Killed):
            continue
        finally:
            instance.beats_under_way -= 1


async def _beat(world: World, instance: Instance) -> None:
    batch = list(instance.beating.values())
    beats = await instance.store.heartbeat([lease for lease, _ in batch])
    for (_, attempt), beat in zip(batch, beats, strict=True):
        world.oracle.beaten(attempt, beat)


async def save_some(world: World, count: int) -> None:
    """Writes rows as a client does that knows nothing of turns."""
    kinds = (_save_head, _save_and_settle, _touch, _abort_by_save, _settle_by_save)
    for _ in range(count):
        session = await _any_session(world)
        if session is None:
            continue
        try:
            await kinds[world.choices.pick((3, 2, 2, 2, 2))](world, world.any_instance(), session)
        except (UnavailableError, ConflictError, Killed):
            continue


def _continued(state: State | None, message_id: str) -> State:
    message = Raw.of({"id": message_id, "role": "model", "content": [{"text": "Saved from aside."}]})
    return (state or EMPTY).with_messages([*messages_of(state), message])


async def _started(world: World, instance: Instance, session: SessionView) -> tuple[Attempt, Snapshot] | None:
    """A row that continues the present head, and its attempt."""
    transcript = await instance.store.get_transcript(SCOPE, session.id)
    if transcript is None:
        return None
    row_id = f"save-{world.mint()}"
    state = _continued(transcript.state, f"{row_id}-m")
    attempt = Attempt(row_id, None, names_parent=True)
    attempt.may_publish("completed", state, f"{row_id}-m")
    world.oracle.ledger.attempts[row_id] = attempt
    parent = transcript.session.head_snapshot_id
    return attempt, Snapshot(session.id, parent_id=parent, state=state, finish_reason="stop")


async def _save(
    world: World, instance: Instance, attempt: Attempt, change: Callable[[Snapshot | None], Snapshot | None]
) -> Snapshot | None:
    """The stored row; None where it was refused, or `change` wanted nothing."""
    try:
        return await instance.store.save_snapshot(SCOPE, attempt.snapshot_id, change)
    except ConflictError as refusal:
        if attempt.snapshot_id not in world.oracle.ledger.rows:
            world.oracle.denied(attempt, refusal.code)
        return None


async def _save_head(world: World, instance: Instance, session: SessionView) -> None:
    """A completed row, which becomes the head where it is the newest."""
    started = await _started(world, instance, session)
    if started is None:
        return
    attempt, given = started
    saved = await _save(world, instance, attempt, lambda existing: None if existing else given)
    if saved is not None:
        world.oracle.acknowledged(attempt, saved)


async def _save_and_settle(world: World, instance: Instance, session: SessionView) -> None:
    """A pending row, which takes the lease, beats once, and completes."""
    started = await _started(world, instance, session)
    if started is None:
        return
    attempt, given = started
    pending = replace(given, status=SnapshotStatus.PENDING, state=None, finish_reason=None)
    if await _save(world, instance, attempt, lambda existing: None if existing else pending) is None:
        return
    await world.scheduler.pause("works", instance=instance)

    def completed(existing: Snapshot | None) -> Snapshot | None:
        if existing is None or existing.status is not SnapshotStatus.PENDING:
            return None
        return replace(existing, status=SnapshotStatus.COMPLETED, state=given.state, finish_reason="stop")

    saved = await _save(world, instance, attempt, completed)
    if saved is not None:
        world.oracle.acknowledged(attempt, saved)


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
    world.oracle.ledger.attempts[active].may_publish("completed", state, f"{active}-a")
    wants_state = world.choices.chance(0.5)

    def settled(existing: Snapshot | None) -> Snapshot | None:
        if existing is None or existing.status is not SnapshotStatus.PENDING:
            return None
        if not wants_state or transcript is None or existing.parent_id != transcript.session.head_snapshot_id:
            return replace(existing, status=SnapshotStatus.FAILED, finish_reason="failed")
        return replace(existing, status=SnapshotStatus.COMPLETED, state=state, finish_reason="stop")

    await instance.store.save_snapshot(SCOPE, active, settled)
