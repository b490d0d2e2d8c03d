"""The backends that every test of this folder runs against."""

from collections.abc import AsyncIterator
from pathlib import Path as Directory

import pytest

from store.database import Database
from store.file.database import FileDatabase
from store.firestore.database import FirestoreDatabase
from store.memory.database import MemoryDatabase


@pytest.fixture(params=["memory", "file", "firestore"])
async def database(request: pytest.FixtureRequest, tmp_path: Directory) -> AsyncIterator[Database]:
    """An empty database of each kind."""
    opened = _open(request, tmp_path)
    yield opened
    await opened.close()


def _open(request: pytest.FixtureRequest, directory: Directory) -> Database:
    if request.param == "memory":
        return MemoryDatabase()
    if request.param == "file":
        return FileDatabase(directory / "sessions", poll_interval=0)
    project = request.getfixturevalue("project_id")
    return FirestoreDatabase(project, emulator_host=request.getfixturevalue("emulator_host"))
