"""Corruption is never absence: what is damaged fails with the name of a document, and nothing is built on it."""

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.soundness import documents_of
from store.conformance.turns import ANN, claim, save, state_of
from store.database import Delete, Kind, Path, Update, Write
from store.errors import DataLossError


async def three_rows(store: Store) -> None:
    """A checkpoint and two diffs."""
    for index, row_id in enumerate("abc"):
        await save(store, row_id, parent_id="abc"[index - 1] if index else None, state=state_of(*"abc"[: index + 1]))


def row(row_id: str) -> Path:
    """Where it lies."""
    return Path(Kind.SNAPSHOTS, ANN.tenant, row_id)


async def break_documents(stores: Stores, *writes: Write) -> None:
    """Behind the store's back."""
    await stores.database.commit(writes)
    stores.is_damaged = True


async def require_loss(stores: Stores, *row_ids: str) -> None:
    """The rows cannot be read, which is told, and their metadata can."""
    cold = stores.open()
    for row_id in row_ids:
        with pytest.raises(DataLossError):
            await cold.get_snapshot(ANN, row_id)
        assert await cold.get_snapshot_metadata(ANN, row_id) is not None


class DamageCases:
    """Each kind of document, missing or altered."""

    async def test_a_missing_shard_is_data_loss_for_every_row_built_on_it(self, stores: Stores, store: Store) -> None:
        await three_rows(store)
        shards = await documents_of(stores.database, Kind.SHARDS)
        await break_documents(stores, *(Delete(shard.path) for shard in shards))
        await require_loss(stores, "a", "b", "c")

    async def test_an_altered_shard_is_data_loss(self, stores: Stores, store: Store) -> None:
        await three_rows(store)
        shards = await documents_of(stores.database, Kind.SHARDS)
        await break_documents(stores, *(Update(shard.path, {"chunk": b"{}", "codec": "json"}) for shard in shards))
        await require_loss(stores, "a", "b", "c")

    async def test_a_missing_diff_is_data_loss_for_the_rows_after_it_alone(self, stores: Stores, store: Store) -> None:
        await three_rows(store)
        await break_documents(stores, Delete(row("b")))
        await require_loss(stores, "c")
        cold = stores.open()
        assert await cold.get_snapshot(ANN, "a") is not None
        assert await cold.get_snapshot(ANN, "b") is None

    async def test_an_altered_diff_is_data_loss(self, stores: Stores, store: Store) -> None:
        await three_rows(store)
        await break_documents(stores, Update(row("b"), {"statePatch": b"[]", "codec": "json"}))
        await require_loss(stores, "b", "c")

    @pytest.mark.parametrize("field", ["snapshotId", "sessionId", "status", "createdAt", "kind", "stateDigest"])
    async def test_a_row_with_a_field_that_is_none_is_data_loss(self, stores: Stores, store: Store, field: str) -> None:
        await three_rows(store)
        await break_documents(stores, Update(row("b"), {field: 7}))
        cold = stores.open()
        with pytest.raises(DataLossError):
            await cold.get_snapshot(ANN, "b")
        with pytest.raises(DataLossError):
            await cold.get_snapshot_metadata(ANN, "b")

    async def test_a_row_of_a_newer_format_is_refused_and_not_rewritten(self, stores: Stores, store: Store) -> None:
        await three_rows(store)
        await break_documents(stores, Update(row("c"), {"formatVersion": 2}))
        cold = stores.open()
        for read in (cold.get_snapshot, cold.get_snapshot_metadata):
            with pytest.raises(DataLossError):
                await read(ANN, "c")
        with pytest.raises(DataLossError):
            await save(cold, "c", state=state_of("x"))

    async def test_no_turn_is_built_on_a_damaged_head(self, stores: Stores, store: Store) -> None:
        await three_rows(store)
        session = Path(Kind.POINTERS, ANN.tenant, "s")
        await break_documents(stores, Update(session, {"tail": []}))
        with pytest.raises(DataLossError):
            await stores.open().claim_turn(ANN, claim("q", "s", last_message_id="c"))
        with pytest.raises(DataLossError):
            await stores.open().get_transcript(ANN, "s")
