"""Following a turn that another instance runs, or that is over: from its segments, its row's status, its messages."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Protocol, TypeAlias

from functions.dialects.native import ERROR, TURN_END
from functions.engine.assembly import Event
from functions.engine.broadcast import NumberedEvent
from functions.engine.ending import events_of, last_model_message, turn_end
from functions.logs import coded
from store.contract import SnapshotReader, SnapshotSubscriber, TurnStreams
from store.errors import LeaseLostError, SnapshotNotFoundError, StoreError, UnavailableError
from store.layout.segments import EventLog
from store.models import Scope, Segment, Snapshot, SnapshotStatus

SLOW_POLL = 15.0  # seconds without a delivery, after which a follower looks by itself

_LOG = logging.getLogger("firesession.following")
_PAUSE = 1.0  # seconds until a runner is asked for again that is not there yet; its first segment takes as long
_EXPIRED = "The turn's instance stopped answering. Unless it comes back, nothing of the turn is stored: send it again."
_LONGEST_PAUSE = 8.0  # where the database does not answer

Read: TypeAlias = Callable[[], Awaitable[list[Segment]]]
"""Gives all segments of the turn that are kept."""


class FollowedStore(SnapshotReader, SnapshotSubscriber, TurnStreams, Protocol):
    """What following a turn needs of a store."""


async def follow(
    store: FollowedStore, scope: Scope, snapshot_id: str, after: int = 0, *, asks: bool = True
) -> AsyncGenerator[NumberedEvent, None]:
    """The turn's events behind number `after`: as its runner writes them, and its end once its row is settled. The
    runner is asked to write them, unless `asks` says that it would not hear."""
    log = EventLog(snapshot_id)
    seen = after
    snapshot: Snapshot | None = None
    # More than once where an owner that was taken for dead beats again before its row is read.
    while snapshot is None or not snapshot.status.is_terminal:
        async with AsyncExitStack() as watches:
            segments = await watches.enter_async_context(store.watch_segments(scope, snapshot_id))
            statuses = await watches.enter_async_context(store.on_snapshot_status_change(scope, snapshot_id))
            if asks:
                await watches.enter_async_context(_asking(store, scope, snapshot_id))
            read = partial(store.read_segments, scope, snapshot_id)
            deliveries = await watches.enter_async_context(aclosing(_until_settled(segments, read, statuses)))
            async for found in deliveries:
                for numbered in _events(log, found):
                    # The end is told once the row says so: a log can be written ahead of the commit that ends the turn.
                    if numbered.id > seen and numbered.event.name != TURN_END:
                        seen = numbered.id
                        yield numbered
        snapshot = await store.get_snapshot(scope, snapshot_id)
        if snapshot is None:
            raise SnapshotNotFoundError(snapshot_id)
    for numbered in await _ended(store, scope, snapshot, seen):
        yield numbered


@asynccontextmanager
async def _asking(store: FollowedStore, scope: Scope, snapshot_id: str) -> AsyncIterator[None]:
    asking = asyncio.create_task(_ask(store, scope, snapshot_id), name=f"firesession-asking-{snapshot_id}")
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _ask(store: FollowedStore, scope: Scope, snapshot_id: str) -> None:
    """Until the runner is asked for the turn's events. One that waits in a queue has no runner yet."""
    pause = _PAUSE
    while True:
        try:
            if await store.request_segments(scope, snapshot_id):
                return
            pause = _PAUSE
        except SnapshotNotFoundError:
            return  # its follower is told so by the row's status
        except StoreError as error:
            told = coded(error)
            _LOG.warning("the events of turn %s were not asked for: %s", snapshot_id, error.code, extra=told)
            pause = min(2 * pause, _LONGEST_PAUSE)
        await asyncio.sleep(pause)


async def _ended(store: FollowedStore, scope: Scope, snapshot: Snapshot, seen: int) -> list[NumberedEvent]:
    """What is left to tell of a turn that is over, to a reader that knows the events up to `seen`."""
    snapshot_id = snapshot.snapshot_id
    # Read anew: what was followed may have been written twice, the second time with more in it.
    kept = list(_events(EventLog(snapshot_id), await store.read_segments(scope, snapshot_id)))
    if snapshot.status is SnapshotStatus.EXPIRED:
        kept = [numbered for numbered in kept if numbered.event.name != TURN_END]
        last = Event(ERROR, {"code": LeaseLostError.code, "message": _EXPIRED})
        kept.append(NumberedEvent(max(seen, len(kept)) + 1, last))
    elif not kept and seen == 0:
        kept = [NumberedEvent(number, event) for number, event in enumerate(events_of(snapshot), start=1)]
    elif not kept or not _tells_end_of(snapshot, kept[-1].event):
        kept = [numbered for numbered in kept if numbered.event.name != TURN_END]
        # Its own number, where it is known: what lies between was never written, and the reader sees that from the gap.
        number = max(snapshot.event_count or 0, seen + 1, len(kept) + 1)
        kept.append(NumberedEvent(number, turn_end(snapshot, last_model_message(snapshot))))
    return [numbered for numbered in kept if numbered.id > seen]


def _tells_end_of(snapshot: Snapshot, event: Event) -> bool:
    """Whether the log's last event is the row's end: one that was written ahead may have been overruled."""
    return event.name == TURN_END and event.data["status"] == snapshot.status.value


async def can_continue(store: FollowedStore, scope: Scope, snapshot: Snapshot, after: int) -> bool:
    """Whether the events of a settled turn can be told from behind `after`, and there are any: from the first one
    always, else only while they are kept."""
    if after == 0 or not snapshot.status.is_terminal:
        return True
    kept = await store.read_segments(scope, snapshot.snapshot_id)
    if snapshot.status is SnapshotStatus.EXPIRED:
        return bool(kept)  # its log has no end: that is still to be told
    return any(segment.last_event_id is not None and segment.last_event_id > after for segment in kept)


def _events(log: EventLog, segments: Sequence[Segment]) -> list[NumberedEvent]:
    return [NumberedEvent(number, Event(name, data)) for number, name, data in log.feed(segments)]


async def _until_settled(
    segments: AsyncIterator[list[Segment]], read: Read, statuses: AsyncIterator[SnapshotStatus]
) -> AsyncGenerator[list[Segment], None]:
    """Segments as they come, until the row is settled or has expired."""
    found: asyncio.Queue[list[Segment] | None] = asyncio.Queue()
    tasks = (asyncio.create_task(_pass_on(segments, read, found)), asyncio.create_task(_pass_on_end(statuses, found)))
    try:
        while (delivery := await found.get()) is not None:
            yield delivery
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(
    segments: AsyncIterator[list[Segment]], read: Read, found: "asyncio.Queue[list[Segment] | None]"
) -> None:
    try:
        async for delivery in _with_looks(segments, read):
            found.put_nowait(delivery)
    except Exception:
        found.put_nowait(None)
        raise


async def _with_looks(segments: AsyncIterator[list[Segment]], read: Read) -> AsyncIterator[list[Segment]]:
    """The deliveries, and where none come for a while what `read` finds, since a listener can die in silence. A turn
    that is silent itself is looked at ever more rarely: each look costs all of its segments."""
    pause, known = SLOW_POLL, 0
    upcoming = asyncio.ensure_future(anext(segments, None))
    try:
        while True:
            await asyncio.wait((upcoming,), timeout=pause)
            if not upcoming.done():
                with suppress(UnavailableError):
                    looked = await read()
                    pause, known = SLOW_POLL if len(looked) > known else 2 * pause, len(looked)
                    yield looked
            elif (delivery := upcoming.result()) is not None:
                upcoming = asyncio.ensure_future(anext(segments, None))
                pause = SLOW_POLL
                yield delivery
            else:
                return
    finally:
        upcoming.cancel()
        await asyncio.gather(upcoming, return_exceptions=True)


async def _pass_on_end(statuses: AsyncIterator[SnapshotStatus], found: "asyncio.Queue[list[Segment] | None]") -> None:
    try:
        async for _ in statuses:
            pass  # only the end counts
    finally:
        found.put_nowait(None)
