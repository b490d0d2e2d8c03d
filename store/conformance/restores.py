"""Restore: an earlier row's whole state becomes the head's again."""

import pytest

from store.conformance.conversations import (
    add,
    compact,
    conversation,
    documents,
    ids,
    plain_turn,
    state_of_head,
    taken,
    tool_turn,
)
from store.conformance.harness import Store, Stores
from store.conformance.turns import ABORTED, ANN, BOB, COMPLETED, converse, failed, require
from store.errors import NotResumableError, SessionNotFoundError, SnapshotNotFoundError, TranscriptStaleError
from store.models import Origin, Outcome


class RestoreCases:
    """Going back, and forward again."""

    async def test_a_restore_takes_a_truncate_back(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a", "b", custom={"n": 1})
        before = await store.get_latest_snapshot(ANN, session_id)
        assert before is not None
        cut = await store.truncate(ANN, session_id, "a")
        session = await stores.open().restore(ANN, session_id, before.snapshot_id)
        cold = stores.open()
        assert await state_of_head(cold, session_id) == before.state
        assert session == await cold.get_session(ANN, session_id)
        assert (session.message_count, session.last_message_id) == (10, "b-answer")
        row = await require(cold, session.head_snapshot_id or "")
        assert (row.origin, row.status, row.parent_id) == (Origin.RESTORE, COMPLETED, cut.head_snapshot_id)

    async def test_a_restore_takes_a_compaction_back(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a")
        before = await store.get_latest_snapshot(ANN, session_id)
        assert before is not None
        await compact(store, session_id, "k")
        await add(store, session_id, tool_turn("b"))
        await store.restore(ANN, session_id, before.snapshot_id)
        assert await state_of_head(stores.open(), session_id) == before.state

    async def test_a_restore_takes_custom_state_and_artifacts_back_too(self, stores: Stores, store: Store) -> None:
        first = await add(store, None, plain_turn("a"), custom={"n": 1}, artifacts=[{"name": "x", "parts": []}])
        await add(store, first.session_id, plain_turn("b"), custom={"n": 2}, artifacts=[])
        cut = await store.truncate(ANN, first.session_id, "b")
        assert (await state_of_head(store, first.session_id)).get("custom") == {"n": 2}  # a cut leaves it
        assert cut.last_message_id == "a-answer"
        await store.restore(ANN, first.session_id, first.snapshot_id)
        assert await state_of_head(stores.open(), first.session_id) == first.state

    async def test_a_restore_goes_forward_as_well_as_back(self, stores: Stores, store: Store) -> None:
        """Also to a row that is on no path from the head: the tree keeps every branch."""
        first = await add(store, None, plain_turn("a"))
        second = await add(store, first.session_id, plain_turn("b"))
        await store.restore(ANN, first.session_id, first.snapshot_id, "b-answer")
        third = await converse(store, "c", first.session_id)
        await store.restore(ANN, first.session_id, second.snapshot_id, "c-answer")
        assert await state_of_head(stores.open(), first.session_id) == second.state
        assert await require(stores.open(), third.snapshot_id) == third

    async def test_restoring_the_head_changes_nothing(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a")
        before = await documents(stores)
        session = await store.get_session(ANN, session_id)
        assert session is not None
        assert await store.restore(ANN, session_id, session.head_snapshot_id or "") == session
        assert await documents(stores) == before

    async def test_a_stopped_turn_can_be_restored_with_what_it_had_produced(self, stores: Stores, store: Store) -> None:
        first = await add(store, None, plain_turn("a"))
        stopped = await add(store, first.session_id, plain_turn("b"), status=ABORTED)
        await store.truncate(ANN, first.session_id, "b")
        await store.restore(ANN, first.session_id, stopped.snapshot_id)
        assert await state_of_head(stores.open(), first.session_id) == stopped.state

    async def test_a_row_without_a_state_cannot_be_restored(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a")
        broken = await store.settle_turn(await taken(store, "b", session_id), failed())
        empty = await store.settle_turn(await taken(store, "c", session_id), Outcome(ABORTED, "aborted"))
        before = await documents(stores)
        for row in (broken, empty):
            with pytest.raises(NotResumableError):
                await store.restore(ANN, session_id, row.snapshot_id)
        assert await documents(stores) == before

    async def test_a_row_of_another_session_or_nobodys_cannot_be_restored(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a")
        other = await add(store, None, plain_turn("x"))
        foreign = await add(store, None, plain_turn("y"), scope=BOB)
        before = await documents(stores)
        for snapshot_id in (other.snapshot_id, foreign.snapshot_id, "nothing"):
            with pytest.raises(SnapshotNotFoundError):
                await store.restore(ANN, session_id, snapshot_id)
        with pytest.raises(SessionNotFoundError):
            await store.restore(BOB, session_id, foreign.snapshot_id)
        assert await documents(stores) == before

    async def test_a_restore_with_another_tail_is_stale(self, stores: Stores, store: Store) -> None:
        first = await add(store, None, plain_turn("a"))
        await add(store, first.session_id, plain_turn("b"))
        before = await documents(stores)
        with pytest.raises(TranscriptStaleError) as caught:
            await store.restore(ANN, first.session_id, first.snapshot_id, "a-answer")
        assert caught.value.last_message_id == "b-answer"
        assert await documents(stores) == before

    async def test_a_message_that_was_brought_back_answers_its_resend_again(self, store: Store) -> None:
        first = await add(store, None, plain_turn("a"))
        second = await converse(store, "b", first.session_id)
        await store.truncate(ANN, first.session_id, "b")
        await store.restore(ANN, first.session_id, second.snapshot_id)
        assert ids(await state_of_head(store, first.session_id)) == ["a", "a-answer", "b", "b-answer"]
