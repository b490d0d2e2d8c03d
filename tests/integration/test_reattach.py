"""Following a turn from another instance: each event once, in order, numbered as the live stream numbers them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path as Directory

import pytest

from functions.agents.base import TextDelta
from functions.engine import recording
from functions.engine.attaching import events_of_turn
from functions.engine.broadcast import NumberedEvent
from functions.engine.following import can_continue
from store.database import Delete, Document, Kind, Query
from store.models import SameSend
from tests.contract.engine_turns import ASK, ScriptedAgent, finished, interrupting, request_of, said
from tests.contract.stores import FileStores, FirestoreStores, MemoryStores, Stores
from tests.contract.turns import ANN, COMPLETED, require
from tests.integration.instances import PacedAgent, instances

INTERVAL = 0.1  # seconds between segments, in place of the usual second
PARTS = [TextDelta("one "), TextDelta("two")]


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "INTERVAL", INTERVAL)


@pytest.fixture(params=["memory", "file", "firestore"])
async def stores(request: pytest.FixtureRequest, tmp_path: Directory) -> AsyncIterator[Stores]:
    opened: Stores
    if request.param == "memory":
        opened = MemoryStores()
    elif request.param == "file":
        opened = FileStores(tmp_path / "sessions")
    else:
        opened = FirestoreStores(request.getfixturevalue("project_id"), request.getfixturevalue("emulator_host"))
    yield opened
    await opened.close()


async def remove_segments(stores: Stores) -> None:
    found = await stores.database.query(Query(Kind.STREAMS, ANN.tenant, ()))
    await stores.database.commit([Delete(document.path) for document in found.documents])


async def test_joining_at_fifty_random_moments_gives_every_event_once_in_order(stores: Stores) -> None:
    """With the live stream's numbers; from the start, or from behind what was seen already."""
    draw = random.Random(13)
    async with instances(PacedAgent(120, 0.01), stores.open(), stores.open()) as (here, there):
        turn = await here.start(request_of())
        live = asyncio.create_task(here.read(turn))

        async def join(moment: float) -> tuple[int, list[NumberedEvent]]:
            await asyncio.sleep(moment)
            after = draw.choice([0, draw.randint(0, turn.broadcast.count)])
            return after, await there.read(turn, after)

        joined = await asyncio.gather(*(join(draw.uniform(0, 1.4)) for _ in range(50)))
        whole = await live
    assert [numbered.id for numbered in whole] == list(range(1, 123))
    for after, seen in joined:
        assert seen == whole[after:], after


async def test_a_reader_may_leave_and_go_on_at_every_event(stores: Stores) -> None:
    async with instances(PacedAgent(40, 0.02), stores.open(), stores.open()) as both:
        turn = await both[0].start(request_of())
        live = asyncio.create_task(both[0].read(turn))
        named = SameSend(turn.lease.session_id, turn.lease.snapshot_id, is_running=True)
        seen: list[NumberedEvent] = []
        while len(seen) < 42:
            reader = both[len(seen) % 2]
            after = seen[-1].id if seen else 0
            async with aclosing(events_of_turn(reader.engine, reader.store, ANN, named, after)) as events:
                seen.append(await anext(events))
        assert seen == await live


def others_tasks() -> set[asyncio.Task[object]]:
    """Those that run and are not the engines'."""
    return {task for task in asyncio.all_tasks() if not task.get_name().startswith("firesession")}


async def test_a_reader_that_leaves_leaves_nothing_behind(stores: Stores) -> None:
    async with instances(PacedAgent(60, 0.01), stores.open(), stores.open()) as (here, there):
        turn = await here.start(request_of())
        named = SameSend(turn.lease.session_id, turn.lease.snapshot_id, is_running=True)
        async with aclosing(events_of_turn(there.engine, there.store, ANN, named)) as events:
            await anext(events)
            before = others_tasks()
            for _ in range(20):
                async with aclosing(events_of_turn(there.engine, there.store, ANN, named)) as others:
                    await anext(others)
            async with asyncio.timeout(5):
                while len(others_tasks()) > len(before):  # noqa: ASYNC110 - a call that was given up ends a little later
                    await asyncio.sleep(0.01)
        await here.read(turn)


async def test_a_turn_within_the_first_interval_writes_no_segment(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "INTERVAL", 60)
    async with instances(ScriptedAgent(), stores.open(), stores.open()) as (here, there):
        turn = await finished(here.engine, request_of())
        assert await there.store.read_segments(ANN, turn.lease.snapshot_id) == []
        told = await there.read(turn)
        assert [(event.id, event.event.name) for event in told] == [
            (1, "turn-start"),
            (2, "text-delta"),
            (3, "turn-end"),
        ]
        assert told == await asyncio.wait_for(collect(turn.broadcast.read()), 1)


async def test_a_reader_elsewhere_in_the_middle_of_a_short_turn_is_told_its_end_by_its_own_number(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events between were never written: the gap in the numbers says so, and the end carries the whole message."""
    monkeypatch.setattr(recording, "INTERVAL", 60)
    go_on = asyncio.Event()
    async with instances(ScriptedAgent([*PARTS, go_on, *PARTS]), stores.open(), stores.open()) as (here, there):
        turn = await here.start(request_of())
        reader = asyncio.create_task(there.read(turn, 2))
        await stores.wait(INTERVAL)
        go_on.set()
        whole = await here.read(turn)
        assert await there.store.read_segments(ANN, turn.lease.snapshot_id) == []
        assert await reader == [whole[-1]]
    assert (whole[-1].id, whole[-1].event.name) == (6, "turn-end")
    assert whole[-1].event.data["message"]["content"] == [{"text": "one two" * 2}]


async def collect(events: AsyncIterator[NumberedEvent]) -> list[NumberedEvent]:
    return [event async for event in events]


async def documents_of_logs(stores: Stores) -> list[Document]:
    return (await stores.database.query(Query(Kind.STREAMS, ANN.tenant, ()))).documents


async def test_a_longer_turn_that_nobody_follows_writes_its_log_with_its_end_and_nothing_before(stores: Stores) -> None:
    go_on = asyncio.Event()
    async with instances(ScriptedAgent([*PARTS, go_on, *PARTS]), stores.open(), stores.open()) as (here, there):
        turn = await here.start(request_of())
        await asyncio.sleep(INTERVAL * 4)
        assert await documents_of_logs(stores) == []
        go_on.set()
        whole = await here.read(turn)
        (segment,) = await there.store.read_segments(ANN, turn.lease.snapshot_id)
        assert (segment.first_event_id, segment.last_event_id) == (1, 6)
        assert [await there.read(turn, after) for after in range(6)] == [whole[after:] for after in range(6)]


async def test_a_followed_turn_writes_one_segment_an_interval_at_most(stores: Stores) -> None:
    clock = asyncio.get_running_loop().time
    async with instances(PacedAgent(100, 0.01), stores.open(), stores.open()) as (here, there):
        started = clock()
        turn = await here.start(request_of())
        followed = await there.read(turn)
        intervals = int((clock() - started) / INTERVAL)
        assert followed == await here.read(turn)
        segments = await here.store.read_segments(ANN, turn.lease.snapshot_id)
        assert len(await documents_of_logs(stores)) == len(segments), "the request goes with the turn"
    assert 2 <= len(segments) <= intervals + 1  # the last one is part of the settle
    assert (segments[0].first_event_id, segments[-1].last_event_id) == (1, turn.broadcast.count)


async def test_a_followed_turn_that_only_waits_writes_nothing_meanwhile(stores: Stores) -> None:
    go_on = asyncio.Event()
    async with instances(ScriptedAgent([go_on]), stores.open(), stores.open()) as (here, there):
        turn = await here.start(request_of())
        follower = asyncio.create_task(there.read(turn))
        while not await here.store.read_segments(ANN, turn.lease.snapshot_id):  # noqa: ASYNC110 - the write is somebody else's
            await asyncio.sleep(INTERVAL / 10)
        await asyncio.sleep(INTERVAL * 4)
        assert len(await here.store.read_segments(ANN, turn.lease.snapshot_id)) == 1  # the start
        go_on.set()
        assert await follower == await here.read(turn)


async def test_a_runner_that_dies_ends_its_followers_with_an_error(stores: Stores) -> None:
    staleness = max(stores.moment, 1.0)
    first = stores.open(lease_staleness=staleness)
    second = stores.open(lease_staleness=staleness)
    agent = PacedAgent(20, 0.02)
    async with instances(agent, first, second) as (here, there):
        turn = await here.start(request_of())
        follower = asyncio.create_task(there.read(turn))
        await asyncio.sleep(INTERVAL * 2.5)
        await here.die()
        await asyncio.sleep(0.5)  # the agent's own end
        if staleness > 1:
            assert not follower.done()
            follower.cancel()  # a clock that stands still wakes nobody who waits for it
            await asyncio.gather(follower, return_exceptions=True)
        await stores.wait(staleness)
        seen = await there.read(turn) if staleness > 1 else await asyncio.wait_for(follower, 10)
    *events, end = seen
    assert [event.id for event in seen] == list(range(1, len(seen) + 1))
    assert (end.event.name, end.event.data["code"]) == ("error", "agent_session_lease_lost")
    assert events
    assert [event.event for event in events] == list(turn.broadcast.events[: len(events)])


async def test_a_follower_of_an_owner_that_is_late_is_not_told_that_nothing_was_stored(stores: Stores) -> None:
    staleness = max(stores.moment, 1.0)
    first, second = (stores.open(lease_staleness=staleness) for _ in range(2))
    go_on = asyncio.Event()
    async with (
        asyncio.timeout(60),
        instances(ScriptedAgent([go_on, TextDelta("late")]), first, second) as (here, there),
    ):
        turn = await here.start(request_of())
        await stores.wait(staleness)
        end = (await there.read(turn))[-1].event
        go_on.set()
        await here.read(turn)
        row = await require(there.store, turn.lease.snapshot_id)
    assert (end.name, end.data["code"]) == ("error", "agent_session_lease_lost")
    assert "Unless it comes back" in end.data["message"]
    assert row.status is COMPLETED  # nobody has superseded it


async def test_after_the_segments_are_gone_the_stream_is_made_from_the_messages(stores: Stores) -> None:
    answer = [*PARTS, *interrupting(ASK)]
    async with instances(ScriptedAgent(answer), stores.open(), stores.open()) as (here, there):
        turn = await finished(here.engine, request_of())
        whole = await there.read(turn)
        await remove_segments(stores)
        again = await there.read(turn)
        row = await there.store.get_snapshot_metadata(ANN, turn.lease.snapshot_id)
        assert row is not None
        assert await can_continue(there.store, ANN, row, 0)
        assert not await can_continue(there.store, ANN, row, 1)
    assert [event.id for event in again] == list(range(1, len(again) + 1))
    assert (again[0].event, again[-1].event) == (whole[0].event, whole[-1].event)
    assert [event.event.name for event in again[1:-1]] == ["text-delta", "tool-request"]
    assert again[1].event.data["text"] == "".join(part.text for part in PARTS)


async def test_nothing_is_left_to_tell_a_reader_that_knows_the_end(stores: Stores) -> None:
    async with instances(PacedAgent(30, 0.01), stores.open()) as (here,):
        turn = await finished(here.engine, request_of())
        row = await here.store.get_snapshot_metadata(ANN, turn.lease.snapshot_id)
        assert row is not None
        last = turn.broadcast.count
        assert [await can_continue(here.store, ANN, row, after) for after in (1, last - 1, last, last + 5)] == [
            True,
            True,
            False,
            False,
        ]


async def test_the_same_send_attaches_on_the_other_instance_with_the_same_stream(stores: Stores) -> None:
    agent = PacedAgent(60, 0.01)
    request = request_of(message_is_named=True)
    async with instances(agent, stores.open(), stores.open()) as (here, there):
        turn = await here.start(request)
        live = asyncio.create_task(here.read(turn))
        again = await there.engine.start(request)
        assert again == SameSend(turn.lease.session_id, turn.lease.snapshot_id, is_running=True)
        seen = await collect(events_of_turn(there.engine, there.store, ANN, again))
        assert seen == await live
    assert agent.runs == 1


async def test_an_aborted_turn_ends_its_followers_with_what_was_stored(stores: Stores) -> None:
    async with instances(PacedAgent(2000, 0.01), stores.open(), stores.open()) as (here, there):
        turn = await here.start(request_of())
        live, follower = asyncio.create_task(here.read(turn)), asyncio.create_task(there.read(turn))
        await asyncio.sleep(INTERVAL * 3)
        await there.store.abort_turn(ANN, turn.lease.snapshot_id)
        whole = await asyncio.wait_for(live, 10)
        assert await asyncio.wait_for(follower, 10) == whole
    assert whole[-1].event.data["status"] == "aborted"


async def test_a_failed_turn_ends_its_followers_as_it_ends_its_reader(stores: Stores) -> None:
    """Its transcript is the one before, whose last message the log's end tells."""
    go_on = asyncio.Event()
    agent = ScriptedAgent([TextDelta("Hello")], [TextDelta("x"), go_on, RuntimeError("secret")])
    async with instances(agent, stores.open(), stores.open()) as (here, there):
        first = await said(here.engine, here.store)
        request = request_of(first.session_id, tail=first.last_message_id)
        turn = await here.start(request)
        live, follower = asyncio.create_task(here.read(turn)), asyncio.create_task(there.read(turn))
        await asyncio.sleep(INTERVAL * 2)
        go_on.set()
        whole = await live
        assert await follower == whole
    assert (whole[-1].event.data["status"], whole[-1].event.data["lastMessageId"]) == ("failed", first.last_message_id)
