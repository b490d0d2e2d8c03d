"""Following a row that is deleted meanwhile."""

import asyncio

from store.database import Delete
from store.documents.shelf import Shelf, row_path
from store.documents.watching import follow_status
from store.memory.database import MemoryDatabase
from store.memory.store import MemoryStore
from store.models import Claim, NewSession, Scope, SnapshotStatus
from store.state import Raw

ME = Scope("t", "u")


async def test_the_statuses_of_a_row_that_vanishes_end() -> None:
    """Nobody would ever tell its reader more; waiting for a row is for one that is still to come."""
    store = MemoryStore()
    shelf: Shelf = store._shelf
    database = shelf.database
    assert isinstance(database, MemoryDatabase)
    message = Raw.of({"id": "m1", "role": "user", "content": []})
    await store.claim_turn(ME, Claim("r1", "a1", NewSession("x"), message=message, runner="here"))
    async with follow_status(shelf, ME, "r1") as statuses:
        assert await anext(statuses) is SnapshotStatus.PENDING
        await database.commit([Delete(row_path(ME, "r1"))])
        async with asyncio.timeout(5):
            assert [status async for status in statuses] == []
