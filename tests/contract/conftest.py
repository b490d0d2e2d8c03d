"""The backends that every test of this folder runs against."""

from collections.abc import AsyncIterator
from pathlib import Path as Directory

import pytest

from store.documents.store import DocumentStore
from tests.contract.soundness import complaints
from tests.contract.stores import FileStores, FirestoreStores, MemoryStores, Stores


@pytest.fixture(params=["memory", "file", "firestore"])
async def stores(request: pytest.FixtureRequest, tmp_path: Directory) -> AsyncIterator[Stores]:
    """Instances of each kind of store on documents that are empty at first, and sound after every test."""
    opened = _open_stores(request, tmp_path)
    yield opened
    found = [] if opened.is_damaged else await complaints(opened)
    await opened.close()
    assert found == []


def _open_stores(request: pytest.FixtureRequest, directory: Directory) -> Stores:
    if request.param == "memory":
        return MemoryStores()
    if request.param == "file":
        return FileStores(directory / "sessions")
    return FirestoreStores(request.getfixturevalue("project_id"), request.getfixturevalue("emulator_host"))


@pytest.fixture
def store(stores: Stores) -> DocumentStore:
    """One instance with the default options."""
    return stores.open()
