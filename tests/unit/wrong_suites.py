"""The suite on each of the wrong backends, and on a right one that declares the wrong capabilities: run by
test_conformance_catches, one class at a time, and never collected by name."""

from typing import Any

import pytest

from store.conformance import subscriptions
from store.conformance.capabilities import EVERYTHING, Capability
from store.conformance.capability_cases import CapabilityCases
from store.conformance.session_ids import SessionIdCases
from store.conformance.suite import StoreConformance, StoreFixtures
from store.documents import watching
from store.documents.store import DocumentStore
from store.memory.database import MemoryDatabase
from tests.contract.stores import MemoryStores, OwnIdsStores
from tests.unit.wrong_backends import WRONG_DATABASES, WRONG_STORES, WrongStores, suite_name
from tests.unit.wrong_databases import Passing


class WrongFixtures(StoreFixtures):
    """The fixtures with a wrong backend's harness."""

    wrong: type[Passing] | type[DocumentStore]

    @pytest.fixture(autouse=True)
    def impatience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A delivery that never comes is not waited for; readers look by themselves a little later."""
        monkeypatch.setattr(subscriptions, "PATIENCE", 1.5)
        monkeypatch.setattr(watching, "SLOW_POLL", 2.0)

    @pytest.fixture
    def harness(self) -> WrongStores:
        return WrongStores(self.wrong)


for _wrong in WRONG_STORES:
    _name = suite_name(_wrong)
    globals()[_name] = type(_name, (_wrong.cases, WrongFixtures), {"wrong": _wrong.backend})


class WrongDatabaseFixtures:
    """The fixture of a database that is wrong."""

    wrong: type[Passing]

    @pytest.fixture
    def database(self) -> Any:
        return self.wrong(MemoryDatabase())


for _wrong in WRONG_DATABASES:
    _name = suite_name(_wrong)
    globals()[_name] = type(_name, (_wrong.cases, WrongDatabaseFixtures), {"wrong": _wrong.backend})


class Undeclared(MemoryStores):
    """Can do more than it says."""

    capabilities = EVERYTHING - {Capability.EDITING}


class TestUndeclared(CapabilityCases, StoreFixtures):
    @pytest.fixture
    def harness(self) -> Undeclared:
        return Undeclared()


class SaysOwnIds(MemoryStores):
    """What two users call the same is one session, whatever it says."""

    capabilities = MemoryStores.capabilities | {Capability.OWN_IDS}


class TestOverdeclaredOwnIds(SessionIdCases, StoreFixtures):
    @pytest.fixture
    def harness(self) -> SaysOwnIds:
        return SaysOwnIds()


class HidesOwnIds(OwnIdsStores):
    """Does not say that users have ids of their own."""

    capabilities = OwnIdsStores.capabilities - {Capability.OWN_IDS}


class TestUndeclaredOwnIds(SessionIdCases, StoreFixtures):
    @pytest.fixture
    def harness(self) -> HidesOwnIds:
        return HidesOwnIds()


class Little:
    """A store of the least that there is."""

    def __init__(self, store: DocumentStore) -> None:
        self.get_snapshot = store.get_snapshot
        self.get_latest_snapshot = store.get_latest_snapshot
        self.save_snapshot = store.save_snapshot


class LittleStores(MemoryStores):
    """Says that it can do everything."""

    def open(self, **options: Any) -> Any:
        """Another instance."""
        return Little(super().open(**options))


class TestOverdeclared(CapabilityCases, StoreFixtures):
    @pytest.fixture
    def harness(self) -> LittleStores:
        return LittleStores()


class HonestLittleStores(LittleStores):
    """Declares nothing, and offers nothing: of all options it heeds the one that every store has to."""

    capabilities = frozenset()

    def open(self, **options: Any) -> Any:
        """Another instance."""
        return super().open(**{name: value for name, value in options.items() if name == "lease_staleness"})

    def documents(self) -> Any:
        """None."""
        return None


class TestLittle(StoreConformance):
    @pytest.fixture
    def harness(self) -> HonestLittleStores:
        return HonestLittleStores()


class ClosedStores(MemoryStores):
    """Can do everything, and shows nobody its documents."""

    capabilities = EVERYTHING - {Capability.NESTED_TENANTS, Capability.DOCUMENTS}

    def documents(self) -> Any:
        """None."""
        return None


class TestClosed(StoreConformance):
    machine_runs = 1
    large_states = False

    @pytest.fixture
    def harness(self) -> ClosedStores:
        return ClosedStores()
