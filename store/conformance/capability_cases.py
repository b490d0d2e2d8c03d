"""That what is declared is there, and what is there is declared."""

import pytest

from store.conformance.capabilities import PROTOCOLS, Capability, methods_of
from store.conformance.harness import Harness, Stores
from store.conformance.turns import ANN, save
from store.contract import SessionStore


class CapabilityCases:
    """A store that can do more than it says would never be tested for it."""

    async def test_every_store_reads_and_writes_snapshots(self, harness: Harness, stores: Stores) -> None:
        stores.open()
        assert isinstance(harness.open(), SessionStore)

    @pytest.mark.parametrize("capability", PROTOCOLS)
    async def test_what_is_declared_is_there_and_what_is_there_is_declared(
        self, harness: Harness, stores: Stores, capability: Capability
    ) -> None:
        stores.open()
        store = harness.open()
        present = {name for name in methods_of(PROTOCOLS[capability]) if callable(getattr(store, name, None))}
        if capability in harness.capabilities:
            assert present == methods_of(PROTOCOLS[capability])
        else:
            assert present == set(), f"{capability.value!r} is not declared"

    async def test_a_chain_is_kept_short_exactly_where_that_is_declared(self, stores: Stores) -> None:
        store = stores.open(max_persisted_chain_length=1)
        await save(store, "first")
        await save(store, "second", parent_id="first")
        is_pruned = await store.get_snapshot(ANN, "first") is None
        assert is_pruned is (Capability.PRUNING in stores.capabilities)

    async def test_documents_are_opened_where_they_are_declared(self, harness: Harness, stores: Stores) -> None:
        stores.open()
        assert (harness.documents() is not None) is (Capability.DOCUMENTS in harness.capabilities)
