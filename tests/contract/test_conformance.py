"""The shipped suite on each of our backends; a harness is all that it needs."""

from pathlib import Path as Directory

import pytest

from store.conformance.suite import StoreConformance
from tests.contract.stores import FileStores, FirestoreStores, MemoryStores


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
