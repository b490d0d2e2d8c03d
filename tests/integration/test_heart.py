"""The heart of an instance: a turn that settles is written by nobody else, one whose lease is lost ends at once, and a
failure costs one beat and no more."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from functions.agents.base import AgentEvent, TextDelta, Turn
from functions.engine.heart import Heart
from functions.engine.running import RunningTurn
from store.database import Delete
from store.documents.shelf import Shelf, row_path
from store.documents.store import DocumentStore
from store.memory.database import MemoryDatabase
from store.models import Beat, Lease
from tests.contract.engine_turns import engine_on, request_of
from tests.contract.turns import ANN, claim, claimed

INTERVAL = 0.01  # seconds
LONG = 600.0  # seconds, which no test waits for


class Beating(DocumentStore):
    """Its heartbeats are answered when a test says so; `failures` are raised by the first ones instead."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__(Shelf(MemoryDatabase()))
        self.batches: asyncio.Queue[list[str]] = asyncio.Queue()
        self.may_answer = asyncio.Event()
        self._failures = list(failures)

    async def heartbeat(self, leases: Sequence[Lease]) -> Sequence[Beat]:
        self.batches.put_nowait([lease.snapshot_id for lease in leases])
        if self._failures:
            raise self._failures.pop(0)
        beats = await super().heartbeat(leases)
        await self.may_answer.wait()
        return beats


def _nobody(lease: Lease, beat: Beat) -> None:
    """Is told."""


async def test_a_lease_that_leaves_waits_for_the_beat_that_is_under_way_and_is_in_no_other() -> None:
    store = Beating()
    heart = Heart(store, INTERVAL, _nobody)
    leaving, staying = [await claimed(store, claim(name)) for name in ("a", "b")]
    for lease in (leaving, staying):
        heart.join(lease)
    async with asyncio.timeout(30):
        assert await store.batches.get() == [leaving.snapshot_id, staying.snapshot_id]
        left = asyncio.create_task(heart.leave(leaving))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not left.done()
        store.may_answer.set()
        await left
        assert await store.batches.get() == [staying.snapshot_id]
    await heart.close()


async def test_a_heartbeat_that_fails_is_followed_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    store = Beating(RuntimeError("unheard of"))
    store.may_answer.set()
    heart = Heart(store, INTERVAL, _nobody)
    lease = await claimed(store, claim("a"))
    before = await store.get_snapshot_metadata(ANN, lease.snapshot_id)
    heart.join(lease)
    async with asyncio.timeout(30):
        for _ in range(3):
            assert await store.batches.get() == [lease.snapshot_id]
    await heart.close()
    after = await store.get_snapshot_metadata(ANN, lease.snapshot_id)
    assert before is not None
    assert after is not None
    assert before.heartbeat_at != after.heartbeat_at
    assert "a heartbeat failed" in caplog.text


class Deaf:
    """Never hears that it should stop."""

    name = "deaf"

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        yield TextDelta("working")
        await asyncio.Event().wait()


async def test_an_agent_whose_turn_has_lost_its_lease_is_given_no_grace() -> None:
    """It works for nobody."""
    store = DocumentStore(Shelf(MemoryDatabase()))
    async with engine_on(store, Deaf(), heartbeat_interval=INTERVAL, abort_grace=LONG) as engine, asyncio.timeout(30):
        turn = await engine.start(request_of())
        assert isinstance(turn, RunningTurn)
        await store.shelf.database.commit([Delete(row_path(ANN, turn.lease.snapshot_id))])
        *_, last = [numbered.event async for numbered in turn.broadcast.read()]
    assert (last.name, last.data["code"]) == ("error", "agent_session_lease_lost")
