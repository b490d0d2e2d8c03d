"""The heartbeats of two hundred turns that one engine runs: one call an interval, whatever becomes of some of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from functions.agents.base import AgentEvent, TextDelta, Turn
from functions.engine.engine import Engine
from functions.engine.running import RunningTurn
from store.database import Delete, Kind, Query
from store.documents.shelf import Shelf, row_path
from store.documents.store import DocumentStore
from store.firestore.calls import Tally, counting
from store.firestore.database import FirestoreDatabase
from store.models import Beat, Lease, Scope
from tests.contract.engine_turns import engine_on, request_of
from tests.contract.turns import ANN

TURNS = 200
AT_ONCE = 10  # claims: a database on a crowded machine answers two hundred later than a claim waits
INTERVAL = 0.5  # seconds
ABORTED, DELETED = 17, 31


class Waiting:
    """Says nothing before it is asked to stop."""

    name = "waiting"

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        await turn.aborted.wait()
        yield TextDelta("stopped")


class Beaten(NamedTuple):
    """One heartbeat of the engine: for which rows, what it cost, and what it found."""

    rows: list[str]
    cost: Tally
    verdicts: list[Beat]


class Watched(DocumentStore):
    """Notes the engine's heartbeats, and is deaf to aborts, so that it is the beats that find them. Who holds `still`
    keeps it from beating."""

    def __init__(self, database: FirestoreDatabase) -> None:
        super().__init__(Shelf(database))
        self.still = asyncio.Lock()
        self._beats: asyncio.Queue[Beaten] = asyncio.Queue()

    async def heartbeat(self, leases: Sequence[Lease]) -> Sequence[Beat]:
        async with self.still:
            with counting() as calls:
                verdicts = await super().heartbeat(leases)
            self._beats.put_nowait(Beaten([lease.snapshot_id for lease in leases], calls.snapshot(), list(verdicts)))
        return verdicts

    @asynccontextmanager
    async def watch_aborts(self, runner: str) -> AsyncIterator[AsyncIterator[list[str]]]:
        async def silence() -> AsyncIterator[list[str]]:
            await asyncio.Event().wait()
            yield []

        yield silence()

    def forget(self) -> None:
        """The heartbeats so far."""
        while not self._beats.empty():
            self._beats.get_nowait()

    async def beats_for(self, rows: set[str], count: int = 1) -> list[Beaten]:
        """The next `count` heartbeats for exactly these rows; earlier ones are passed over."""
        found: list[Beaten] = []
        async with asyncio.timeout(60):
            while len(found) < count:
                beaten = await self._beats.get()
                if set(beaten.rows) == rows:
                    found.append(beaten)
        return found


class Setup(NamedTuple):
    """An engine with many turns, its store, and the documents."""

    engine: Engine
    store: Watched
    database: FirestoreDatabase
    turns: list[RunningTurn]

    @property
    def rows(self) -> list[str]:
        return [turn.lease.snapshot_id for turn in self.turns]

    async def heartbeats(self) -> dict[str, object]:
        """When each row's owner beat last."""
        found = await self.database.query(Query(Kind.SNAPSHOTS, ANN.tenant, (), mask=("heartbeatAt",)))
        return {document.path.id: document.fields.get("heartbeatAt") for document in found.documents}


@pytest.fixture
async def setup(emulator_host: str, project_id: str) -> AsyncIterator[Setup]:
    database = FirestoreDatabase(project_id, emulator_host=emulator_host)
    store = Watched(database)
    limits = {"turns_per_instance": TURNS, "turns_per_user": TURNS, "heartbeat_interval": INTERVAL}
    async with engine_on(store, Waiting(), **limits) as engine:
        users = [Scope(ANN.tenant, f"user-{number}") for number in range(TURNS)]  # each has but one session to trim
        turns: list[object] = []
        for first in range(0, TURNS, AT_ONCE):
            turns += await asyncio.gather(*(engine.start(request_of(scope=user)) for user in users[first:][:AT_ONCE]))
        yield Setup(engine, store, database, [turn for turn in turns if isinstance(turn, RunningTurn)])
    await database.close()


async def ended(turn: RunningTurn) -> str:
    """The name of the turn's last event."""
    return [event async for event in turn.broadcast.read()][-1].event.name


async def test_all_turns_of_an_engine_beat_in_one_call_an_interval(setup: Setup) -> None:
    before = await setup.heartbeats()
    for beaten in await setup.store.beats_for(set(setup.rows), 3):
        assert beaten.verdicts == [Beat.ALIVE] * TURNS
        assert beaten.cost == Tally({"BatchWrite": 1}, read=0, written=TURNS)
    after = await setup.heartbeats()
    assert len(before) == TURNS
    assert [row for row in before if after[row] == before[row]] == []


async def test_an_aborted_and_a_deleted_turn_cost_the_others_no_beat(setup: Setup) -> None:
    aborted, deleted = setup.turns[ABORTED], setup.turns[DELETED]
    others = [row for row in setup.rows if row not in (setup.rows[ABORTED], setup.rows[DELETED])]
    async with setup.store.still:
        await DocumentStore(Shelf(setup.database)).abort_turn(aborted.lease.scope, aborted.lease.snapshot_id)
        await setup.database.commit([Delete(row_path(deleted.lease.scope, deleted.lease.snapshot_id))])
        before = await setup.heartbeats()
        setup.store.forget()
    (beaten,) = await setup.store.beats_for(set(setup.rows))
    found = dict(zip(beaten.rows, beaten.verdicts, strict=True))
    assert found.pop(aborted.lease.snapshot_id) is Beat.ABORTING
    assert found.pop(deleted.lease.snapshot_id) is Beat.LOST
    assert set(found.values()) == {Beat.ALIVE}
    assert beaten.cost == Tally({"BatchWrite": 1, "BatchGetDocuments": 1}, read=2, written=TURNS - 2)
    after = await setup.heartbeats()
    assert [row for row in others if after[row] == before[row]] == []
    assert [await ended(turn) for turn in (aborted, deleted)] == ["turn-end", "error"]
    (beaten,) = await setup.store.beats_for(set(others))
    assert (beaten.verdicts, beaten.cost.rpcs) == ([Beat.ALIVE] * (TURNS - 2), {"BatchWrite": 1})
