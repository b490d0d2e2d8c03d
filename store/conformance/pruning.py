"""Chains of limited length: what goes, what stays readable, and that nothing of what stays is damaged."""

from typing import Any

import pytest

from store.conformance.capabilities import Capability
from store.conformance.harness import Store, Stores
from store.conformance.soundness import documents_of
from store.conformance.turns import (
    ANN,
    FAILED,
    changed,
    claim,
    claimed,
    completed,
    converse,
    failed,
    require,
    save,
    state_of,
)
from store.database import Kind
from store.errors import MessageIdConflictError, SnapshotNotFoundError


def opened(stores: Stores, keep: int, **options: Any) -> Store:
    """An instance that keeps so many rows of a chain."""
    stores.require(Capability.PRUNING)
    return stores.open(max_persisted_chain_length=keep, **options)


async def save_chain(store: Store, *row_ids: str, parent: str | None = None) -> None:
    """One row on the other, each with one more message."""
    for index, row_id in enumerate(row_ids):
        state = state_of(*row_ids[: index + 1])
        await save(store, row_id, parent_id=parent, state=state)
        parent = row_id


async def readable(store: Store, *row_ids: str) -> list[str]:
    """Which of the rows are there, each read in full."""
    found = [await store.get_snapshot(ANN, row_id) for row_id in row_ids]
    assert all(row is None or row.state is not None for row in found)
    return [row.snapshot_id for row in found if row is not None]


async def stored(stores: Stores, kind: Kind) -> set[str]:
    return {document.path.id for document in await documents_of(stores.database, kind)}


class PruneCases:
    """What goes, and what stays."""

    @pytest.mark.parametrize(
        ("keep", "kept"), [(1, ["e"]), (2, ["d", "e"]), (4, ["b", "c", "d", "e"]), (9, [*"abcde"])]
    )
    @pytest.mark.parametrize("interval", [1, 3, 25])
    async def test_as_many_rows_as_configured_are_kept(
        self, stores: Stores, keep: int, kept: list[str], interval: int
    ) -> None:
        await save_chain(opened(stores, keep, checkpoint_interval=interval), *"abcde")
        cold = stores.open()
        assert await readable(cold, *"abcde") == kept
        for row_id in kept:
            row = await cold.get_snapshot(ANN, row_id)
            assert row is not None
            assert row.state == state_of(*"abcde"[: "abcde".index(row_id) + 1])

    async def test_a_pruned_row_is_missing_from_every_read(self, stores: Stores) -> None:
        store = opened(stores, 2)
        await save_chain(store, *"abc")
        assert await store.get_snapshot_metadata(ANN, "a") is None
        page = await store.list_snapshots(ANN, "s", 10)
        assert [row.snapshot_id for row in page.snapshots] == ["b", "c"]
        with pytest.raises(SnapshotNotFoundError):
            await store.restore(ANN, "s", "a")
        with pytest.raises(SnapshotNotFoundError):
            await store.claim_turn(ANN, claim("q", "s", snapshot_to_resume="a", last_message_id="a"))
        with pytest.raises(SnapshotNotFoundError):
            await store.abort_turn(ANN, "a")

    async def test_documents_of_pruned_rows_go_once_no_kept_row_is_built_from_them(self, stores: Stores) -> None:
        store = opened(stores, 2, checkpoint_interval=3)
        rows = [f"row{n}" for n in range(8)]
        await save_chain(store, *rows)
        # row6 is a checkpoint, row5 the last diff of the segment row3, row4, row5
        assert await stored(stores, Kind.SNAPSHOTS) == {"row6", "row7"}
        await save_chain(store, "row8", parent="row7")
        assert await stored(stores, Kind.SNAPSHOTS) == {
            "row7",
            "row8",
        }  # of a checkpoint's row only its shards are needed
        assert await readable(stores.open(), *rows, "row8") == ["row7", "row8"]

    async def test_the_shards_of_pruned_rows_go_once_nobody_needs_them(self, stores: Stores) -> None:
        store = opened(stores, 1, checkpoint_interval=2, base_size=0)
        await save_chain(store, *"abcd")
        assert len(await stored(stores, Kind.SHARDS)) == 1  # the checkpoint's that "c" was
        needed = await store.get_snapshot(ANN, "d")
        assert needed is not None
        assert needed.state == state_of(*"abcd")

    async def test_siblings_are_pruned_only_when_their_own_branch_grows(self, stores: Stores) -> None:
        store = opened(stores, 3)
        await save_chain(store, *"abc")
        await save_chain(store, "x", parent="b")
        assert await readable(store, *"abcx") == [*"abcx"]
        await save_chain(store, "y", "z", parent="x")
        assert await readable(store, *"abcxyz") == [*"cxyz"]
        await save_chain(store, "d", parent="c")
        assert await readable(stores.open(), *"abcdxyz") == [*"cdxyz"]

    async def test_the_state_of_a_sibling_survives_the_rows_that_it_was_built_from(self, stores: Stores) -> None:
        store = opened(stores, 1)
        await save_chain(store, *"abc")
        await save(store, "left", parent_id="c", state=state_of("a", "left"))
        await save(store, "right", parent_id="left", state=state_of("a", "right"))
        cold = stores.open()
        right = await cold.get_snapshot(ANN, "right")
        assert right is not None
        assert right.state == state_of("a", "right")
        assert await readable(cold, *"abc", "left") == []

    async def test_the_head_and_the_latest_row_stay_whatever_their_place(self, stores: Stores) -> None:
        store = opened(stores, 1)
        await save(store, "head", state=state_of("a"))
        now = (await require(store, "head")).created_at
        await save(store, "an older one", parent_id="head", created_at=now)
        assert await readable(store, "head", "an older one") == ["head", "an older one"]

    async def test_the_head_stays_where_another_row_is_the_latest(self, stores: Stores) -> None:
        store = opened(stores, 1)
        head = await save(store, "head", state=state_of("a"))
        await save(store, "latest", parent_id="head", status=FAILED, state=None)
        await save(store, "an older one", parent_id="head", created_at=head.created_at)
        assert await readable(stores.open(), "head", "an older one") == ["head", "an older one"]

    async def test_the_latest_row_stays_where_another_one_is_the_head(self, stores: Stores) -> None:
        store = opened(stores, 1)
        head = await save(store, "head", state=state_of("a"))
        await save(store, "latest", status=FAILED, state=None)
        await save(store, "an older one", parent_id="latest", created_at=head.created_at)
        latest = await stores.open().get_latest_snapshot(ANN, "s")
        assert latest is not None
        assert latest.snapshot_id == "latest"

    async def test_a_running_row_stays_whatever_is_saved_on_it(self, stores: Stores) -> None:
        store = opened(stores, 1)
        first = await converse(store, "q1")
        session_id = first.session_id
        lease = await claimed(store, claim("q2", session_id, last_message_id=first.last_message_id))
        of_session: dict[str, Any] = {"session_id": session_id, "created_at": first.created_at}
        await save(store, "latest", status=FAILED, state=None, session_id=session_id)
        await save(store, "0-older", parent_id=lease.snapshot_id, **of_session)
        settled = await store.settle_turn(lease, completed(lease))
        assert await require(stores.open(), lease.snapshot_id) == settled

    async def test_the_row_that_a_running_turn_continues_from_stays(self, stores: Stores) -> None:
        store = opened(stores, 1)
        first = await converse(store, "q1")
        session_id = first.session_id
        lease = await claimed(store, claim("q2", session_id, last_message_id=first.last_message_id))
        await store.save_snapshot(ANN, first.snapshot_id, changed(error={"noted": True}))
        assert await readable(store, first.snapshot_id) == [first.snapshot_id]
        second = await store.settle_turn(lease, completed(lease))
        assert await readable(stores.open(), first.snapshot_id, second.snapshot_id) == [second.snapshot_id]

    async def test_turns_prune_as_saves_do_and_a_failed_one_prunes_nothing(self, stores: Stores) -> None:
        store = opened(stores, 2)
        first = await converse(store, "q1")
        second = await converse(store, "q2", first.session_id)
        lease = await claimed(store, claim("q3", first.session_id, last_message_id=second.last_message_id))
        await store.settle_turn(lease, failed())
        assert await readable(store, first.snapshot_id, second.snapshot_id) == [first.snapshot_id, second.snapshot_id]
        third = await converse(store, "q4", first.session_id)
        ids = [first.snapshot_id, second.snapshot_id, third.snapshot_id]
        assert await readable(stores.open(), *ids) == ids[1:]

    async def test_truncate_and_restore_extend_the_chain_too(self, stores: Stores) -> None:
        store = opened(stores, 2)
        first = await converse(store, "q1")
        second = await converse(store, "q2", first.session_id)
        await store.truncate(ANN, first.session_id, "q2")
        assert await readable(store, first.snapshot_id, second.snapshot_id) == [second.snapshot_id]
        restored = await store.restore(ANN, first.session_id, second.snapshot_id)
        assert restored.last_message_id == second.last_message_id
        assert await readable(store, second.snapshot_id) == []

    async def test_a_message_of_a_pruned_turn_keeps_its_id(self, stores: Stores) -> None:
        """Its result is gone, so that it cannot answer a resend; nor may the agent run again."""
        store = opened(stores, 1)
        first = await converse(store, "q1")
        second = await converse(store, "q2", first.session_id)
        with pytest.raises(MessageIdConflictError):
            await store.claim_turn(ANN, claim("q1", first.session_id, last_message_id=second.last_message_id))

    async def test_switching_the_option_on_prunes_a_long_chain_at_the_next_row(self, stores: Stores) -> None:
        rows = [f"row{n:02}" for n in range(30)]
        await save_chain(stores.open(checkpoint_interval=4), *rows)
        await save(opened(stores, 3, checkpoint_interval=4), "last", parent_id=rows[-1], state=state_of("x"))
        assert await readable(stores.open(), *rows, "last") == [*rows[-2:], "last"]
        # row28 begins a segment: what is kept needs no other row.
        assert await stored(stores, Kind.SNAPSHOTS) == {*rows[-2:], "last"}

    async def test_a_cycle_of_parents_does_not_hang_the_prune(self, stores: Stores) -> None:
        store = opened(stores, 1)
        await save(store, "self", parent_id="self")
        await save(store, "b", parent_id="self")
        assert await readable(store, "self", "b") == ["b"]

    async def test_a_new_row_on_a_pruned_parent_is_stored_whole(self, stores: Stores) -> None:
        store = opened(stores, 1)
        await save_chain(store, *"ab")
        state = state_of("a", "c")
        await save(store, "c", parent_id="a", state=state)
        row = await stores.open().get_snapshot(ANN, "c")
        assert row is not None
        assert (row.parent_id, row.state) == ("a", state)
