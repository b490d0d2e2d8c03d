"""One moment: what a read or a query gives was all there at one time, whatever is committed meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from store.database import Create, Database, Delete, Document, Kind, Path, Query, Update

SESSION = Path(Kind.POINTERS, "acme", "session")
ROWS = [Path(Kind.SNAPSHOTS, "acme", f"row-{number}") for number in range(3)]
TURNS = 25

Reader = Callable[[Database], Awaitable[list[Document | None]]]


async def named_row(database: Database, session: Document, at: datetime) -> Document | None:
    """The row that a session names, as of when the session was read."""
    path = Path(Kind.SNAPSHOTS, "acme", str(session.fields["latest"]))
    return (await database.get([path], at=at)).documents[path]


async def by_path(database: Database) -> list[Document | None]:
    """The documents in one read, one of another kind among them."""
    return list((await database.get([SESSION, *ROWS])).documents.values())


async def by_query(database: Database) -> list[Document | None]:
    """The rows in one query."""
    return [*(await database.query(Query(Kind.SNAPSHOTS, "acme", ()))).documents]


class MomentCases:
    """Reads beside commits."""

    async def test_a_row_is_read_as_it_was_when_its_session_was_read(self, database: Database) -> None:
        """What reads the latest row of a session: two reads, and between them two commits that end the turn and begin
        the next one."""
        await database.commit([Create(SESSION, {"latest": "row-0"}), Create(ROWS[0], {"status": "pending"})])
        read = await database.get([SESSION])
        session = read.documents[SESSION]
        assert session is not None
        await database.commit([Update(ROWS[0], {"status": "completed"}), Update(SESSION, {"ended": "row-0"})])
        await database.commit([Create(ROWS[1], {"status": "pending"}), Update(SESSION, {"latest": "row-1"})])
        row = await named_row(database, session, read.time)
        assert row is not None
        assert dict(row.fields) == {"status": "pending"}
        await database.commit([Delete(ROWS[0]), Delete(SESSION)])
        assert await named_row(database, session, read.time) == row

    async def test_a_read_shows_all_of_a_commit_or_nothing(self, database: Database) -> None:
        await self._beside_commits(database, by_path)

    async def test_a_query_shows_all_of_a_commit_or_nothing(self, database: Database) -> None:
        await self._beside_commits(database, by_query)

    async def test_the_latest_row_always_is_what_its_session_says(self, database: Database) -> None:
        """Turn after turn in two commits each, beside a reader that reads first the session, then its row."""
        await database.commit([Create(SESSION, {"latest": "row-0", "n": 0}), Create(ROWS[0], {"n": 0})])
        seen = set()

        async def turns() -> None:
            for number in range(1, TURNS):
                row = ROWS[number % 2]
                await database.commit([Update(SESSION, {"n": -number}), Delete(row)])
                await database.commit([Update(SESSION, {"n": number, "latest": row.id}), Create(row, {"n": number})])

        writing = asyncio.create_task(turns())
        while not writing.done():
            read = await database.get([SESSION])
            session = read.documents[SESSION]
            assert session is not None
            row = await named_row(database, session, read.time)
            assert row is not None
            number = session.fields["n"]
            assert row.fields["n"] == (number if number >= 0 else -number - 1)
            seen.add(number)
            await asyncio.sleep(0)
        await writing
        assert len(seen) > 1, "no commit came in between"

    async def _beside_commits(self, database: Database, reader: Reader) -> None:
        await database.commit([Create(path, {"n": 0}) for path in (SESSION, *ROWS)])
        seen = set()

        async def commits() -> None:
            for number in range(1, TURNS):
                await database.commit([Update(path, {"n": number}) for path in (SESSION, *ROWS)])

        writing = asyncio.create_task(commits())
        while not writing.done():
            numbers = {document and document.fields["n"] for document in await reader(database)}
            assert len(numbers) == 1
            seen |= numbers
            await asyncio.sleep(0)
        await writing
        assert len(seen) > 1, "no commit came in between"
