"""Truncate, restore and branch at any size: at the edge between checkpoints, where the session document keeps no copy,
over several shards, and written ahead of the commit that makes them visible."""

from typing import Any

import pytest

from store.conformance.conversations import add, compact, documents, ids, noise, parts, plain_turn, state_of_head
from store.conformance.harness import Stores
from store.conformance.turns import ANN, require

SHAPES: dict[str, dict[str, Any]] = {
    "every row a checkpoint": {"checkpoint_interval": 1},
    "a checkpoint every second row": {"checkpoint_interval": 2},
    "no copy in the session document": {"base_size": 0},
    "several shards": {"shard_size": 600, "base_size": 0},
}


class EditSizeCases:
    """States laid out in several ways."""

    @pytest.mark.parametrize("shape", SHAPES)
    async def test_every_row_can_be_cut_restored_and_branched_from(self, stores: Stores, shape: str) -> None:
        """Five turns, so that some lie on a checkpoint, some beside one; each time on a cold instance."""
        options = SHAPES[shape]
        store = stores.open(**options)
        first = await add(store, None, plain_turn("t0"))
        session_id = first.session_id
        rows = [first, *[await add(store, session_id, plain_turn(f"t{number}")) for number in range(1, 5)]]
        for number, row in enumerate(rows):
            cold = stores.open(**options)
            await cold.restore(ANN, session_id, row.snapshot_id)
            assert await state_of_head(stores.open(**options), session_id) == row.state
            await cold.truncate(ANN, session_id, f"t{number}")
            left = await state_of_head(stores.open(**options), session_id)
            assert left == (rows[number - 1].state if number else row.state and row.state.with_messages([]))
        await stores.open(**options).restore(ANN, session_id, rows[-1].snapshot_id)
        branch = await stores.open(**options).branch(ANN, session_id, "t3-answer")
        assert len(ids(await state_of_head(stores.open(**options), branch.id))) == 8
        for row in rows:
            assert await require(stores.open(**options), row.snapshot_id) == row

    async def test_states_larger_than_a_commit_are_written_ahead(self, stores: Stores) -> None:
        """The smallest commit that is allowed, and messages of three times its size."""
        options = {"commit_size": 65_536, "shard_size": 40_000}
        store = stores.open(**options)
        large = [parts("a", "user", {"text": noise(400_000)}), parts("a-answer", "model", {"text": noise(300_002)})]
        first = await add(store, None, large)
        second = await add(store, first.session_id, plain_turn("b"))
        await compact(store, first.session_id, "k")
        await store.truncate(ANN, first.session_id, "a-answer")
        assert await state_of_head(stores.open(**options), first.session_id) == first.state
        await store.truncate(ANN, first.session_id, "a")
        assert ids(await state_of_head(stores.open(**options), first.session_id)) == []
        await stores.open(**options).restore(ANN, first.session_id, second.snapshot_id)
        assert await state_of_head(stores.open(**options), first.session_id) == second.state
        branch = await stores.open(**options).branch(ANN, first.session_id, "a-answer", "copy")
        copy = (await state_of_head(stores.open(**options), "copy")).get("messages")
        assert [message["content"] for message in copy] == [message["content"] for message in large]
        assert branch.message_count == 2
        await store.delete_session(ANN, first.session_id)
        await store.delete_session(ANN, "copy")
        assert await documents(stores) == {}
