"""An engine with a queue: what it does about tasks, and how it runs what the queue delivers."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.engine import recording
from functions.engine.engine import Engine
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import StoreError, TranscriptStaleError, UnavailableError
from store.memory.database import MemoryDatabase
from store.models import Adopted, Adoption, Claim, Lease, SameSend, Scope
from tests.contract.engine_turns import ASK, ScriptedAgent, heard, interrupting, request_of, said
from tests.contract.turns import ABORTED, ANN, COMPLETED, require
from tests.integration.instances import PacedAgent, instance, moments
from tests.properties.virtual_loop import run_virtually


@dataclass
class Queue:
    """Takes note, and delivers nothing."""

    enqueued: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    async def enqueue(self, scope: Scope, snapshot_id: str) -> None:
        self.enqueued.append(snapshot_id)

    async def forget(self, snapshot_id: str) -> None:
        self.forgotten.append(snapshot_id)


class Hooked(DocumentStore):
    """Lets a test act once an adoption has landed, before whoever asked for it is told; or fail a claim that landed."""

    engine: Engine | None = None
    claim_error: StoreError | None = None
    is_followed_at_once = False

    async def adopt_turn(self, scope: Scope, snapshot_id: str, runner: str, attempt: str) -> Adopted | Adoption:
        adopted = await super().adopt_turn(scope, snapshot_id, runner, attempt)
        if self.engine is not None:
            await self.abort_turn(scope, snapshot_id)
            await asyncio.sleep(0.1)  # the listener is told
        if self.is_followed_at_once:
            await self._follow(snapshot_id)
        return adopted

    async def _follow(self, snapshot_id: str) -> None:
        assert await self.request_segments(ANN, snapshot_id)
        await asyncio.sleep(0.1)  # the listener is told

    async def claim_turn(self, scope: Scope, claim: Claim) -> Lease | SameSend:
        lease = await super().claim_turn(scope, claim)
        if self.claim_error is not None:
            raise self.claim_error
        if self.is_followed_at_once and isinstance(lease, Lease) and claim.runner is not None:
            await self._follow(lease.snapshot_id)
        return lease


@pytest.fixture
def store() -> Hooked:
    return Hooked(Shelf(MemoryDatabase(), Options()))


async def test_an_abort_that_overtakes_the_adoptions_answer_stops_the_turn(store: Hooked) -> None:
    """Without waiting for a heartbeat to notice it."""
    agent, queue = PacedAgent(5000, 0.01), Queue()
    async with instance(store, agent, queue) as here:
        _, snapshot_id = await here.engine.start_detached(request_of())
        store.engine = here.engine
        async with asyncio.timeout(5):
            assert await here.engine.run_queued(ANN, snapshot_id) is None
    assert (await require(store, snapshot_id)).status is ABORTED


@pytest.mark.parametrize("is_queued", [False, True])
async def test_a_follower_that_overtakes_the_claims_or_the_adoptions_answer_is_heard(
    store: Hooked, monkeypatch: pytest.MonkeyPatch, is_queued: bool
) -> None:
    """Its turn writes its log while it runs; afterwards no instance remembers that it was asked to."""
    monkeypatch.setattr(recording, "INTERVAL", 0.05)
    go_on = asyncio.Event()
    store.is_followed_at_once = True
    async with instance(store, ScriptedAgent([go_on]), Queue() if is_queued else None) as here:
        _, snapshot_id = await here.engine.start_detached(request_of())
        running = asyncio.create_task(here.engine.run_queued(ANN, snapshot_id)) if is_queued else None
        async with asyncio.timeout(5):
            while not await store.read_segments(ANN, snapshot_id):  # noqa: ASYNC110 - the recorder writes them
                await asyncio.sleep(0.01)
        assert here.engine._followed == {snapshot_id}
        go_on.set()
        async with asyncio.timeout(5), store.on_snapshot_status_change(ANN, snapshot_id) as statuses:
            assert [status async for status in statuses][-1] is COMPLETED
        if running is not None:
            await running
    assert here.engine._followed == set()


def test_a_follower_that_came_long_before_the_queue_did_is_no_further_behind() -> None:
    async def lags() -> list[float]:
        store = DocumentStore(Shelf(MemoryDatabase(), Options()))
        agent = PacedAgent(100, 0.1)
        async with instance(store, agent, Queue()) as here, instance(store, agent) as there:
            turn = SameSend(*await here.engine.start_detached(request_of()), is_running=True)
            following = asyncio.create_task(moments(there, turn))
            await asyncio.sleep(100)
            delivery = asyncio.create_task(here.engine.run_queued(ANN, turn.snapshot_id))
            while here.engine.running(ANN, turn.snapshot_id) is None:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)
            live = await moments(here, turn)
            await delivery
            followed = await following
        assert followed.keys() == live.keys()
        return [followed[number] - live[number] for number in live]

    behind = run_virtually(lags())
    assert len(behind) == 102
    assert max(behind) <= 1.5


async def test_two_deliveries_to_one_instance_run_a_turn_once(store: Hooked) -> None:
    agent, queue = PacedAgent(10, 0.01), Queue()
    async with instance(store, agent, queue) as here:
        _, snapshot_id = await here.engine.start_detached(request_of())
        runs = [here.engine.run_queued(ANN, snapshot_id) for _ in range(3)]
        results: list[Any] = await asyncio.gather(*runs)
    assert sorted(map(str, results)) == ["None", "running", "running"]
    assert (agent.runs, (await require(store, snapshot_id)).status) == (1, COMPLETED)


async def test_a_delivery_whose_connection_breaks_leaves_a_turn_that_runs(store: Hooked) -> None:
    agent, queue = PacedAgent(20, 0.01), Queue()
    async with instance(store, agent, queue) as here:
        _, snapshot_id = await here.engine.start_detached(request_of())
        delivery = asyncio.create_task(here.engine.run_queued(ANN, snapshot_id))
        await asyncio.sleep(0.05)
        delivery.cancel()
        await asyncio.gather(delivery, return_exceptions=True)
        async with asyncio.timeout(5), store.on_snapshot_status_change(ANN, snapshot_id) as statuses:
            assert [status async for status in statuses][-1] is COMPLETED


async def test_the_task_of_a_refused_claim_is_forgotten(store: Hooked) -> None:
    queue = Queue()
    async with instance(store, ScriptedAgent(), queue) as here:
        first = await said(here.engine, store)
        with pytest.raises(TranscriptStaleError):
            await here.engine.start_detached(request_of(first.session_id, tail="other"))
    assert queue.forgotten == queue.enqueued != []


async def test_the_task_of_a_claim_without_an_answer_is_kept(store: Hooked) -> None:
    """The claim may have landed: a turn without its task would be one that nobody comes to run."""
    queue = Queue()
    async with instance(store, ScriptedAgent(), queue) as here:
        store.claim_error = UnavailableError("No answer.")
        with pytest.raises(UnavailableError):
            await here.engine.start_detached(request_of())
        assert queue.forgotten == []
        assert await here.engine.run_queued(ANN, queue.enqueued[0]) is None
    assert (await require(store, queue.enqueued[0])).status is COMPLETED


async def test_a_second_send_gets_no_task_of_its_own(store: Hooked) -> None:
    queue = Queue()
    async with instance(store, ScriptedAgent(), queue) as here:
        request = request_of(message_is_named=True)
        turns = [await here.engine.start_detached(request) for _ in range(2)]
    assert turns[0] == turns[1]
    assert queue.forgotten == queue.enqueued[1:] != []


async def test_a_resume_goes_through_the_queue_with_its_answers(store: Hooked) -> None:
    queue = Queue()
    agent = ScriptedAgent(interrupting(ASK))
    async with instance(store, agent, queue) as here:
        first = await said(here.engine, store)
        output = {"name": "ask", "ref": "r1", "output": {"a": [1.0, None]}}
        request = request_of(
            first.session_id, resume={"respond": [{"toolResponse": output}]}, tail=first.last_message_id
        )
        _, snapshot_id = await here.engine.start_detached(request)
        assert await here.engine.run_queued(ANN, snapshot_id) is None
    row = await require(store, snapshot_id)
    assert (row.status, row.parent_id) == (COMPLETED, first.snapshot_id)
    assert agent.turns[-1].resume == {"respond": [{"toolResponse": output}]}
    assert heard(agent.turns[-1])[0] == "Hello"


async def test_an_instance_that_shuts_down_takes_no_delivery(store: Hooked) -> None:
    queue = Queue()
    async with instance(store, ScriptedAgent(), queue) as here:
        _, snapshot_id = await here.engine.start_detached(request_of())
        await here.engine.drain(0)
        with pytest.raises(UnavailableError):
            await here.engine.run_queued(ANN, snapshot_id)
