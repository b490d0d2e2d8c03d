"""Watching: the current state first, then what changed; deliveries are of state, and may be merged."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from store.database import Condition, Create, Database, Delete, Document, Kind, Path, Put, Query, Update

ROW = Path(Kind.SNAPSHOTS, "acme", "row")
OTHER = Path(Kind.SNAPSHOTS, "acme", "other")
ASKED = Query(Kind.SNAPSHOTS, "acme", (Condition("runner", "==", "me"),))
States: TypeAlias = AsyncIterator[list[Document | None]]


async def following(states: States) -> list[Document | None]:
    """The next delivery, which has to come within 10 seconds."""
    async with asyncio.timeout(10):
        return await anext(states)


async def until(states: States, n: int) -> int:
    """How many deliveries it takes until the watched document has this `n`."""
    count = 0
    async with asyncio.timeout(10):
        async for (document,) in states:
            count += 1
            if document is not None and document.fields["n"] == n:
                return count
    raise AssertionError("the watch ended")


def ids(documents: list[Document | None]) -> list[str]:
    return sorted(document.path.id for document in documents if document is not None)


class WatchCases:
    """Documents and queries that change."""

    async def test_the_first_delivery_is_the_document_as_it_is(self, database: Database) -> None:
        (time,) = (await database.commit([Create(ROW, {"n": 1, "blob": b"x"})])).update_times
        assert time is not None
        async with database.watch(ROW) as states:
            assert await following(states) == [Document(ROW, {"n": 1, "blob": b"x"}, time)]

    async def test_a_missing_document_is_delivered_as_none_and_then_as_created(self, database: Database) -> None:
        async with database.watch(ROW) as states:
            assert await following(states) == [None]
            await database.commit([Create(ROW, {"n": 1})])
            assert await until(states, 1) >= 1

    async def test_a_change_is_delivered_with_its_update_time(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1})])
        async with database.watch(ROW) as states:
            await following(states)
            (time,) = (await database.commit([Update(ROW, {"n": 2})])).update_times
            (document,) = await following(states)
            assert document is not None
            assert (dict(document.fields), document.update_time) == ({"n": 2}, time)

    async def test_a_deletion_is_delivered_as_none(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1})])
        async with database.watch(ROW) as states:
            await following(states)
            await database.commit([Delete(ROW)])
            assert await following(states) == [None]

    async def test_other_documents_are_not_delivered(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1})])
        async with database.watch(ROW) as states:
            await following(states)
            await database.commit([Create(OTHER, {"n": 5}), Create(Path(Kind.SNAPSHOTS, "other", "row"), {"n": 5})])
            await database.commit([Update(ROW, {"n": 2})])
            (document,) = await following(states)
            assert document is not None
            assert dict(document.fields) == {"n": 2}

    async def test_every_watch_of_a_document_is_served(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1})])
        async with database.watch(ROW) as one, database.watch(ROW) as two:
            await database.commit([Update(ROW, {"n": 2})])
            assert await until(one, 2) >= 1
            assert await until(two, 2) >= 1

    async def test_a_watch_goes_on_when_another_one_is_closed(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1})])
        async with database.watch(ROW) as states:
            async with database.watch(ROW) as closed:
                await following(closed)
            await database.commit([Update(ROW, {"n": 2})])
            assert await until(states, 2) >= 1

    async def test_a_query_without_matches_is_delivered_as_empty(self, database: Database) -> None:
        async with database.watch(ASKED) as states:
            assert await following(states) == []

    async def test_a_query_delivers_what_matches_and_then_what_came_to_match(self, database: Database) -> None:
        await database.commit([Create(ROW, {"runner": "me"}), Create(OTHER, {"runner": "you"})])
        async with database.watch(ASKED) as states:
            assert ids(await following(states)) == ["row"]
            await database.commit([Update(OTHER, {"runner": "me"})])
            assert "other" in ids(await following(states))

    async def test_a_query_delivers_nothing_that_does_not_match(self, database: Database) -> None:
        async with database.watch(ASKED) as states:
            await following(states)
            await database.commit([Create(OTHER, {"runner": "you"})])
            await database.commit([Create(Path(Kind.SNAPSHOTS, "other", "x"), {"runner": "me"})])
            await database.commit([Create(ROW, {"runner": "me"})])
            while not (delivered := await following(states)):
                pass  # the same state once more
            assert ids(delivered) == ["row"]

    async def test_a_query_delivers_a_changed_document_again(self, database: Database) -> None:
        await database.commit([Create(ROW, {"runner": "me", "n": 1})])
        async with database.watch(ASKED) as states:
            await following(states)
            await database.commit([Update(ROW, {"n": 2})])
            assert await until(states, 2) >= 1

    async def test_a_query_over_all_tenants_is_watched_too(self, database: Database) -> None:
        async with database.watch(Query(Kind.SNAPSHOTS, None, (Condition("runner", "==", "me"),))) as states:
            assert await following(states) == []
            elsewhere = Path(Kind.SNAPSHOTS, "elsewhere", "row")
            await database.commit([Create(elsewhere, {"runner": "me"})])
            (document,) = await following(states)
            assert document is not None
            assert document.path == elsewhere

    async def test_a_slow_reader_gets_the_last_state(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 0})])
        async with database.watch(ROW) as states:
            for n in range(1, 51):
                await database.commit([Put(ROW, {"n": n})])
            assert await until(states, 50) <= 51

    async def test_a_cancelled_reader_leaves_the_database_and_other_watches_working(self, database: Database) -> None:
        started = asyncio.Event()

        async def read_for_ever() -> None:
            async with database.watch(ROW) as states:
                async for _ in states:
                    started.set()

        async with database.watch(ROW) as states:
            reader = asyncio.create_task(read_for_ever())
            async with asyncio.timeout(10):
                await started.wait()
            reader.cancel()
            assert isinstance((await asyncio.gather(reader, return_exceptions=True))[0], asyncio.CancelledError)
            await database.commit([Create(ROW, {"n": 1})])
            assert await until(states, 1) >= 1

    async def test_closing_the_database_ends_open_watches(self, database: Database) -> None:
        async with database.watch(ROW) as states:
            await following(states)
            await database.close()
            async with asyncio.timeout(10):
                assert [state async for state in states] == []
