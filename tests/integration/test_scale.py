"""The model behind docs/scale.md: each operation that it counts beside the real one, counted on the emulator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from functions.engine import recording
from functions.wire.retention import MOST_SWEPT, SweepRequest
from store.adapters.own_ids import stored_id
from store.database import Document, Kind, Path, Query, Update
from store.documents.sweeping import _EXAMINED_PER_DELETED
from store.firestore.database import FirestoreDatabase
from store.models import NewSession, Scope
from store.rules.retention import BUCKETS
from tests.benchmarks.conversation import Conversation
from tests.benchmarks.prose import cut_in_order, reference_prose
from tests.benchmarks.sizes import document_size
from tests.contract.engine_turns import request_of
from tests.integration.counted import ANN, Instance, Open, claim_of, claimed, message, opening, settle, talk, turn
from tests.integration.index_entries import INDEXES, entry_sizes
from tests.integration.instances import PacedAgent, instance
from tests.integration.many_sessions import fill, sessions_of, time_of
from tools.scale_model import (
    ABORT,
    ABORT_HEARD,
    CHECKPOINT,
    CHECKPOINT_INTERVAL,
    DUE_BUCKETS,
    DUE_CHANGES,
    EMPTY_SWEEP,
    FIRST_TURN,
    HEARTBEAT,
    LOG,
    POLL,
    POLL_DURING_TURN,
    REFUSAL,
    REQUEST,
    REQUEST_DONE,
    REQUEST_HEARD,
    SEGMENT,
    SEGMENT_SECONDS,
    STORED,
    TURN,
    TURNS_STORED,
    WITHOUT_EXEMPTIONS,
    Counts,
    Limits,
    cap_check,
    deletion,
    following,
    listing,
    look,
    segments_of,
)

DAY = timedelta(days=1)
STALENESS = 0.1
SECONDS = 2.5  # of the turn whose segments are counted


@pytest.fixture
async def opened(emulator_host: str, project_id: str) -> AsyncIterator[Open]:
    """Opens instances on one project, which is empty at first."""
    async with opening(project_id, emulator_host) as open_one:
        yield open_one


@pytest.fixture
async def raw(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    """The documents themselves."""
    database = FirestoreDatabase(project_id, emulator_host=emulator_host)
    yield database
    await database.close()


async def spent(one: Instance, operation: Awaitable[object]) -> Counts:
    """What an operation asks for that deletes nothing."""
    return Counts(*await one.cost(operation))


async def documents(raw: FirestoreDatabase, kind: Kind) -> list[Document]:
    return (await raw.query(Query(kind, None, ()))).documents


async def test_turns_refusals_and_polls(opened: Open) -> None:
    one = opened()
    assert await spent(one, turn(one, 1, None)) == FIRST_TURN
    await one.store.create_session(ANN, "s", NewSession("echo"))
    costs = [await spent(one, turn(one, n)) for n in range(1, CHECKPOINT_INTERVAL + 2)]
    assert costs[1:-1] == [TURN] * (CHECKPOINT_INTERVAL - 1)
    assert costs[-1] == TURN + CHECKPOINT
    assert await spent(one, one.store.get_session(ANN, "s")) == POLL
    assert await spent(one, one.store.get_transcript(ANN, "s")) == POLL
    again = claim_of(CHECKPOINT_INTERVAL + 1)
    assert await spent(one, one.store.claim_turn(ANN, again)) == REFUSAL
    await claimed(one, claim_of(CHECKPOINT_INTERVAL + 2))
    assert await spent(one, one.store.get_session(ANN, "s")) == POLL_DURING_TURN


async def test_heartbeats_and_aborts(opened: Open) -> None:
    """All beats go in one request, which the model leaves out for being shared."""
    one, other = opened(), opened()
    leases = [await claimed(one, claim_of(1, None, message=message(f"m{n}", "user", "x"))) for n in range(7)]
    assert await spent(one, one.store.heartbeat(leases)) == HEARTBEAT * 7 + Counts(requests=1)
    async with one.store.watch_aborts("instance-1") as aborts:
        assert await anext(aborts) == []
        before = one.calls.snapshot()
        assert await spent(other, other.store.abort_turn(ANN, leases[0].snapshot_id)) == ABORT
        assert await anext(aborts) == [leases[0].snapshot_id]
        heard = one.calls.since(before)
    assert Counts(heard.sent, heard.read, heard.written) == ABORT_HEARD


async def test_lists_and_the_cap(opened: Open, raw: FirestoreDatabase) -> None:
    one, ann = opened(), Scope("acme", "ann")
    assert await spent(one, one.store.list_sessions(ann, 5)) == listing(0)
    assert await spent(one, one.store.trim_sessions(ann)) == cap_check(0)
    await fill(raw, sessions_of(ann, 7, await time_of(raw)))
    assert await spent(one, one.store.list_sessions(ann, 5)) == listing(5)
    assert await spent(one, one.store.trim_sessions(ann)) == cap_check(7)


async def test_a_sweeps_looks(opened: Open, raw: FirestoreDatabase) -> None:
    """A due session stands for the read that its bucket costs where nothing is due; the tenant's rules are read once,
    and what is put off goes in a request for each bucket."""
    one = opened()
    assert await spent(one, one.store.sweep()) == EMPTY_SWEEP
    now = await time_of(raw)
    due: dict[Path, dict[str, Any]] = {}
    for n in range(3):
        scope = Scope("acme", f"user-{n}")
        due |= sessions_of(scope, 1, now - 2 * DAY, "due")
        put_off = {path: fields | {"dueAt": now + DAY} for path, fields in sessions_of(scope, 4, now, "other").items()}
        await fill(raw, put_off)
    await fill(raw, due)
    buckets = len({fields["bucket"] for fields in due.values()})
    swept = await spent(one, one.store.sweep())
    assert swept == EMPTY_SWEEP + look(5) * 3 + Counts(requests=1 + buckets, reads=1 - buckets)


async def test_deleting_a_session(opened: Open, raw: FirestoreDatabase) -> None:
    """By the sweep, which reads the tenant's rules besides; a delete is counted as a write."""
    one = opened()
    rows = len(await talk(one, 3))
    shards = len(await documents(raw, Kind.SHARDS))
    path = Path(Kind.POINTERS, ANN.tenant, stored_id(ANN, "s"))
    session = (await raw.get([path])).documents[path]
    assert session is not None
    await raw.commit([Update(path, {name: session.fields[name] - 40 * DAY for name in ("updatedAt", "dueAt")})])
    swept = await spent(one, one.store.sweep())
    expected = EMPTY_SWEEP + deletion(rows, shards) + Counts(requests=1, reads=1)
    assert (swept.requests, swept.reads) == (expected.requests, expected.reads)
    assert swept.writes == expected.writes + expected.deletes
    assert await documents(raw, Kind.SNAPSHOTS) == []


async def test_the_events_of_a_turn_that_nobody_follows(opened: Open, raw: FirestoreDatabase) -> None:
    """In real time: all of them with the turn's end. One that is over within a second stores none."""
    one = opened()
    for pause, log in ((0.01, Counts()), (0.15, LOG)):
        async with instance(one.store, PacedAgent(10, pause)) as here:
            before = one.calls.snapshot()
            running = await here.start(request_of(None, "Hello"))
            assert [event async for event in running.broadcast.read()]
            spent = one.calls.since(before)
        assert spent.written == (FIRST_TURN + log).writes
        assert spent.rpcs["Commit"] == 2
    assert len(await documents(raw, Kind.STREAMS)) == 1


async def test_the_events_of_a_turn_that_is_followed_from_elsewhere(opened: Open, raw: FirestoreDatabase) -> None:
    """In real time: a segment a second at most, and so many where the machine keeps up. The request for them is deleted
    with the end, which counts as written."""
    assert recording.INTERVAL == SEGMENT_SECONDS
    now = asyncio.get_running_loop().time
    one, elsewhere = opened(), opened()
    agent = PacedAgent(count=round(SECONDS / 0.1), pause=0.1)
    async with instance(one.store, agent) as here, instance(elsewhere.store, agent) as there:
        before, began = one.calls.snapshot(), now()
        running = await here.start(request_of(None, "Hello"))
        followed = await spent(elsewhere, there.read(running))
        seconds = now() - began
        after = one.calls.since(before)
        again = await spent(elsewhere, there.read(running))
    count = len(await documents(raw, Kind.STREAMS)) - 1
    assert 1 <= count <= segments_of(seconds)
    assert after.written == (FIRST_TURN + SEGMENT * count + LOG).writes + REQUEST_DONE.deletes
    assert after.rpcs["Commit"] == 2 + count
    assert followed.writes == REQUEST.writes
    most = REQUEST + following(count + 1)
    assert followed.requests <= most.requests
    assert followed.reads - sent_again(count) <= most.reads
    assert again.writes == 0
    assert again.requests <= following(count + 1).requests
    assert again.reads <= following(count + 1).reads


def sent_again(segments: int) -> int:
    """What the emulator delivers besides: with each change of a query's documents all of them, where the service
    delivers the one that has changed. They are the request, the segments, and the last one, which replaces the request.
    """
    sizes: list[int] = [*range(1, segments + 2), segments + 1]
    return sum(sizes) - len(sizes)


async def test_a_request_for_events_is_heard(opened: Open) -> None:
    one, other = opened(), opened()
    lease = await claimed(one, claim_of(1, None))
    async with one.store.watch_segment_requests("instance-1") as requests:
        assert await anext(requests) == []
        before = one.calls.snapshot()
        assert await spent(other, other.store.request_segments(ANN, lease.snapshot_id)) == REQUEST
        assert await anext(requests) == [lease.snapshot_id]
        heard = one.calls.since(before)
    assert Counts(heard.sent, heard.read, heard.written) == REQUEST_HEARD


async def test_a_turn_moves_its_session_in_the_index_of_what_is_due(opened: Open, raw: FirestoreDatabase) -> None:
    one, path = opened(), Path(Kind.POINTERS, ANN.tenant, stored_id(ANN, "s"))
    await talk(one, 2)

    async def due() -> object:
        document = (await raw.get([path])).documents[path]
        assert document is not None
        return document.fields["dueAt"]

    moments = [await due()]
    lease = await claimed(one, claim_of(3))
    moments.append(await due())
    await asyncio.sleep(0.01)
    await settle(one, lease, 3)
    moments.append(await due())
    assert sum(before != after for before, after in pairwise(moments)) == DUE_CHANGES
    assert DUE_BUCKETS == BUCKETS


def test_the_sweeps_limits_are_the_projects() -> None:
    limits = Limits()
    assert (limits.swept, limits.most_swept) == (SweepRequest.model_validate({}).limit, MOST_SWEPT)
    assert limits.looks_per_swept == _EXAMINED_PER_DELETED


async def test_documents_and_their_index_entries(opened: Open, raw: FirestoreDatabase) -> None:
    """Sizes within a twentieth: the text differs a little from one Python to the next."""
    conversation = Conversation(opened().store)
    await conversation.say(cut_in_order(reference_prose(), 2048, TURNS_STORED))
    for name, kind in (("row", Kind.SNAPSHOTS), ("shard", Kind.SHARDS), ("session", Kind.POINTERS)):
        check(name, await documents(raw, kind), tolerance=0.05)


async def test_logs_and_their_index_entries(opened: Open, raw: FirestoreDatabase) -> None:
    """Of an agent that says twelve numbers, each for itself."""
    async with instance(opened().store, PacedAgent(12, 0.1)) as here:
        running = await here.start(request_of(None, "Hello"))
        assert [event async for event in running.broadcast.read()]
    check("log", await documents(raw, Kind.STREAMS), tolerance=0.2)


async def test_index_entries_without_exemptions(opened: Open, raw: FirestoreDatabase) -> None:
    await Conversation(opened().store).say(cut_in_order(reference_prose(), 2048, TURNS_STORED))
    every_field = {"indexes": INDEXES["indexes"], "fieldOverrides": []}
    for name, kind in (("row", Kind.SNAPSHOTS), ("session", Kind.POINTERS)):
        entries = [entry_sizes(document, every_field) for document in await documents(raw, kind)]
        most, size = WITHOUT_EXEMPTIONS[name]
        assert max(map(len, entries)) == most
        assert sum(map(sum, entries)) / len(entries) == pytest.approx(size, rel=0.05)


def check(name: str, found: list[Document], tolerance: float) -> None:
    """The mean of these documents is what the model says."""
    assert found
    stored = STORED[name]
    entries = [entry_sizes(document) for document in found]
    assert {len(sizes) for sizes in entries} == {stored.entries}
    assert sum(map(sum, entries)) / len(found) == pytest.approx(stored.entries_size, rel=tolerance)
    assert sum(map(document_size, found)) / len(found) == pytest.approx(stored.size, rel=tolerance)
