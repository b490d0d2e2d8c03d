"""Lists of sessions stay cheap and whole, however many sessions a user has and whatever happens to them meanwhile."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from store.database import Kind, Path
from store.documents.pages import cursor_after
from store.firestore.calls import Calls
from store.firestore.store import FirestoreStore
from store.models import NewSession, Scope
from tests.integration.many_sessions import fill, sessions_of, time_of

ANN = Scope("acme", "ann")
BOB = Scope("acme", "bob")
PAGE = 20


class Listing:
    """A store that counts, and goes through a user's list page by page."""

    def __init__(self, project: str, host: str) -> None:
        self.calls = Calls()
        self.store = FirestoreStore(project, emulator_host=host, calls=self.calls)

    async def have(self, count: int) -> list[str]:
        """So many sessions of Ann's, newest first."""
        database = self.store._shelf.database
        found = sessions_of(ANN, count, await time_of(database) - timedelta(days=1))
        await fill(database, found | sessions_of(BOB, 50, await time_of(database)))
        return [path.id for path in found]

    async def cursor(self, session_id: str) -> str:
        """The place behind a session, as the page that ends with it gives it."""
        path = Path(Kind.POINTERS, ANN.tenant, session_id)
        document = (await self.store._shelf.database.get([path])).documents[path]
        assert document is not None
        return cursor_after(document, "updatedAt")

    async def go(
        self,
        between: Callable[[int], Awaitable[object]] | None = None,
        *,
        behind: str | None = None,
        pages: int | None = None,
    ) -> list[str]:
        """The ids as they come, each page held to its cost: from the first one or `behind` a session, to the end or for
        so many pages. `between` is called with the number of every page."""
        seen: list[str] = []
        cursor = None if behind is None else await self.cursor(behind)
        page = 0
        while (page == 0 or cursor is not None) and page != pages:
            before = self.calls.snapshot()
            found = await self.store.list_sessions(ANN, PAGE, cursor)
            spent = self.calls.since(before)
            assert (spent.sent, spent.written) == (1, 0)
            assert spent.read == max(1, len(found.sessions)) <= PAGE
            seen += [session.id for session in found.sessions]
            cursor = found.next_cursor
            page += 1
            if between is not None:
                await between(page)
        return seen


@pytest.fixture
async def listing(emulator_host: str, project_id: str) -> AsyncIterator[Listing]:
    listing = Listing(project_id, emulator_host)
    yield listing
    await listing.store.close()


async def test_every_page_of_ten_thousand_sessions_is_one_round_trip_and_its_own_sessions(listing: Listing) -> None:
    """At the beginning, in the middle and at the end: the emulator has no indexes, and takes minutes for them all."""
    ids = await listing.have(10_000)
    assert await listing.go(pages=3) == ids[: 3 * PAGE]
    assert await listing.go(pages=3, behind=ids[4999]) == ids[5000 : 5000 + 3 * PAGE]
    assert await listing.go(behind=ids[9949]) == ids[9950:]


async def test_every_page_of_a_long_list_is_reached_by_its_cursors(listing: Listing) -> None:
    ids = await listing.have(615)
    assert await listing.go() == ids


async def test_a_list_that_ends_with_a_full_page_ends_with_an_empty_one(listing: Listing) -> None:
    ids = await listing.have(2 * PAGE)
    assert await listing.go() == ids


async def test_what_is_left_alone_is_listed_once_and_nothing_twice(listing: Listing) -> None:
    """The definition of a stable list. While it is read sessions are made, deleted and used: one that is used moves to
    the front, where the next list has it; those that were not touched come once each, in order."""
    ids = await listing.have(200)
    touched: set[str] = set()

    async def meddle(page: int) -> None:
        await listing.store.create_session(ANN, f"new-{page}", NewSession("echo"))
        last, coming = ids[page * PAGE - 1 : page * PAGE], ids[page * PAGE + 5 : page * PAGE + 6]
        for session_id in last:  # the very one that the cursor names
            await listing.store.delete_session(ANN, session_id)
        for session_id in coming:
            await listing.store.update_session(ANN, session_id, title="used")
        touched.update(last, coming)

    seen = await listing.go(meddle)
    assert len(seen) == len(set(seen))
    assert [session_id for session_id in seen if session_id not in touched] == [
        session_id for session_id in ids if session_id not in touched
    ]
    again = await listing.go()
    assert {f"new-{page}" for page in range(1, 11)} <= set(again)
    assert {ids[page * PAGE + 5] for page in range(1, 10)} <= set(again[:30])
    assert ids[PAGE - 1] not in again
