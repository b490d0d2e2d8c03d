"""Everybody else who touches a session while turns run: aborters, renamers, readers, the heartbeat of an instance, and
those who save rows from aside."""

from store.errors import ConflictError, NotFoundError, UnavailableError
from store.rules.history import messages_of
from store.state import State
from tests.properties.ledger import SessionView
from tests.properties.oracle import require
from tests.properties.scheduler import Killed
from tests.properties.world import SCOPE, Instance, World


def _sessions(world: World) -> list[SessionView]:
    return list(world.oracle.ledger.sessions.values())


async def any_session(world: World) -> SessionView | None:
    """One of the sessions that are there, once there is one; None where there never will be."""
    await world.scheduler.pause("looks for a session")
    sessions = _sessions(world)
    return sessions[world.choices.pick([1] * len(sessions))] if sessions else None


async def abort_some(world: World, count: int) -> None:
    """Aborts the running turn, or an old one, by row or by session."""
    for _ in range(count):
        session = await any_session(world)
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
    """Gives the session new titles, now and then a new model."""
    for _ in range(count):
        session = await any_session(world)
        if session is None:
            continue
        title = f"title {world.mint()}"
        model = "newer" if world.choices.chance(0.3) else None
        try:
            renamed = await world.any_instance().store.update_session(SCOPE, session.id, title=title, model=model)
        except (UnavailableError, ConflictError, NotFoundError, Killed):
            continue
        require(renamed.title == title, f"a session renamed to {title!r} answered {renamed.title!r}")


async def read_some(world: World, count: int) -> None:
    """Reads as clients poll: what comes must be one of the states that were published, never a half of one."""
    for _ in range(count):
        session = await any_session(world)
        if session is None:
            continue
        store = world.any_instance().store
        try:
            transcript = await store.get_transcript(SCOPE, session.id)
            latest = await store.get_latest_snapshot(SCOPE, session.id)
        except (UnavailableError, Killed):
            continue
        if transcript is not None:
            _require_published(world, transcript.session.head_snapshot_id, transcript.state)
        if latest is not None and latest.state is not None:
            _require_published(world, latest.snapshot_id, latest.state)


def _require_published(world: World, row_id: str | None, state: State | None) -> None:
    require(state == world.oracle.ledger.states.get(row_id or ""), f"{row_id} was read with a state that it never had")


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
    for (_, told), beat in zip(batch, beats, strict=True):
        world.oracle.beaten(told, beat)


async def rewind_some(world: World, count: int) -> None:
    """Truncates and restores."""
    for _ in range(count):
        session = await any_session(world)
        if session is None or session.head_id is None:
            continue
        world.minted()
        try:
            await _rewind(world, world.any_instance(), session)
        except (ConflictError, NotFoundError) as refusal:
            world.oracle.never_stored(world.minted(), refusal.code)
        except (UnavailableError, Killed):
            continue


async def _rewind(world: World, instance: Instance, session: SessionView) -> None:
    """By a client that saw the session as it is now, and may name its tail."""
    ledger, choices = world.oracle.ledger, world.choices
    tail = session.last_message_id if choices.chance(0.5) else None
    rows = ledger.resumable(session.id)
    messages = [message.key for message in messages_of(ledger.states.get(session.head_id or ""))]
    if messages and choices.chance(0.6):
        message_id = messages[choices.pick([1] * len(messages))]
        await instance.store.truncate(SCOPE, session.id, str(message_id), tail)
    else:
        await instance.store.restore(SCOPE, session.id, rows[choices.pick([1] * len(rows))], tail)


async def delete_some(world: World) -> None:
    """Deletes the session, and repeats that until it is done or refused. Not one that a first message has opened: its
    resend would open it again."""
    session = await any_session(world)
    if session is None or session.id != "session":
        return
    for _ in range(2):
        try:
            await world.any_instance().store.delete_session(SCOPE, session.id)
        except (UnavailableError, Killed):
            continue
        except (ConflictError, NotFoundError):
            return
        await world.oracle.gone(session.id)
        return
