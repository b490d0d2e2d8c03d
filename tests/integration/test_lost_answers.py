"""A turn through an engine on the emulator, one of whose commits is not answered: what it has done is recognised and
not done again. That no order of such losses breaks a promise is for tests/properties."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from functions.agents.base import AgentEvent, TextDelta, Turn
from functions.engine.engine import Engine
from functions.engine.running import RunningTurn
from store.documents.shelf import Shelf
from store.documents.store import DocumentStore
from store.firestore.calls import Calls
from store.firestore.database import FirestoreDatabase
from store.models import Beat, SnapshotStatus
from store.rules.history import messages_of
from tests.contract.engine_turns import engine_on, finished, request_of
from tests.contract.turns import ANN, claim, claimed
from tests.properties.faulty_database import Fault
from tests.properties.scripted import Script, Step


class Counting:
    """Counts its runs."""

    name = "counting"

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        self.runs += 1
        yield TextDelta("done")


class Setup(NamedTuple):
    """The documents, an instance to which nothing happens, and what was sent."""

    database: FirestoreDatabase
    store: DocumentStore
    calls: Calls
    agent: Counting

    @asynccontextmanager
    async def engine(self, script: Script) -> AsyncIterator[Engine]:
        """An engine whose calls the script befalls; all of it has happened at the end."""
        async with engine_on(script.store(self.database), self.agent) as engine:
            yield engine
        assert script.left == []

    async def check_one_turn(self, turn: RunningTurn) -> None:
        """It is there once, and was run once."""
        assert turn.settled is not None, turn.broadcast.events[-1]
        assert (turn.settled.status, self.agent.runs) == (SnapshotStatus.COMPLETED, 1)
        transcript = await self.store.get_transcript(ANN, turn.lease.session_id)
        assert transcript is not None
        assert len(messages_of(transcript.state)) == 2
        page = await self.store.list_snapshots(ANN, turn.lease.session_id, 10)
        assert [row.snapshot_id for row in page.snapshots] == [turn.lease.snapshot_id]


@pytest.fixture
async def setup(emulator_host: str, project_id: str) -> AsyncIterator[Setup]:
    calls = Calls()
    database = FirestoreDatabase(project_id, emulator_host=emulator_host, calls=calls)
    yield Setup(database, DocumentStore(Shelf(database)), calls, Counting())
    await database.close()


LOST = Step("commit", Fault.LOST_ANSWER)
FINE = Step("commit")


@pytest.mark.parametrize("steps", [[LOST], [FINE, LOST], [LOST, LOST]], ids=["claim", "settle", "both"])
async def test_a_turn_whose_commits_are_not_answered_is_run_and_stored_once(setup: Setup, steps: list[Step]) -> None:
    async with setup.engine(Script(*steps)) as engine:
        turn = await finished(engine, request_of())
        await setup.check_one_turn(turn)
    assert setup.calls.snapshot().rpcs["Commit"] == 2  # what was not answered was asked about, not sent again


@pytest.mark.parametrize("steps", [[Fault.DROPPED], [Fault.NONE, Fault.DROPPED]], ids=["claim", "settle"])
async def test_a_turn_whose_commits_are_lost_on_the_way_is_sent_again(setup: Setup, steps: list[Fault]) -> None:
    async with setup.engine(Script(*(Step("commit", fault) for fault in steps))) as engine:
        await setup.check_one_turn(await finished(engine, request_of()))


async def test_a_heartbeat_that_is_not_answered_costs_no_lease(setup: Setup) -> None:
    script = Script(Step("write each", Fault.LOST_ANSWER))
    store = script.store(setup.database)
    lease = await claimed(store, claim("m"))
    costs = []
    for _ in range(3):
        before = setup.calls.snapshot()
        assert await store.heartbeat([lease]) == [Beat.ALIVE]
        costs.append(setup.calls.since(before).rpcs)
    asked = {"BatchWrite": 1, "BatchGetDocuments": 1}  # the second one, which is refused: the first has landed
    assert costs == [{"BatchWrite": 1}, asked, {"BatchWrite": 1}]
    assert script.left == []


async def test_an_abort_that_is_not_answered_is_told_what_it_has_done(setup: Setup) -> None:
    lease = await claimed(setup.store, claim("m"))
    before = setup.calls.snapshot()
    answer = await Script(LOST).store(setup.database).abort_turn(ANN, lease.snapshot_id)
    assert (answer.previous, answer.status) == (SnapshotStatus.PENDING, SnapshotStatus.ABORTING)
    assert setup.calls.since(before).rpcs["Commit"] == 1
