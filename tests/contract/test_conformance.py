"""The shipped suite on each of our backends; a harness is all that it needs."""

from collections.abc import AsyncIterator
from pathlib import Path as Directory

import pytest

from store.conformance.database_suite import DatabaseConformance
from store.conformance.suite import StoreConformance
from store.database import Database
from store.file.database import FileDatabase
from store.firestore.database import FirestoreDatabase
from store.memory.database import MemoryDatabase
from tests.contract.stores import FileStores, FirestoreStores, MemoryStores, OwnIdsStores


class TestMemory(StoreConformance):
    """Documents in memory."""

    @pytest.fixture
    def harness(self) -> MemoryStores:
        return MemoryStores()


class TestFile(StoreConformance):
    """A folder, and instances that share it as processes do."""

    machine_runs = 4

    @pytest.fixture
    def harness(self, tmp_path: Directory) -> FileStores:
        return FileStores(tmp_path / "sessions")


class TestFirestore(StoreConformance):
    """The emulator, in real time."""

    machine_runs = 2

    @pytest.fixture
    def harness(self, project_id: str, emulator_host: str) -> FirestoreStores:
        return FirestoreStores(project_id, emulator_host)


class TestOwnIds(StoreConformance):
    """Each user with ids of their own, in memory."""

    @pytest.fixture
    def harness(self) -> OwnIdsStores:
        return OwnIdsStores()


class TestMemoryDatabase(DatabaseConformance):
    """Documents in memory, beneath the sessions."""

    @pytest.fixture
    async def database(self) -> AsyncIterator[Database]:
        opened = MemoryDatabase()
        yield opened
        await opened.close()


class TestFileDatabase(DatabaseConformance):
    """A folder, beneath the sessions."""

    @pytest.fixture
    async def database(self, tmp_path: Directory) -> AsyncIterator[Database]:
        opened = FileDatabase(tmp_path / "sessions", poll_interval=0)
        yield opened
        await opened.close()


class TestFirestoreDatabase(DatabaseConformance):
    """The emulator, beneath the sessions."""

    @pytest.fixture
    async def database(self, project_id: str, emulator_host: str) -> AsyncIterator[Database]:
        opened = FirestoreDatabase(project_id, emulator_host=emulator_host)
        yield opened
        await opened.close()
