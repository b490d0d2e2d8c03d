"""The suite on each of the wrong backends, and on a right one that declares the wrong capabilities: run by
test_conformance_catches, one class at a time, and never collected by name."""

from typing import Any

import pytest

from store.conformance import subscriptions
from store.conformance.capabilities import EVERYTHING, Capability
from store.conformance.capability_cases import CapabilityCases
from store.conformance.suite import StoreConformance, StoreFixtures
from store.documents import watching
from store.documents.store import DocumentStore
from tests.contract.stores import MemoryStores
from tests.unit.wrong_backends import CAUGHT_BY, Passing, WrongStores

# A delivery that never comes is the point here; readers look by themselves a little later.
subscriptions.PATIENCE, watching.SLOW_POLL = 1.5, 2.0


class WrongFixtures(StoreFixtures):
    """The fixtures with a wrong backend's harness."""

    wrong: type[Passing] | type[DocumentStore]

    @pytest.fixture
    def harness(self) -> WrongStores:
        return WrongStores(self.wrong)


for _wrong, _cases in CAUGHT_BY.items():
    globals()[f"Test{_wrong.__name__}"] = type(f"Test{_wrong.__name__}", (_cases, WrongFixtures), {"wrong": _wrong})


class Undeclared(MemoryStores):
    """Can do more than it says."""

    capabilities = EVERYTHING - {Capability.EDITING}


class TestUndeclared(CapabilityCases, StoreFixtures):
    @pytest.fixture
    def harness(self) -> Undeclared:
        return Undeclared()


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
    """Declares nothing, and offers nothing."""

    capabilities = frozenset()

    def documents(self) -> Any:
        """None."""
        return None


class TestLittle(StoreConformance):
    @pytest.fixture
    def harness(self) -> HonestLittleStores:
        return HonestLittleStores()
