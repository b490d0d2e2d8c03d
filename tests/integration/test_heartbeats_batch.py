"""The heartbeats of two hundred turns that one engine runs: one call an interval, whatever becomes of some of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pytest

from functions.agents.base import AgentEvent, TextDelta, Turn
from functions.engine.running import RunningTurn
from store.database import Condition, Delete, Kind, Query
from store.documents.shelf import Options, Shelf, row_path
from store.documents.store import DocumentStore
from store.firestore.calls import Calls, Tally
from store.firestore.database import FirestoreDatabase
from store.models import Beat, Lease
from tests.contract.engine_turns import engine_on, request_of
from tests.contract.turns import ANN

TURNS = 200
INTERVAL = 0.5  # seconds


class Waiting:
    """Says nothing before it is aborted."""

    name = "waiting"

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        await turn.aborted.wait()
        yield TextDelta("stopped")


@dataclass
class Beaten:
    """One heartbeat of the engine: for how many turns, what it cost, and what it found."""

    leases: Sequence[Lease]
    tally: Tally
    verdicts: Sequence[Beat]


@dataclass
class Instance(DocumentStore):
    """A store that writes down the engine's heartbeats. Nobody listens for aborts, so the beats have to find them."""

    calls: Calls
    shelf: Shelf
    beats: "asyncio.Queue[Beaten]" = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        super().__init__(self.shelf)

    async def heartbeat(self, leases: Sequence[Lease]) -> Sequence[Beat]:
        before = self.calls.snapshot()
        verdicts = await super().heartbeat(leases)
        self.beats.put_nowait(Beaten(list(leases), self.calls.since(before), verdicts))
        return verdicts

    async def next_beat(self) -> Beaten:
        """The next one that begins after now."""
        while not self.beats.empty():
            self.beats.get_nowait()
        return await asyncio.wait_for(self.beats.get(), 20)
