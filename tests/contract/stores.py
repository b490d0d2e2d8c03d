"""Stores of each backend for the contract suite, with the raw documents beside them. Holds no test.

Every store that is opened here is an instance of its own, with a cold cache, on the same documents. Memory and file run
on a clock that stands still until a test moves it; Firestore has its own clock, so there a test really waits a moment.
"""

import asyncio
from collections.abc import Set
from datetime import timedelta
from pathlib import Path as Directory
from typing import Any, Protocol

from store.adapters.own_ids import OwnIds
from store.conformance.capabilities import EVERYTHING, Capability
from store.conformance.harness import START as START
from store.conformance.harness import Clock
from store.database import Database
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.file.database import FileDatabase
from store.file.store import FileStore
from store.firestore.database import FirestoreDatabase
from store.firestore.store import FirestoreStore
from store.memory.database import MemoryDatabase


class Stores(Protocol):
    """Instances on one collection of documents."""

    capabilities: Set[Capability]
    database: Database  # the raw documents
    moment: float  # seconds that a test can afford to let pass
    is_damaged: bool  # a test that breaks documents says so: they are not checked after it then

    def open(self, **options: Any) -> DocumentStore:
        """Another instance."""

    async def wait(self, seconds: float) -> None:
        """Lets that much time pass, and a little more."""

    async def close(self) -> None:
        """Closes all instances."""


class _Opened:
    """What the backends share: every instance is closed at the end."""

    database: Database
    capabilities: Set[Capability] = EVERYTHING - {Capability.NESTED_TENANTS}
    moment = 60.0

    def __init__(self) -> None:
        self.is_damaged = False
        self.clock = Clock()
        self._stores: list[DocumentStore] = []

    def documents(self) -> Database | None:
        """The documents beneath."""
        return self.database

    async def wait(self, seconds: float) -> None:
        """Moves the clock."""
        self.clock.now += timedelta(seconds=seconds * 1.01)

    async def close(self) -> None:
        """Closes all instances."""
        for store in self._stores:
            await store.close()
        await self.database.close()

    def _opened(self, store: DocumentStore) -> DocumentStore:
        self._stores.append(store)
        return store


class MemoryStores(_Opened):
    """`MemoryStore` makes its own documents; instances that share them are put together here as it does it."""

    def __init__(self) -> None:
        super().__init__()
        self.database = MemoryDatabase(clock=self.clock)

    def open(self, **options: Any) -> DocumentStore:
        """Another instance."""
        return self._opened(DocumentStore(Shelf(self.database, Options(**options))))


class OwnIdsStores(MemoryStores):
    """Instances whose users have ids of their own. The suite looks for no documents, which lie under other ids here."""

    capabilities: Set[Capability] = (MemoryStores.capabilities | {Capability.OWN_IDS}) - {Capability.DOCUMENTS}

    def documents(self) -> None:
        """None are shown."""

    def open(self, **options: Any) -> DocumentStore:
        """Another instance."""
        return OwnIds(super().open(**options))


class FileStores(_Opened):
    """Instances that share a directory, as processes do; they look for each other's changes often."""

    capabilities: Set[Capability] = EVERYTHING

    def __init__(self, directory: Directory) -> None:
        super().__init__()
        self._directory = directory
        self.database = FileDatabase(directory, clock=self.clock, poll_interval=0)

    def open(self, **options: Any) -> DocumentStore:
        """Another instance."""
        return self._opened(FileStore(self._directory, poll_interval=0.02, clock=self.clock, **options))


class FirestoreStores(_Opened):
    """Instances on one project of the emulator, in real time."""

    moment = 0.1

    def __init__(self, project: str, host: str) -> None:
        super().__init__()
        self._project, self._host = project, host
        self.database = FirestoreDatabase(project, emulator_host=host)

    def open(self, **options: Any) -> DocumentStore:
        """Another instance."""
        return self._opened(FirestoreStore(self._project, emulator_host=self._host, **options))

    async def wait(self, seconds: float) -> None:
        """Real time: nobody can move the database's clock."""
        await asyncio.sleep(seconds * 1.1)
