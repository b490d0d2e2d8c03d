"""Damage in somebody else's documents: they are answered as missing, since an error would tell that they are there."""

import pytest

from store.database import Update
from store.documents.shelf import record_path, row_path
from store.errors import DataLossError, SessionNotFoundError
from store.memory.store import MemoryStore
from store.models import NewSession, Scope, Session
from store.state import State

ADA, BOB = Scope("acme", "ada"), Scope("acme", "bob")
GARBAGE = {"createdAt": "yesterday", "updatedAt": 7, "formatVersion": 1}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def damaged(store: MemoryStore) -> Session:
    """A session of Ada's whose documents make no sense."""
    session = await store.create_session(ADA, None, NewSession(agent="echo"), State.of({"messages": [], "custom": 1}))
    assert session.head_snapshot_id is not None
    paths = (record_path(ADA, session.id), row_path(ADA, session.head_snapshot_id))
    await store._shelf.database.commit([Update(path, GARBAGE) for path in paths])
    return session


async def test_its_owner_is_told_of_the_damage(store: MemoryStore, damaged: Session) -> None:
    with pytest.raises(DataLossError):
        await store.get_session(ADA, damaged.id)
    with pytest.raises(DataLossError):
        await store.get_snapshot(ADA, str(damaged.head_snapshot_id))
    with pytest.raises(DataLossError):
        await store.delete_session(ADA, damaged.id)


async def test_anybody_else_is_told_that_there_is_nothing(store: MemoryStore, damaged: Session) -> None:
    assert await store.get_session(BOB, damaged.id) is None
    assert await store.get_snapshot(BOB, str(damaged.head_snapshot_id)) is None
    assert await store.get_latest_snapshot_metadata(BOB, damaged.id) is None
    with pytest.raises(SessionNotFoundError):
        await store.delete_session(BOB, damaged.id)


async def test_a_document_without_an_owner_is_damaged_for_everybody(store: MemoryStore, damaged: Session) -> None:
    await store._shelf.database.commit([Update(record_path(ADA, damaged.id), remove=("ownerId",))])
    for scope in (ADA, BOB):
        with pytest.raises(DataLossError):
            await store.get_session(scope, damaged.id)
