"""What a backend gives to the suite, and what the suite's cases get of it."""

from collections.abc import Set
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, cast

import pytest

from store import contract
from store.conformance.capabilities import CAPABILITY_OF, Capability
from store.database import Database

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        """The time."""
        return self.now

    def move(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += timedelta(seconds=seconds)


class Harness(Protocol):
    """One empty store, to be opened any number of times. A backend's harness; new for every case."""

    capabilities: Set[Capability]
    moment: float
    """Seconds that a case can afford to let pass, by `wait`: much where a clock is moved, little where time is real."""

    def open(self, **options: Any) -> contract.SessionStore:
        """Another instance on the same sessions, as another process would open it, with nothing cached. `options` are
        keywords of `store.documents.shelf.Options`. `lease_staleness` must be heeded, `max_persisted_chain_length`
        where PRUNING is declared; those that say how states are laid out may be ignored."""

    def documents(self) -> Database | None:
        """The documents beneath; None where DOCUMENTS is not declared."""

    async def wait(self, seconds: float) -> None:
        """Lets that much time pass, and a little more."""

    async def close(self) -> None:
        """Frees everything; stores were closed before, where they have a `close`."""


class Store(
    contract.SessionStore,
    contract.SnapshotMetadataReader,
    contract.SnapshotSubscriber,
    contract.TurnStore,
    contract.SessionDirectory,
    contract.TranscriptEditor,
    contract.QueuedTurns,
    contract.TurnStreams,
    contract.RetentionStore,
    Protocol,
):
    """A store with every capability; a case that uses one which is not declared is skipped, with the reason."""

    async def close(self) -> None:
        """Ends listeners and frees connections."""


def _require(needed: Capability, declared: Set[Capability]) -> None:
    if needed not in declared:
        pytest.skip(f"needs the capability {needed.value!r}, which is not declared")


class Declared:
    """A store of which only what is declared can be used."""

    def __init__(self, store: contract.SessionStore, capabilities: Set[Capability]) -> None:
        self._store = store
        self._capabilities = capabilities

    def __getattr__(self, name: str) -> Any:
        needed = CAPABILITY_OF.get(name)
        if needed is not None:
            _require(needed, self._capabilities)
        return getattr(self._store, name)


class Stores:
    """What a case works with: instances on one set of sessions, and the documents beneath."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._opened: list[contract.SessionStore] = []
        self.moment = harness.moment
        self.is_damaged = False
        """A case that breaks documents says so: they are not checked after it then."""

    @property
    def capabilities(self) -> Set[Capability]:
        """What the harness declares."""
        return self._harness.capabilities

    def require(self, capability: Capability) -> None:
        """Skips the case where the capability is not declared."""
        _require(capability, self.capabilities)

    @property
    def database(self) -> Database:
        """The documents beneath; the case is skipped where they are not declared."""
        self.require(Capability.DOCUMENTS)
        database = self._harness.documents()
        assert database is not None, "DOCUMENTS is declared, and the harness gives none"
        return database

    def open(self, **options: Any) -> Store:
        """Another instance; closed at the end."""
        self._opened.append(self._harness.open(**options))
        return cast(Store, Declared(self._opened[-1], self.capabilities))

    async def wait(self, seconds: float) -> None:
        """Lets that much time pass."""
        await self._harness.wait(seconds)

    async def close(self) -> None:
        """Closes all instances, then the harness."""
        for store in self._opened:
            if hasattr(store, "close"):
                await store.close()
        await self._harness.close()
