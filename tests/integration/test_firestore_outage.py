"""Outages of Firestore: how long a caller waits, what it is told, and how soon everything works again."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from functions.cli.emulator import Emulator, find_jar
from store.database import CommitUnansweredError, Delete, Kind, Path, Put, Query
from store.errors import UnavailableError
from store.firestore.database import FirestoreDatabase
from tests.warm_emulator import warm_up

ROW = Path(Kind.SNAPSHOTS, "acme", "row")
ROWS = Query(Kind.SNAPSHOTS, "acme", ())
PATIENCE = 15.0  # seconds: three times what is promised of a quiet machine


@pytest.fixture(scope="module")
def own_emulator() -> Iterator[Emulator]:
    with Emulator(find_jar(os.environ)) as emulator:
        warm_up(emulator.host)
        yield emulator


@pytest.fixture
def emulator(own_emulator: Emulator) -> Iterator[Emulator]:
    """One that a test may stop: running again after each test."""
    yield own_emulator
    own_emulator.resume()
    start(own_emulator)


def start(emulator: Emulator) -> None:
    """Its first write takes longer than the next ones, on a busy machine longer than a store waits for."""
    emulator.start()
    warm_up(emulator.host)


@pytest.fixture
async def database(emulator: Emulator, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    database = FirestoreDatabase(project_id, emulator_host=emulator.host)
    yield database
    await database.close()


@pytest.fixture
async def other(emulator: Emulator, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    """Another client of the same documents."""
    database = FirestoreDatabase(project_id, emulator_host=emulator.host)
    yield database
    await database.close()


async def seconds_to_fail(call: Callable[[], Awaitable[object]], error: type[Exception]) -> float:
    now = asyncio.get_running_loop().time
    started = now()
    with pytest.raises(error):
        await call()
    return now() - started


async def check_everything_fails_in_time(database: FirestoreDatabase) -> None:
    reads = (lambda: database.get([ROW]), lambda: database.query(ROWS))
    writes = (lambda: database.commit([Put(ROW, {})]), lambda: database.write_each([Delete(ROW)]))
    seconds = await asyncio.gather(
        *(seconds_to_fail(read, UnavailableError) for read in reads),
        *(seconds_to_fail(write, CommitUnansweredError) for write in writes),
    )
    assert max(seconds) < PATIENCE


async def check_everything_works_soon(database: FirestoreDatabase) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await database.commit([Put(ROW, {"n": 1})])
                break
            except CommitUnansweredError:
                await asyncio.sleep(0.05)
        assert (await database.get([ROW])).documents[ROW] is not None
        assert await database.write_each([Delete(ROW)]) != [None]


async def test_a_dead_server_fails_calls_in_time_and_its_return_is_noticed(
    emulator: Emulator, database: FirestoreDatabase
) -> None:
    await database.commit([Put(ROW, {})])
    emulator.kill()
    await check_everything_fails_in_time(database)
    await asyncio.to_thread(start, emulator)
    await check_everything_works_soon(database)


async def test_a_frozen_server_fails_calls_in_time_and_its_return_is_noticed(
    emulator: Emulator, database: FirestoreDatabase
) -> None:
    await database.commit([Put(ROW, {})])
    emulator.pause()
    await check_everything_fails_in_time(database)
    emulator.resume()
    await check_everything_works_soon(database)


async def test_a_server_that_never_was_there_fails_calls_in_time_and_its_coming_is_noticed(
    emulator: Emulator, database: FirestoreDatabase
) -> None:
    emulator.kill()
    await check_everything_fails_in_time(database)
    await asyncio.to_thread(start, emulator)
    await check_everything_works_soon(database)


@pytest.mark.slow
async def test_the_end_of_a_long_outage_is_noticed_as_soon(emulator: Emulator, database: FirestoreDatabase) -> None:
    async with database.watch(ROW) as row:
        assert await anext(row) == [None]
        emulator.kill()
        for _ in range(8):  # half a minute, in which an unbounded back-off grows beyond anybody's patience
            await check_everything_fails_in_time(database)
        await asyncio.to_thread(start, emulator)
        await check_everything_works_soon(database)
        async with asyncio.timeout(PATIENCE):
            while await anext(row) != [None]:
                pass


async def test_a_read_outlasts_a_short_outage(emulator: Emulator, database: FirestoreDatabase) -> None:
    await database.commit([Put(ROW, {"n": 1})])
    emulator.pause()
    reading = asyncio.create_task(database.get([ROW]))
    async with asyncio.timeout(PATIENCE):
        while database.calls.snapshot().rpcs.get("BatchGetDocuments", 0) < 2:  # noqa: ASYNC110 - the client tells nobody
            await asyncio.sleep(0.01)  # until the first attempt is over, and the second waits
    emulator.resume()
    assert (await reading).documents[ROW] is not None


async def test_a_read_that_is_cancelled_in_an_outage_stops(emulator: Emulator, database: FirestoreDatabase) -> None:
    emulator.pause()
    reading = asyncio.create_task(database.get([ROW]))
    await asyncio.sleep(0.1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_closing_answers_the_calls_in_flight(emulator: Emulator, database: FirestoreDatabase) -> None:
    await database.get([ROW])
    emulator.pause()
    reading = asyncio.create_task(database.get([ROW]))
    writing = asyncio.create_task(database.commit([Put(ROW, {})]))
    await asyncio.sleep(0.1)
    await database.close()
    with pytest.raises(UnavailableError):
        await reading
    with pytest.raises(UnavailableError):
        await writing


async def test_watches_survive_a_restart_of_the_server(
    emulator: Emulator, database: FirestoreDatabase, other: FirestoreDatabase
) -> None:
    await database.commit([Put(ROW, {"n": 1})])
    async with database.watch(ROW) as row, database.watch(ROWS) as rows, asyncio.timeout(30):
        assert [document and document.fields for document in await anext(row)] == [{"n": 1}]
        assert len(await anext(rows)) == 1
        emulator.kill()
        await asyncio.to_thread(start, emulator)  # empty
        assert await anext(row) == [None]
        assert await anext(rows) == []
        await other.commit([Put(ROW, {"n": 2})])
        assert [document and document.fields for document in await anext(row)] == [{"n": 2}]
        assert [document and document.fields for document in await anext(rows)] == [{"n": 2}]


async def test_watches_survive_a_frozen_server(
    emulator: Emulator, database: FirestoreDatabase, other: FirestoreDatabase
) -> None:
    async with database.watch(ROW) as row, asyncio.timeout(30):
        assert await anext(row) == [None]
        emulator.pause()
        await asyncio.sleep(1)
        emulator.resume()
        await other.commit([Put(ROW, {"n": 2})])
        assert [document and document.fields for document in await anext(row)] == [{"n": 2}]
    assert database.calls.snapshot().rpcs["Listen"] == 1


async def test_a_watch_begun_in_an_outage_delivers_when_it_is_over(
    emulator: Emulator, database: FirestoreDatabase
) -> None:
    emulator.kill()
    async with database.watch(ROW) as row, asyncio.timeout(30):
        first = asyncio.ensure_future(anext(row))
        await asyncio.to_thread(start, emulator)
        assert await first == [None]


async def test_a_watch_is_left_and_closed_in_an_outage(emulator: Emulator, database: FirestoreDatabase) -> None:
    async with database.watch(ROW) as row, asyncio.timeout(30):
        await anext(row)
        emulator.kill()
        await asyncio.sleep(0.5)
    await database.close()
    await all_other_tasks_end()


async def all_other_tasks_end() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, running = await asyncio.wait(others, timeout=5)
        assert not running
