"""What becomes of a turn's event log where the database is in trouble: nothing of it is lost, doubled or damaged."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.agents.base import TextDelta
from functions.engine import recording
from functions.engine.following import SLOW_POLL
from store.database import (
    Committed,
    CommitUnansweredError,
    Create,
    Database,
    Document,
    Found,
    Kind,
    Path,
    Query,
    Read,
    Write,
)
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import UnavailableError
from store.memory.database import MemoryDatabase
from store.models import Beat, Lease, SameSend, Scope, Snapshot
from tests.contract.engine_turns import ScriptedAgent, request_of
from tests.contract.turns import ANN
from tests.integration.instances import PacedAgent, instance, instances, moments
from tests.properties.virtual_loop import run_virtually

INTERVAL = 0.05


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "INTERVAL", INTERVAL)


class TroubledLogs:
    """Commits that do nothing but add segments are troubled as `trouble` says for each, counted from 1; afterwards the
    segments cannot be asked for either."""

    def __init__(self, inner: Database, trouble: Callable[[int], str]) -> None:
        self._inner = inner
        self._trouble = trouble
        self.commits = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def commit(self, writes: Sequence[Write]) -> Committed:
        if not any(isinstance(write, Create) and write.path.kind is Kind.STREAMS for write in writes):
            return await self._inner.commit(writes)
        self.commits += 1
        trouble = self._trouble(self.commits)
        if trouble != "dropped":
            committed = await self._inner.commit(writes)
        if trouble == "fine":
            return committed
        raise CommitUnansweredError

    async def get(self, paths: Sequence[Path], **given: object) -> Read:
        if any(path.kind is Kind.STREAMS for path in paths) and self._trouble(self.commits) != "fine":
            raise UnavailableError("Not now.")
        return await self._inner.get(paths, **given)  # type: ignore[arg-type]  # passed on as they are


TROUBLES: dict[str, Callable[[int], str]] = {
    "the first answer is lost": lambda n: "lost" if n == 1 else "fine",
    "every second answer is lost": lambda n: "lost" if n % 2 else "fine",
    "every answer is lost": lambda n: "lost",
    "the first is dropped": lambda n: "dropped" if n == 1 else "fine",
    "every second is dropped": lambda n: "dropped" if n % 2 else "fine",
    "every one is dropped": lambda n: "dropped",
    "the last ones are dropped": lambda n: "fine" if n < 4 else "dropped",
}


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_follower_is_told_every_event_once_whatever_becomes_of_the_writes(trouble: str) -> None:
    database = MemoryDatabase()
    writer = DocumentStore(Shelf(TroubledLogs(database, TROUBLES[trouble]), Options()))  # type: ignore[arg-type]  # passes on what it lacks
    reader = DocumentStore(Shelf(database, Options()))
    async with instances(PacedAgent(60, 0.01), writer, reader) as (here, there):
        turn = await here.start(request_of())
        follower = asyncio.create_task(there.read(turn))
        whole = await here.read(turn)
        assert await asyncio.wait_for(follower, 10) == whole
        assert await there.read(turn) == whole


class Unreadable(MemoryDatabase):
    """A database whose event logs cannot be followed or read from some moment on."""

    is_down = False

    async def query(self, query: Query) -> Found:
        if self.is_down and query.kind is Kind.STREAMS:
            raise UnavailableError("Not now.")
        return await super().query(query)


async def test_a_follower_that_cannot_read_on_is_told_so() -> None:
    database = Unreadable()
    store = DocumentStore(Shelf(database, Options()))
    async with instances(PacedAgent(30, 0.01), store, store) as (here, there):
        turn = await here.start(request_of())
        follower = asyncio.create_task(there.read(turn))
        await asyncio.sleep(INTERVAL * 2)
        database.is_down = True
        *events, end = await asyncio.wait_for(follower, 10)
        assert (end.event.name, end.event.data["code"]) == ("error", "unavailable")
        assert [event.id for event in events] == list(range(1, len(events) + 1))
        assert end.id == len(events), "a reader goes on elsewhere behind the last event that it was told"
        await here.read(turn)


async def test_a_follower_of_a_turn_that_was_deleted_is_told_so() -> None:
    database = MemoryDatabase()
    short = DocumentStore(Shelf(database, Options(lease_staleness=0.3)))
    async with instance(short, PacedAgent(1, 30)) as here, instance(short, PacedAgent(1, 0)) as there:
        turn = await here.start(request_of())
        follower = asyncio.create_task(there.read(turn))
        await asyncio.sleep(INTERVAL * 3)
        await here.die()
        await asyncio.sleep(0.3)
        await there.store.delete_session(ANN, turn.lease.session_id)
        seen = await asyncio.wait_for(follower, 5)
        assert seen[-1].event.name == "error"
        assert seen[-1].event.data["code"] in ("snapshot_not_found", "agent_session_lease_lost")


class OwnerThatBeatsAgain(DocumentStore):
    """The turn's owner is taken for dead, and beats once more before its row is read for its end."""

    lease: Lease | None = None
    beats = 0

    async def get_snapshot(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        if self.lease is not None:
            lease, self.lease = self.lease, None
            self.beats += (await self.heartbeat([lease])).count(Beat.ALIVE)
        return await super().get_snapshot(scope, snapshot_id)


async def test_a_follower_goes_on_with_an_owner_that_was_taken_for_dead() -> None:
    now, go_on = datetime.now(UTC), asyncio.Event()
    database = MemoryDatabase(clock=lambda: now)
    store = OwnerThatBeatsAgain(Shelf(database, Options(lease_staleness=INTERVAL)))
    async with instances(ScriptedAgent([TextDelta("a"), go_on, TextDelta("b")]), store, store) as (here, there):
        turn = await here.start(request_of())
        store.lease = turn.lease
        follower = asyncio.create_task(there.read(turn))
        now += timedelta(seconds=60)
        async with asyncio.timeout(30):
            while not store.beats:  # noqa: ASYNC110 - the follower's own read comes first
                await asyncio.sleep(0.01)
            go_on.set()
            assert await follower == await here.read(turn)


class Deaf(MemoryDatabase):
    """Those who watch a log hear what there was when they began, and nothing more."""

    @asynccontextmanager
    async def watch(self, target: Path | Query) -> AsyncIterator[Any]:
        async with super().watch(target) as deliveries:
            is_log = isinstance(target, Query) and target.kind is Kind.STREAMS and target.tenant is not None
            yield self._first_of(deliveries) if is_log else deliveries

    async def _first_of(self, deliveries: AsyncIterator[list[Document | None]]) -> AsyncIterator[list[Document | None]]:
        yield await anext(deliveries)
        await asyncio.Event().wait()


def test_a_follower_whose_listener_has_died_in_silence_looks_by_itself() -> None:
    """It is behind then, and is told the events of a turn that goes on for minutes all the same."""

    async def longest_behind() -> float:
        database, now = Deaf(), asyncio.get_running_loop().time
        writer, reader = (DocumentStore(Shelf(database, Options())) for _ in range(2))
        async with instances(PacedAgent(120, 1), writer, reader) as (here, there):
            turn = await here.start(request_of())
            named = SameSend(turn.lease.session_id, turn.lease.snapshot_id, is_running=True)
            live, behind = asyncio.create_task(moments(here, named)), await moments(there, named)
            told = await live
        assert now() > 60, "the turn went on for that long"
        assert behind.keys() == told.keys()
        return max(behind[number] - told[number] for number in told)

    assert 2 < run_virtually(longest_behind()) <= SLOW_POLL + 1.5
