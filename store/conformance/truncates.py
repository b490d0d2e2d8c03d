"""Truncate: where a transcript is cut, what stays, and what is refused."""

import pytest

from store.conformance.conversations import (
    add,
    asking_turn,
    compaction,
    conversation,
    documents,
    empty_session,
    ids,
    kept,
    plain_turn,
    state_of_head,
    texts,
    tool_turn,
)
from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ABORTED,
    ANN,
    BOB,
    COMPLETED,
    ELSEWHERE,
    claim,
    claimed,
    completed,
    converse,
    require,
)
from store.errors import MessageNotFoundError, SessionNotFoundError, TranscriptStaleError
from store.models import Origin
from store.state import EMPTY

A, B, C = ([message["id"] for message in tool_turn(name)] for name in "abc")
CUTS = {
    "b": A,  # a user message goes with all after it (47)
    "a": [],
    "a-answer": A,  # a model message stays, and all after it goes (48)
    "b-answer": [*A, *B],
    "b-calls": [*A, *B[:4]],  # with the results of its calls
    "b-result-1": [*A, *B[:4]],  # a tool message counts as part of the model's
    "b-result-2": [*A, *B[:4]],
}


class TruncateCases:
    """Cutting a transcript."""

    async def test_a_transcript_is_cut_at_a_message(self, stores: Stores, store: Store) -> None:
        """Cases 47 and 48; the messages that stay are the very same, their ids included."""
        transcript = [*tool_turn("a"), *tool_turn("b"), *tool_turn("c")]
        for target, left in CUTS.items():
            session_id = await kept(store, *transcript, custom={"n": 1}, artifacts=[{"name": "x"}])
            before = await state_of_head(store, session_id)
            session = await store.truncate(ANN, session_id, target)
            cold = stores.open()
            after = await state_of_head(cold, session_id)
            assert ids(after) == left
            assert texts(after) == texts(before)[: len(left)]
            assert (after.get("custom"), after.get("artifacts")) == ({"n": 1}, [{"name": "x"}])
            assert (session.message_count, session.last_message_id) == (len(left), left[-1] if left else None)
            assert session == await cold.get_session(ANN, session_id)

    async def test_a_cut_is_a_row_of_its_own_and_the_state_before_stays_readable(
        self, stores: Stores, store: Store
    ) -> None:
        session_id = await conversation(store, "a", "b")
        former = await store.get_latest_snapshot(ANN, session_id)
        assert former is not None
        session = await store.truncate(ANN, session_id, "b")
        cold = stores.open()
        row = await cold.get_latest_snapshot(ANN, session_id)
        assert row is not None
        assert (row.snapshot_id, row.parent_id) == (session.head_snapshot_id, former.snapshot_id)
        assert (row.origin, row.status, row.last_message_id) == (Origin.TRUNCATE, COMPLETED, "a-answer")
        assert await require(cold, former.snapshot_id) == former

    async def test_cutting_behind_the_last_message_changes_nothing(self, stores: Stores, store: Store) -> None:
        """Case 48."""
        session_id = await conversation(store, "a")
        before = await documents(stores)
        session = await store.truncate(ANN, session_id, "a-answer", "a-answer")
        assert await documents(stores) == before
        assert session == await store.get_session(ANN, session_id)

    @pytest.mark.parametrize("target", ["nothing", "of-another", ""])
    async def test_a_message_that_the_transcript_does_not_hold_is_not_found(
        self, stores: Stores, store: Store, target: str
    ) -> None:
        """Cases 49 and 50."""
        session_id = await conversation(store, "a")
        await conversation(store, "of-another")
        before = await documents(stores)
        with pytest.raises(MessageNotFoundError):
            await store.truncate(ANN, session_id, target)
        assert await documents(stores) == before

    async def test_a_session_without_any_turn_has_no_message_to_cut_at(self, stores: Stores, store: Store) -> None:
        await empty_session(store, "s")
        before = await documents(stores)
        with pytest.raises(MessageNotFoundError):
            await store.truncate(ANN, "s", "a")
        assert await documents(stores) == before

    async def test_a_message_that_was_cut_off_is_not_found_any_more(self, store: Store) -> None:
        session_id = await conversation(store, "a", "b")
        await store.truncate(ANN, session_id, "b")
        with pytest.raises(MessageNotFoundError):
            await store.truncate(ANN, session_id, "b")

    async def test_others_sessions_answer_as_missing_ones(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a")
        before = await documents(stores)
        for scope, target in ((BOB, session_id), (ELSEWHERE, session_id), (ANN, "nothing")):
            with pytest.raises(SessionNotFoundError):
                await store.truncate(scope, target, "a")
        assert await documents(stores) == before

    @pytest.mark.parametrize("tail", ["a", "nothing"])
    async def test_a_cut_with_another_tail_is_stale(self, stores: Stores, store: Store, tail: str) -> None:
        session_id = await conversation(store, "a", "b")
        before = await documents(stores)
        with pytest.raises(TranscriptStaleError) as caught:
            await store.truncate(ANN, session_id, "a", tail)
        assert caught.value.last_message_id == "b-answer"
        assert await documents(stores) == before
        assert (await store.truncate(ANN, session_id, "b", "b-answer")).last_message_id == "a-answer"

    async def test_cutting_at_or_before_a_compaction_undoes_it(self, stores: Stores, store: Store) -> None:
        """Case 45: with two compactions, the newest one that stays is where the history begins."""
        first, second = compaction("k1"), compaction("k2")
        transcript = [*tool_turn("a"), first, *tool_turn("b"), second, *tool_turn("c")]
        cuts = {"c": [*A, "k1", *B, "k2"], "k2": [*A, "k1", *B], "b": [*A, "k1"], "k1": A, "a-answer": A}
        for target, left in cuts.items():
            session_id = await kept(store, *transcript)
            await store.truncate(ANN, session_id, target)
            assert ids(await state_of_head(stores.open(), session_id)) == left

    async def test_a_turn_that_was_stopped_is_cut_like_any_other(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a")
        await add(store, session_id, plain_turn("b"), status=ABORTED)
        await add(store, session_id, tool_turn("c"))
        assert (await store.truncate(ANN, session_id, "b-answer")).last_message_id == "b-answer"
        assert (await store.truncate(ANN, session_id, "b")).last_message_id == "a-answer"
        assert ids(await state_of_head(stores.open(), session_id)) == A

    async def test_calls_that_wait_for_an_answer_wait_still_where_the_cut_leaves_them(self, store: Store) -> None:
        session_id = await conversation(store, "a")
        await add(store, session_id, asking_turn("b"))
        await add(store, session_id, plain_turn("c"))
        session = await store.truncate(ANN, session_id, "b-calls")
        assert session.last_message_id == "b-calls"

    async def test_a_cut_frees_the_ids_that_it_removes(self, store: Store) -> None:
        session_id = await conversation(store, "a", "b")
        await store.truncate(ANN, session_id, "b")
        again = await converse(store, "b", session_id, text="Another question")
        assert ids(again.state) == [*A, "b", "b-answer"]

    async def test_a_turn_goes_on_from_the_cut(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a", "b")
        session = await store.truncate(ANN, session_id, "a")
        assert session.last_message_id is None
        lease = await claimed(stores.open(), claim("c", session_id))
        assert (lease.parent_id, lease.state) == (session.head_snapshot_id, EMPTY.with_messages([]))
        await store.settle_turn(lease, completed(lease))
        assert ids(await state_of_head(stores.open(), session_id)) == ["c", "c-answer"]

    async def test_cuts_move_the_update_but_neither_title_nor_model(self, store: Store) -> None:
        session_id = await conversation(store, "a", "b")
        named = await store.update_session(ANN, session_id, title="A name", model="m")
        session = await store.truncate(ANN, session_id, "b")
        assert (session.title, session.model, session.created_at) == ("A name", "m", named.created_at)
        assert session.updated_at >= named.updated_at
        row = await require(store, session.head_snapshot_id or "")
        assert row.model == "m"
