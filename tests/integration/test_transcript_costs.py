"""What changes to a transcript and reading it cost: round trips one after another, documents read and written, counted
on the emulator."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from store.documents.store import DocumentStore
from store.firestore.database import FirestoreDatabase
from store.models import NewSession
from store.state import State
from tests.contract.engine_turns import SummingAgent, engine_on, said
from tests.integration.counted import (
    ANN,
    Cost,
    Instance,
    Open,
    claim_of,
    claimed,
    large_state,
    latest,
    message,
    noise,
    opening,
    shard_count,
    talk,
)

STALENESS = 0.1  # seconds of real time
TURNS = 1000


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


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_a_truncate_is_one_read_and_one_commit(opened: Open, is_cold: bool) -> None:
    """2 / 1 / 2: the session; the new row with its patch, and the session."""
    author = opened()
    await talk(author, 4)
    instance = opened() if is_cold else author
    assert await instance.cost(instance.store.truncate(ANN, "s", "q3")) == Cost(2, 1, 2)
    assert await instance.cost(instance.store.truncate(ANN, "s", "q2", "a2")) == Cost(2, 1, 2)


async def test_a_cold_truncate_without_a_base_reads_the_shards_besides(opened: Open, raw: FirestoreDatabase) -> None:
    """3 / 1 + shards / 2, as a turn does."""
    author = opened(base_size=0)
    await talk(author, 3)
    shards = await shard_count(raw)
    cold = opened(base_size=0)
    assert await cold.cost(cold.store.truncate(ANN, "s", "q3")) == Cost(3, 1 + shards, 2)


async def test_a_truncate_that_changes_nothing_writes_nothing(opened: Open) -> None:
    author = opened()
    await talk(author, 2)
    assert await author.cost(author.store.truncate(ANN, "s", "a2")) == Cost(1, 1, 0)


async def test_a_truncate_that_takes_a_dead_lease_reads_its_row_once(opened: Open) -> None:
    """3 / 2 / 3: the stale row too."""
    author = opened(lease_staleness=STALENESS)
    await talk(author, 2)
    await claimed(author, claim_of(3))
    await asyncio.sleep(2 * STALENESS)
    assert await author.cost(author.store.truncate(ANN, "s", "q2")) == Cost(3, 2, 3)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_a_restore_reads_the_row_that_it_takes_back(opened: Open, is_cold: bool) -> None:
    """Its state too where it is not in memory: 4 / 2 + shards / 2."""
    author = opened()
    rows = await talk(author, 3)
    await author.store.truncate(ANN, "s", "q1")
    instance = opened() if is_cold else author
    cost = await instance.cost(instance.store.restore(ANN, "s", rows[0].snapshot_id))
    assert cost == Cost(4, 3, 2)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_a_compaction_costs_what_a_turn_does(opened: Open, is_cold: bool) -> None:
    """3 / 1 / 4: two to take the lease, under which the agent works, and one to give it back."""
    author = opened()
    await talk(author, 3)
    instance = opened() if is_cold else author
    async with engine_on(instance.store, SummingAgent("summary")) as engine:
        before = instance.calls.snapshot()
        await engine.compact(ANN, "s", None)
        spent = instance.calls.since(before)
    rpcs = {name: count for name, count in spent.rpcs.items() if name != "Listen"}  # one stream for all of an instance
    assert sum(rpcs.values()) == 3
    assert (spent.read, spent.written) == (1, 4)


async def test_an_automatic_compaction_costs_nothing_besides_its_turn(opened: Open) -> None:
    """3 / 1 / 4 for both."""
    instance = opened()
    await talk(instance, 3, size=400)
    async with engine_on(instance.store, SummingAgent("summary"), compact_at_tokens=100) as engine:
        tail = (await latest(instance)).last_message_id
        before = instance.calls.snapshot()
        row = await said(engine, instance.store, "s")
        spent = instance.calls.since(before)
    assert tail != row.last_message_id
    state = (await latest(instance)).state
    assert state is not None
    assert len(state.messages or ()) == 9
    rpcs = {name: count for name, count in spent.rpcs.items() if name != "Listen"}
    assert sum(rpcs.values()) == 3 + 1  # `said` asks for the tail itself
    assert (spent.read, spent.written) == (1 + 1, 4)


async def test_a_page_of_the_tree_is_two_round_trips_and_its_rows(opened: Open) -> None:
    author = opened()
    await talk(author, 5)
    cold = opened()
    assert await cold.cost(cold.store.list_snapshots(ANN, "s", 3)) == Cost(2, 1 + 3, 0)


async def test_deleting_reads_each_document_once(opened: Open, raw: FirestoreDatabase) -> None:
    """Rows and shards in batches of 100, after the mark and before the session document, which each batch asks for: its
    id may be in use again."""
    author = opened()
    await talk(author, 5)
    documents = 5 + await shard_count(raw) + 1
    cost = await author.cost(author.store.delete_session(ANN, "s"))
    assert cost.written == documents + 1  # the mark
    batches = 2  # one of rows, one of shards
    assert cost.read == documents + 1 + batches + 4  # an empty answer ends each kind, and is billed as one
    assert await shard_count(raw) == 0


def long_state(size: int) -> State:
    """A transcript of a thousand turns, with answers of `size` characters."""
    messages = []
    for n in range(1, TURNS + 1):
        messages += [message(f"q{n}", "user", f"question {n}"), message(f"a{n}", "model", noise(n, size))]
    return State.of({"messages": []}).with_messages(messages)


async def saved(store: DocumentStore, state: State) -> None:
    """The session "s" with that state."""
    await store.create_session(ANN, "s", NewSession("echo"), state)


async def pages(instance: Instance, count: int) -> list[Cost]:
    """What one page after the other costs, as the messages' handler reads them."""
    return [await instance.cost(instance.store.get_transcript(ANN, "s")) for _ in range(count)]


async def test_pages_of_a_thousand_turns_in_the_session_document_read_that_alone(opened: Open) -> None:
    author = opened()
    await saved(author.store, long_state(20))
    assert await pages(author, 3) == [Cost(1, 1, 0)] * 3
    assert await pages(opened(), 3) == [Cost(1, 1, 0)] * 3


async def test_pages_of_a_thousand_long_turns_read_the_shards_once(opened: Open, raw: FirestoreDatabase) -> None:
    """Two MiB, which no session document holds: the first page of a cold instance reads all, the others nothing."""
    author = opened()
    await saved(author.store, long_state(2000))
    shards = await shard_count(raw)
    assert shards > 30
    assert await pages(author, 2) == [Cost(1, 1, 0)] * 2
    assert await pages(opened(), 3) == [Cost(2, 1 + shards, 0), Cost(1, 1, 0), Cost(1, 1, 0)]


async def test_a_branch_writes_what_it_copies_and_nothing_of_the_source(opened: Open, raw: FirestoreDatabase) -> None:
    author = opened()
    await saved(author.store, large_state().with_messages([message("q1", "user", "x"), message("a1", "model", "y")]))
    shards = await shard_count(raw)
    cost = await author.cost(author.store.branch(ANN, "s", "a1"))
    assert cost.rpcs == 4  # whether it is there, the source, the commit, and how it is
    assert cost.written == 2 + await shard_count(raw) - shards
