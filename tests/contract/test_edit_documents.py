"""What truncate and delete do to our own documents, one by one."""

from collections.abc import Sequence

import pytest

from store.conformance.interposed import interposed_store
from store.database import Write
from store.documents.store import DocumentStore
from tests.contract.conversations import add, conversation, documents, noise, parts, plain_turn
from tests.contract.stores import Stores
from tests.contract.turns import ANN


async def test_an_unchanged_prefix_is_not_stored_again(stores: Stores, store: DocumentStore) -> None:
    """A cut costs a patch, whatever the size of what stays."""
    first = await add(store, None, [parts("a", "user", {"text": noise(60_000)}), *plain_turn("a")[1:]])
    await add(store, first.session_id, plain_turn("b"))
    before = await documents(stores)
    session = await store.truncate(ANN, first.session_id, "b")
    after = await documents(stores)
    [new] = [document for path, document in after.items() if path not in before]
    assert new.path.id == session.head_snapshot_id
    assert len(new.fields["statePatch"]) < 200


async def test_a_row_that_waits_for_its_end_reads_as_missing_rather_than_damaged(
    stores: Stores, store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows go in batches: one that is left may build on one that is gone."""
    monkeypatch.setattr("store.documents.deletions.BATCH", 1)
    session_id = await conversation(store, "a", "b", "c", "d")
    rows = (await store.list_snapshots(ANN, session_id, 10)).snapshots
    seen: list[int] = []

    async def look(writes: Sequence[Write]) -> None:
        cold = stores.open()
        found = [await cold.get_snapshot(ANN, row.snapshot_id) for row in rows]
        assert all(row is None or row.state is not None for row in found)
        seen.append(sum(row is not None for row in found))

    await interposed_store(stores.database, look).delete_session(ANN, session_id)
    assert seen[0] == 4
    assert seen[-1] == 0
    assert len(seen) == 7  # the mark, four rows, one shard, the session
