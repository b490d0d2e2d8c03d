"""What an operation may cost: round trips one after another, documents read and written, counted on the emulator.

Every line of the design's table that a store can be asked for. The counts are exact: a cheaper operation is as much a
change of the design as a dearer one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from store.errors import TranscriptStaleError, TurnBusyError
from store.firestore.database import FirestoreDatabase
from store.models import Beat, Claim, Lease, NewSession, SameSend, Scope, SnapshotStatus
from store.state import State
from tests.integration.counted import (
    ANN,
    Cost,
    Instance,
    Open,
    chain_of,
    claim_of,
    claimed,
    large_state,
    latest,
    message,
    opening,
    settle,
    shard_count,
    talk,
    turn,
)

STALENESS = 0.1  # seconds of real time, for the instances that are to find a lease too old
INTERVAL = 25  # the default: turns 1 and 26 are checkpoints


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


async def test_the_first_turn_of_a_new_session(opened: Open) -> None:
    """2 / 0 / 4, and the one run of its checkpoint."""
    instance = opened()
    assert await instance.cost(turn(instance, 1, None)) == Cost(2, 0, 4 + 1)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_a_turn_costs_the_same_at_any_length(opened: Open, is_cold: bool) -> None:
    """3 / 1 / 4; where it makes a checkpoint, also the runs of that. Cold: the base lies in the session document."""
    author = opened()
    await author.store.create_session(ANN, "s", NewSession("echo"))
    costs: dict[int, Cost] = {}
    for n in range(1, INTERVAL + 3):
        instance = opened() if is_cold else author
        costs[n] = await instance.cost(turn(instance, n))
    checkpoints = {1, INTERVAL + 1}
    assert costs == {n: Cost(3, 1, 4 + (n in checkpoints)) for n in costs}


async def test_the_two_parts_of_a_turn(opened: Open) -> None:
    """Claim 2 / 1 / 2, settle 1 / 0 / 2."""
    instance = opened()
    await talk(instance, 2)
    leases: list[Lease] = []

    async def claim() -> None:
        leases.append(await claimed(instance, claim_of(3)))

    assert await instance.cost(claim()) == Cost(2, 1, 2)
    assert await instance.cost(settle(instance, leases[0], 3)) == Cost(1, 0, 2)


@pytest.mark.parametrize("base_size", [0, 1000], ids=["no base", "a base that is too large"])
async def test_a_cold_turn_without_a_base_reads_the_shards_besides(
    opened: Open, raw: FirestoreDatabase, base_size: int
) -> None:
    """4 / 1 + shards / 4, whatever has been said since the checkpoint; warm it costs what every turn does."""
    author = opened(base_size=base_size)
    session = await author.store.create_session(ANN, "s", NewSession("echo"), large_state())
    assert session.head_snapshot_id is not None
    shards = len((await chain_of(raw, session.head_snapshot_id)).shards)
    assert shards > 1
    for n in (1, 2, 3):
        cold = opened(base_size=base_size)
        assert await cold.cost(turn(cold, n)) == Cost(4, 1 + shards, 4)
    assert await cold.cost(turn(cold, 4)) == Cost(3, 1, 4)


async def test_a_checkpoint_writes_the_runs_that_are_new(opened: Open, raw: FirestoreDatabase) -> None:
    """One of the few runs changes: that in which the messages lie."""
    instance = opened(checkpoint_interval=2)
    await instance.store.create_session(ANN, "s", NewSession("echo"), large_state())
    assert await instance.cost(turn(instance, 1)) == Cost(3, 1, 4)
    before = await shard_count(raw)
    cost = await instance.cost(turn(instance, 2))
    added = await shard_count(raw) - before
    chain = await chain_of(raw, (await latest(instance)).snapshot_id)
    assert chain.is_checkpoint
    assert cost == Cost(3, 1, 4 + added)
    assert 0 < added < len(chain.shards)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_taking_over_a_dead_lease(opened: Open, is_cold: bool) -> None:
    """4 / 2 / 5 for the turn that does it."""
    author = opened(lease_staleness=STALENESS)
    await talk(author, 2)
    await claimed(author, claim_of(3, runner="dead"))
    await asyncio.sleep(STALENESS * 1.5)
    instance = opened(lease_staleness=STALENESS) if is_cold else author
    assert await instance.cost(turn(instance, 3)) == Cost(4, 2, 5)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_refusing_a_claim(opened: Open, is_cold: bool) -> None:
    """2 / 2 / 0: busy reads the other turn's row; stale asks whether the message was sent before."""
    author = opened()
    await talk(author, 2)
    instance = opened() if is_cold else author
    assert await instance.cost(_stale(instance, claim_of(2, message=message("x", "user", "x")))) == Cost(2, 2, 0)
    unnamed = claim_of(2, message=message("x", "user", "x"), message_is_named=False)
    assert await instance.cost(_stale(instance, unnamed)) == Cost(1, 1, 0)
    await claimed(author, claim_of(3))
    instance = opened() if is_cold else author
    assert await instance.cost(_busy(instance, claim_of(3, message=message("x", "user", "x")))) == Cost(2, 2, 0)


async def _stale(instance: Instance, claim: Claim) -> None:
    with pytest.raises(TranscriptStaleError):
        await instance.store.claim_turn(ANN, claim)


async def _busy(instance: Instance, claim: Claim) -> None:
    with pytest.raises(TurnBusyError):
        await instance.store.claim_turn(ANN, claim)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_sending_the_same_message_again(opened: Open, is_cold: bool) -> None:
    """2 / 2 / 0: of a turn that runs its row, of one that is over what the query finds."""
    author = opened()
    await talk(author, 2)
    instance = opened() if is_cold else author
    assert await instance.cost(_sent_again(instance, claim_of(2), is_running=False)) == Cost(2, 2, 0)
    await claimed(author, claim_of(3))
    instance = opened() if is_cold else author
    assert await instance.cost(_sent_again(instance, claim_of(3), is_running=True)) == Cost(2, 2, 0)


async def _sent_again(instance: Instance, claim: Claim, *, is_running: bool) -> None:
    answer = await instance.store.claim_turn(ANN, claim)
    assert isinstance(answer, SameSend)
    assert answer.is_running is is_running


@pytest.mark.parametrize("count", [1, 50])
async def test_a_heartbeat_of_all_turns_is_one_round_trip(opened: Open, count: int) -> None:
    """1 / 0 / 1 per turn."""
    instance = opened()
    leases = [await claimed(instance, claim_of(1, None, message=message(f"m{n}", "user", "x"))) for n in range(count)]
    beats: list[Beat] = []

    async def beat() -> None:
        beats.extend(await instance.store.heartbeat(leases))

    assert await instance.cost(beat()) == Cost(1, 0, count)
    assert beats == [Beat.ALIVE] * count
    assert instance.calls.snapshot().rpcs["BatchWrite"] == 1


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_metadata_by_id(opened: Open, is_cold: bool) -> None:
    """1 / 1 / 0 for a checkpoint, a diff, a running and a missing row."""
    author = opened()
    first, second = await talk(author, 2)
    running = await claimed(author, claim_of(3))
    instance = opened() if is_cold else author
    for row_id in (first.snapshot_id, second.snapshot_id, running.snapshot_id, "missing"):
        assert await instance.cost(instance.store.get_snapshot_metadata(ANN, row_id)) == Cost(1, 1, 0)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_aborting(opened: Open, is_cold: bool) -> None:
    """2 / 1 / 1 by snapshot, 3 / 2 / 1 by session; of a settled row only the read."""
    author = opened()
    first = (await talk(author, 1))[0]
    lease = await claimed(author, claim_of(2))
    instance = opened() if is_cold else author
    assert await instance.cost(instance.store.abort_turn(ANN, lease.snapshot_id)) == Cost(2, 1, 1)
    await settle(author, lease, 2)
    await claimed(author, claim_of(3))
    assert await instance.cost(instance.store.abort_session(ANN, "s")) == Cost(3, 2, 1)
    assert await instance.cost(instance.store.abort_turn(ANN, first.snapshot_id)) == Cost(1, 1, 0)


async def test_ending_a_turn_that_nobody_would_stop(opened: Open) -> None:
    """Aborting a stale row also gives its lease back: both documents are read and written."""
    author = opened(lease_staleness=STALENESS)
    lease = await claimed(author, claim_of(1, None))
    await asyncio.sleep(STALENESS * 1.5)
    assert await author.cost(author.store.abort_turn(ANN, lease.snapshot_id)) == Cost(3, 2, 2)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_the_latest_row_with_its_state(opened: Open, is_cold: bool) -> None:
    """1 / 1 / 0 where it is the head, 2 / 2 / 0 where a newer row exists; the same without the state."""
    author = opened()
    await talk(author, 3)
    for expected in (Cost(1, 1, 0), Cost(2, 2, 0)):
        instance = opened() if is_cold else author
        assert await instance.cost(instance.store.get_latest_snapshot(ANN, "s")) == expected
        instance = opened() if is_cold else author
        assert await instance.cost(instance.store.get_latest_snapshot_metadata(ANN, "s")) == expected
        instance = opened() if is_cold else author
        assert await instance.cost(instance.store.get_transcript(ANN, "s")) == Cost(1, 1, 0)
        if expected == Cost(1, 1, 0):
            await claimed(author, claim_of(4))


@pytest.mark.parametrize("shards", [1, 5])
async def test_a_row_by_id_with_its_state(opened: Open, raw: FirestoreDatabase, shards: int) -> None:
    """2 round trips: the row, whose it is; then its patch, those of the diffs before, and the checkpoint's shards."""
    author = opened()
    root = large_state() if shards > 1 else State.of({"custom": 1})
    await author.store.create_session(ANN, "s", NewSession("echo"), root)
    settled = [await turn(author, n) for n in range(1, INTERVAL)]
    for k in (1, 2, 12, INTERVAL - 1):
        row = settled[k - 1]
        chain = await chain_of(raw, row.snapshot_id)
        assert len(chain.segment_path) == k
        assert (len(chain.shards) == 1) == (shards == 1)
        cold = opened()
        assert await cold.cost(cold.store.get_snapshot(ANN, row.snapshot_id)) == Cost(2, 1 + len(chain.shards) + k, 0)
        assert await cold.cost(cold.store.get_snapshot(ANN, row.snapshot_id)) == Cost(1, 1, 0)  # its state is kept


async def test_a_row_without_a_state_by_id(opened: Open) -> None:
    author = opened()
    lease = await claimed(author, claim_of(1, None))
    assert await author.cost(author.store.get_snapshot(ANN, lease.snapshot_id)) == Cost(1, 1, 0)
    assert await author.cost(author.store.get_snapshot(ANN, "missing")) == Cost(1, 1, 0)


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
async def test_polling_a_session(opened: Open, is_cold: bool) -> None:
    """1 / 1 / 0 while it is idle, 2 / 2 / 0 during a turn; a missing one is looked for under two ids."""
    author = opened()
    await talk(author, 2)
    instance = opened() if is_cold else author
    assert await instance.cost(instance.store.get_session(ANN, "s")) == Cost(1, 1, 0)
    assert await instance.cost(instance.store.get_session(ANN, "missing")) == Cost(2, 2, 0)
    await claimed(author, claim_of(3))
    assert await instance.cost(instance.store.get_session(ANN, "s")) == Cost(2, 2, 0)


async def test_a_list_is_one_query_of_its_sessions(opened: Open) -> None:
    author = opened()
    for n in range(5):
        await author.store.create_session(ANN, f"s{n}", NewSession("echo"), State.of({"custom": n}))
    assert await author.cost(author.store.list_sessions(ANN, 3)) == Cost(1, 3, 0)
    assert await author.cost(author.store.list_sessions(Scope("acme", "nobody"), 3)) == Cost(1, 1, 0)


async def test_all_watches_of_an_instance_share_one_stream(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    """One Listen, however many rows are followed; each costs one read at its start. The emulator breaks a stream now
    and then by a message that cannot be parsed; that is one more, and logged."""
    caplog.set_level(logging.DEBUG, "store.firestore.listen")
    author, watcher = opened(), opened()
    leases = [await claimed(author, claim_of(1, None, message=message(f"m{n}", "user", "x"))) for n in range(10)]

    async def follow(row_id: str) -> list[SnapshotStatus]:
        async with watcher.store.on_snapshot_status_change(ANN, row_id) as statuses:
            return [status async for status in statuses]

    readers = [asyncio.create_task(follow(lease.snapshot_id)) for lease in leases]
    async with watcher.store.watch_aborts("instance-1") as aborts:
        assert await anext(aborts) == []
        for n, lease in enumerate(leases):
            await settle(author, lease, n)
        assert [(await reader)[-1] for reader in readers] == [SnapshotStatus.COMPLETED] * 10
    rpcs = watcher.calls.snapshot().rpcs
    broken = sum("stream broke" in record.message for record in caplog.records)
    assert rpcs["Listen"] == 1 + broken
    assert rpcs["BatchGetDocuments"] == 10
    assert watcher.calls.snapshot().written == 0
