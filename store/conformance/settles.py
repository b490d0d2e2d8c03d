"""Settling a turn: what becomes of the row, the session and the conversation."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.soundness import complaints
from store.conformance.turns import (
    ABORTED,
    ABORTING,
    ANN,
    BROKEN,
    COMPLETED,
    EXPIRED,
    FAILED,
    PENDING,
    aborted,
    answered,
    changed,
    claim,
    claimed,
    completed,
    converse,
    failed,
    require,
    state_of,
)
from store.errors import InvalidRequestError, LeaseLostError, StateTooLargeError
from store.models import Lease, Origin, Outcome


class SettleCases:
    """Settling a turn."""

    async def test_a_completed_turn_is_the_new_head(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        outcome = replace(completed(lease, custom={"n": 1}), finish_reason="length", usage={"inputTokens": 7})
        settled = await store.settle_turn(lease, outcome)
        assert settled.state == answered(lease, custom={"n": 1})
        assert (settled.status, settled.finish_reason, settled.usage) == (COMPLETED, "length", {"inputTokens": 7})
        assert (settled.parent_id, settled.origin, settled.message_id) == (first.snapshot_id, Origin.TURN, "b")
        assert settled.last_message_id == "b-answer"
        for instance in (store, stores.open()):
            assert await require(instance, lease.snapshot_id) == settled
            assert await instance.get_latest_snapshot(ANN, first.session_id) == settled
            session = await instance.get_session(ANN, first.session_id)
            assert session is not None
            assert (session.head_snapshot_id, session.last_message_id) == (lease.snapshot_id, "b-answer")
            assert (session.message_count, session.active_snapshot_id, session.is_turn_active) == (4, None, False)
            assert session.updated_at == settled.updated_at

    async def test_a_failed_turn_leaves_the_conversation_as_it_was(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        before = await store.get_session(ANN, first.session_id)
        lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        settled = await store.settle_turn(lease, failed())
        assert settled == await require(stores.open(), lease.snapshot_id)
        assert (settled.status, settled.finish_reason, settled.state) == (FAILED, "failed", None)
        assert settled.error == BROKEN
        after = await store.get_session(ANN, first.session_id)
        assert before is not None
        assert settled.updated_at is not None
        assert after == replace(before, updated_at=settled.updated_at)
        transcript = await stores.open().get_transcript(ANN, first.session_id)
        assert transcript is not None
        assert transcript.state == first.state

    async def test_an_aborted_turn_keeps_what_it_had_produced(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        settled = await store.settle_turn(lease, aborted(lease, "half a"))
        assert settled == await require(stores.open(), lease.snapshot_id)
        assert (settled.status, settled.finish_reason, settled.state) == (ABORTED, "aborted", answered(lease, "half a"))
        assert (await converse(stores.open(), "b", lease.session_id)).parent_id == lease.snapshot_id

    async def test_an_aborted_turn_without_a_state_leaves_the_head(self, store: Store) -> None:
        first = await converse(store, "a")
        lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        settled = await store.settle_turn(lease, Outcome(ABORTED, "aborted"))
        assert settled == await require(store, lease.snapshot_id)
        session = await store.get_session(ANN, first.session_id)
        assert session is not None
        assert (session.head_snapshot_id, session.active_snapshot_id) == (first.snapshot_id, None)

    @pytest.mark.parametrize("is_known", [True, False], ids=["the owner has heard of it", "the commit is refused"])
    @pytest.mark.parametrize("kind", ["completed", "failed", "aborted"])
    async def test_a_flipped_turn_always_ends_aborted(
        self, stores: Stores, store: Store, kind: str, is_known: bool
    ) -> None:
        lease = await claimed(store, claim("a"))
        await stores.open().abort_turn(ANN, lease.snapshot_id)
        if is_known:
            await store.heartbeat([lease])
        outcome = {"completed": completed(lease), "failed": failed(), "aborted": aborted(lease)}[kind]
        settled = await store.settle_turn(lease, outcome)
        assert settled == await require(stores.open(), lease.snapshot_id)
        assert (settled.status, settled.finish_reason, settled.state) == (ABORTED, "aborted", outcome.state)
        assert settled.error is None
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert session.head_snapshot_id == (None if kind == "failed" else lease.snapshot_id)

    async def test_a_flipped_turn_stores_what_its_owner_gives_for_that_case(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await stores.open().abort_turn(ANN, lease.snapshot_id)
        outcome = replace(completed(lease, "whole"), interrupted=lambda: aborted(lease, "marked"))
        settled = await store.settle_turn(lease, outcome)
        assert settled.state == answered(lease, "marked")
        assert settled == await require(stores.open(), lease.snapshot_id)

    async def test_a_turn_settles_once(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        settled = await store.settle_turn(lease, completed(lease))
        again = await store.settle_turn(lease, completed(lease))  # as after an answer that was lost
        assert again == settled == await require(store, lease.snapshot_id)
        await converse(store, "b", lease.session_id)
        assert await store.settle_turn(lease, completed(lease)) == settled
        assert await complaints(stores) == []

    @pytest.mark.parametrize(
        "fields",
        [
            {"status": COMPLETED, "state": None},
            {"status": FAILED, "state": state_of("a")},
            {"status": PENDING, "state": None},
            {"status": ABORTING, "state": None},
            {"status": EXPIRED, "state": None},
        ],
    )
    async def test_an_outcome_that_makes_no_sense_is_refused_and_the_turn_goes_on(
        self, store: Store, fields: dict[str, Any]
    ) -> None:
        lease = await claimed(store, claim("a"))
        before = await require(store, lease.snapshot_id)
        with pytest.raises(InvalidRequestError):
            await store.settle_turn(lease, Outcome(finish_reason="stop", **fields))
        assert await require(store, lease.snapshot_id) == before
        await store.settle_turn(lease, completed(lease))

    async def test_a_state_over_the_limit_is_refused_and_the_turn_can_still_fail(self, stores: Stores) -> None:
        store = stores.open(max_state_size=1000)
        lease = await claimed(store, claim("a"))
        with pytest.raises(StateTooLargeError):
            await store.settle_turn(lease, completed(lease, "x" * 1000))
        assert (await store.settle_turn(lease, failed())).status is FAILED

    async def test_a_huge_error_is_cut(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        error = {"status": "INTERNAL", "message": "é" * 9000, "details": {"trace": "x" * 100_000}}
        await store.settle_turn(lease, replace(failed(), error=error))
        row = await require(stores.open(), lease.snapshot_id)
        assert row.error == {"status": "INTERNAL", "message": "é" * 2048, "truncated": True}

    async def test_the_title_made_by_the_turn_yields_to_one_that_was_given(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await store.settle_turn(lease, replace(completed(lease), auto_title="made"))
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert session.title == "made"
        lease = await claimed(store, claim("b", lease.session_id, last_message_id="a-answer"))
        await store.update_session(ANN, lease.session_id, title="given")
        await store.settle_turn(lease, replace(completed(lease), auto_title="made again"))
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert session.title == "given"

    async def test_a_rename_during_a_turn_hinders_neither(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        renamed = await stores.open().update_session(ANN, lease.session_id, title="new")
        assert (renamed.title, renamed.is_turn_active, renamed.active_snapshot_id) == ("new", True, lease.snapshot_id)
        settled = await store.settle_turn(lease, completed(lease))
        assert settled.status is COMPLETED
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert (session.title, session.head_snapshot_id) == ("new", lease.snapshot_id)

    async def test_an_empty_transcript_has_no_last_message(self, store: Store) -> None:
        first = await converse(store, "a")
        lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        settled = await store.settle_turn(lease, Outcome(COMPLETED, "stop", state_of(custom=1)))
        session = await store.get_session(ANN, first.session_id)
        assert session is not None
        assert (session.last_message_id, session.message_count) == (None, 0)
        assert settled == await require(store, lease.snapshot_id)

    async def test_a_turn_whose_row_was_ended_from_aside_is_lost(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        ended = await store.save_snapshot(ANN, lease.snapshot_id, lambda row: row and replace(row, status=FAILED))
        with pytest.raises(LeaseLostError):
            await store.settle_turn(lease, completed(lease))
        assert await require(store, lease.snapshot_id) == ended
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert (session.head_snapshot_id, session.active_snapshot_id) == (None, None)

    @pytest.mark.parametrize("end", [completed, lambda lease: failed(), None], ids=["completed", "failed", "expired"])
    async def test_a_state_that_a_save_gave_a_running_row_goes_with_its_end(
        self, stores: Stores, store: Store, end: Callable[[Lease], Outcome] | None
    ) -> None:
        """And all that was told and stored of it, whether the turn ends with a state of its own or with none."""
        lease = await claimed(store, claim("a"))
        aside = changed(state=state_of("aside"), usage={"inputTokens": 1})
        assert await store.save_snapshot(ANN, lease.snapshot_id, aside) is not None
        if end is not None:
            assert await store.settle_turn(lease, end(lease)) == await require(stores.open(), lease.snapshot_id)
            return
        await stores.wait(stores.moment)
        await stores.open(lease_staleness=stores.moment).abort_turn(ANN, lease.snapshot_id)
        row = await require(stores.open(), lease.snapshot_id)
        assert (row.status, row.state, row.last_message_id, row.usage) == (ABORTED, None, None, None)
