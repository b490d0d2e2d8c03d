"""Watching Firestore: first states, changes from other clients, many targets on one stream, and what is left behind."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from store.database import Condition, Delete, Document, Kind, Path, Put, Query, Update
from store.errors import UnavailableError
from store.firestore.calls import Calls
from store.firestore.connection import Connection
from store.firestore.database import FirestoreDatabase
from store.firestore.listen import Listener
from store.firestore.names import Names

ROW = Path(Kind.SNAPSHOTS, "acme", "row")
RUNNING = Query(Kind.SNAPSHOTS, None, (Condition("runner", "==", "me"),))

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def database(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    database = FirestoreDatabase(project_id, emulator_host=emulator_host)
    yield database
    await database.close()


@pytest.fixture
async def other(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    """Another client of the same documents."""
    database = FirestoreDatabase(project_id, emulator_host=emulator_host)
    yield database
    await database.close()


def fields(delivery: list[Document | None]) -> list[dict[str, object] | None]:
    return [None if document is None else dict(document.fields) for document in delivery]


async def until(watch: AsyncIterator[list[Document | None]], expected: list[dict[str, object] | None]) -> None:
    """Takes deliveries until one is `expected`; others may come before it, since deliveries are of state."""
    async for delivery in watch:
        if fields(delivery) == expected:
            return


async def test_a_document_is_delivered_missing_created_changed_and_deleted(
    database: FirestoreDatabase, other: FirestoreDatabase
) -> None:
    async with database.watch(ROW) as row:
        assert await anext(row) == [None]
        for n in (1, 2):
            [time] = (await other.commit([Put(ROW, {"n": n})])).update_times
            assert time is not None
            assert await anext(row) == [Document(ROW, {"n": n}, time)]
        await other.commit([Delete(ROW)])
        assert await anext(row) == [None]
        await other.commit([Put(ROW, {"n": 3})])
        assert fields(await anext(row)) == [{"n": 3}]


async def test_an_existing_document_is_the_first_delivery(database: FirestoreDatabase) -> None:
    await database.commit([Put(ROW, {"n": 1})])
    async with database.watch(ROW) as row:
        assert fields(await anext(row)) == [{"n": 1}]


async def test_a_slow_reader_gets_the_newest_state_only(database: FirestoreDatabase, other: FirestoreDatabase) -> None:
    async with database.watch(ROW) as slow, database.watch(ROW) as fast:
        await anext(slow)
        for n in range(50):
            await other.commit([Put(ROW, {"n": n})])
        await until(fast, [{"n": 49}])
        assert fields(await anext(slow)) == [{"n": 49}]


async def test_a_query_delivers_its_documents_then_what_joins_and_changes(
    database: FirestoreDatabase, other: FirestoreDatabase
) -> None:
    query = Query(Kind.SNAPSHOTS, "acme", (Condition("runner", "==", "me"),))
    await other.commit([Put(ROW, {"runner": "me", "n": 1}), Put(Path(Kind.SNAPSHOTS, "acme", "x"), {"runner": "it"})])
    async with database.watch(query) as rows:
        assert fields(await anext(rows)) == [{"runner": "me", "n": 1}]
        await other.commit([Update(ROW, {"n": 2})])
        await until(rows, [{"runner": "me", "n": 2}])
        await other.commit([Update(ROW, {"runner": "it"})])
        await other.commit([Update(ROW, {"runner": "me", "n": 3})])
        await until(rows, [{"runner": "me", "n": 3}])


async def test_an_empty_query_delivers_an_empty_list(database: FirestoreDatabase) -> None:
    async with database.watch(RUNNING) as rows:
        assert await anext(rows) == []


async def test_a_masked_query_delivers_the_masked_fields(database: FirestoreDatabase) -> None:
    await database.commit([Put(ROW, {"runner": "me", "n": 1})])
    async with database.watch(Query(Kind.SNAPSHOTS, None, (), mask=("n", "unknown"))) as rows:
        assert fields(await anext(rows)) == [{"n": 1}]


async def test_a_group_query_hears_every_tenant_and_no_other_collection_of_the_same_name(
    database: FirestoreDatabase, emulator_host: str, project_id: str
) -> None:
    stranger = FirestoreDatabase(project_id, emulator_host=emulator_host, collection="stranger")
    async with database.watch(RUNNING) as rows:
        assert await anext(rows) == []
        await stranger.commit([Put(ROW, {"runner": "me", "whose": "a stranger's"})])
        path = Path(Kind.SNAPSHOTS, "far away", "row")
        await database.commit([Put(path, {"runner": "me"})])
        seen: list[Document | None] = []
        while not seen:
            seen = await anext(rows)
        assert [document and document.path for document in seen] == [path]
    await stranger.close()


async def test_two_hundred_targets_share_one_stream(database: FirestoreDatabase, other: FirestoreDatabase) -> None:
    paths = [Path(Kind.SNAPSHOTS, "acme", str(n)) for n in range(200)]
    threads = threading.active_count()

    async def follow(path: Path) -> None:
        async with database.watch(path) as watch:
            assert await anext(watch) == [None]
            ready.release()
            assert fields(await anext(watch)) == [{"id": path.id}]

    ready = asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as tasks:
        for path in paths:
            tasks.create_task(follow(path))
        for _ in paths:
            await ready.acquire()
        assert threading.active_count() <= threads + 2
        await other.commit([Put(path, {"id": path.id}) for path in paths])
    assert database.calls.snapshot().rpcs == {"Listen": 1}


async def test_a_thousand_closed_watches_leave_no_target_task_or_thread(
    database: FirestoreDatabase, other: FirestoreDatabase
) -> None:
    async with database.watch(ROW) as row:
        await anext(row)
        tasks, threads = len(asyncio.all_tasks()), threading.active_count()
        for n in range(1000):
            async with database.watch(Path(Kind.SNAPSHOTS, "acme", str(n % 7))) as watch:
                if n % 10 == 0:
                    await anext(watch)
        # Requests are taken in order: once a later target is answered, all removals before it have been taken.
        async with database.watch(Path(Kind.SNAPSHOTS, "acme", "later")) as later:
            await anext(later)
        before = database.calls.snapshot()
        await other.commit([Put(Path(Kind.SNAPSHOTS, "acme", str(n)), {}) for n in range(7)])
        await other.commit([Put(ROW, {"n": 1})])
        assert fields(await anext(row)) == [{"n": 1}]
        assert database.calls.since(before).read == 1  # nothing but ROW is told any more
        assert (len(asyncio.all_tasks()), threading.active_count()) == (tasks, threads)


async def test_a_cancelled_reader_leaves_its_watch(database: FirestoreDatabase) -> None:
    async def read_for_ever() -> None:
        async with database.watch(ROW) as row:
            async for delivery in row:
                started.set_result(delivery)

    started: asyncio.Future[list[Document | None]] = asyncio.get_running_loop().create_future()
    reader = asyncio.create_task(read_for_ever())
    assert await started == [None]
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    async with database.watch(ROW) as row:
        assert await anext(row) == [None]


async def test_closing_ends_open_watches_and_leaves_no_task(database: FirestoreDatabase) -> None:
    async with database.watch(ROW) as row:
        assert await anext(row) == [None]
        ending = asyncio.ensure_future(anext(row, "the end"))
        await asyncio.sleep(0)
        await database.close()
        assert await ending == "the end"
    with pytest.raises(UnavailableError):
        await database.watch(ROW).__aenter__()
    await all_other_tasks_end()


async def all_other_tasks_end() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, running = await asyncio.wait(others, timeout=5)
        assert not running


@pytest.fixture
async def make_listener(emulator_host: str, project_id: str) -> AsyncIterator[Callable[..., tuple[Listener, Calls]]]:
    """Makes listeners whose times are short enough to be waited for."""
    names = Names(project_id, "(default)", "genkit-sessions")
    connection = Connection(names.database, emulator_host, None)
    made: list[Listener] = []

    def make(**seconds: float) -> tuple[Listener, Calls]:
        calls = Calls()
        made.append(Listener(connection, names, calls, **seconds))
        return made[-1], calls

    yield make
    for listener in made:
        await listener.close()
    await connection.close()


async def test_the_stream_closes_a_while_after_its_last_watch_and_opens_again(
    make_listener: Callable[..., tuple[Listener, Calls]],
) -> None:
    listener, calls = make_listener(linger=0.5)
    async with listener.watch(ROW) as row:
        await anext(row)
    await all_other_tasks_end()
    async with listener.watch(ROW) as row:
        assert await anext(row) == [None]
    async with listener.watch(ROW) as row:  # within the while: on the same stream
        assert await anext(row) == [None]
    assert calls.snapshot().rpcs == {"Listen": 2}


async def test_a_silent_stream_is_opened_again_and_tells_the_state_again(
    make_listener: Callable[..., tuple[Listener, Calls]],
) -> None:
    listener, calls = make_listener(silence=0.3)
    async with listener.watch(ROW) as row:
        assert await anext(row) == [None]
        assert await anext(row) == [None]
    assert calls.snapshot().rpcs["Listen"] == 2
