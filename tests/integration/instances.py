"""Two instances of one deployment in the test's own process: engines with stores of their own on the same documents.

Holds no test.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from functions.agents.base import Agent, AgentEvent, TextDelta, Turn
from functions.engine.attaching import events_of_turn
from functions.engine.broadcast import Broadcast, NumberedEvent
from functions.engine.engine import Engine
from functions.engine.limits import EngineLimits
from functions.engine.queue import TurnQueue
from functions.engine.recording import Recorder
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from store.documents.store import DocumentStore
from store.models import Lease, SameSend
from tests.contract.turns import ANN

LIFETIME = 3600.0  # seconds that segments are kept


class PacedAgent:
    """Says its numbers one by one, with a pause behind each."""

    name = "paced"

    def __init__(self, count: int, pause: float) -> None:
        self.runs = 0
        self._count = count
        self._pause = pause

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """Stops when it is asked to."""
        self.runs += 1
        for number in range(self._count):
            if turn.aborted.is_set():
                return
            yield TextDelta(f"{number} ")
            await asyncio.sleep(self._pause)


@dataclass(frozen=True)
class Instance:
    """One worker: its engine, and its store."""

    engine: Engine
    store: DocumentStore

    async def start(self, request: TurnRequest) -> RunningTurn:
        """A turn that must be granted."""
        turn = await self.engine.start(request)
        assert isinstance(turn, RunningTurn)
        return turn

    async def read(self, turn: RunningTurn, after: int = 0) -> list[NumberedEvent]:
        """What a reader of a turn, wherever it runs, is told from behind `after` until it is over."""
        named = SameSend(turn.lease.session_id, turn.lease.snapshot_id, is_running=True)
        return [event async for event in events_of_turn(self.engine, self.store, ANN, named, after)]

    async def die(self) -> None:
        """The process is gone: nothing more is run, beaten for, written or settled."""
        await self.engine._heart.close()
        for task in list(self.engine._tasks):
            task.cancel()
        await asyncio.gather(*self.engine._tasks, return_exceptions=True)


@asynccontextmanager
async def instance(
    store: DocumentStore, agent: Agent, queue: TurnQueue | None = None, **limits: Any
) -> AsyncIterator[Instance]:
    """One, closed at the end; its store belongs to the caller."""

    def recorder(lease: Lease, broadcast: Broadcast) -> Recorder:
        return Recorder(store, lease, broadcast, LIFETIME)

    given = {"heartbeat_interval": 15.0, "abort_grace": 0.2, "turns_per_instance": 200, "turns_per_user": 200, **limits}
    engine = Engine(store, agent, EngineLimits(**given), make_recorder=recorder, queue=queue)
    try:
        yield Instance(engine, store)
    finally:
        await engine.close()


@asynccontextmanager
async def instances(agent: Agent, *stores: DocumentStore) -> AsyncIterator[list[Instance]]:
    """One on each of the stores, all with the same agent."""
    async with AsyncExitStack() as open_ones:
        yield [await open_ones.enter_async_context(instance(store, agent)) for store in stores]


async def moments(reader: Instance, turn: SameSend) -> dict[int, float]:
    """When the reader's client is told each event of the turn, by the loop's time."""
    told = {}
    async for event in events_of_turn(reader.engine, reader.store, ANN, turn):
        told[event.id] = asyncio.get_running_loop().time()
    return told
