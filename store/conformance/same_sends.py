"""The same send: a message that comes again is answered by its earlier turn, running or done, on every instance."""

from dataclasses import replace

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ABORTED,
    ANN,
    BOB,
    ELSEWHERE,
    FAILED,
    aborted,
    claim,
    claimed,
    completed,
    converse,
    failed,
    require,
    same_send,
)
from store.errors import MessageIdConflictError, SessionNotFoundError, TranscriptStaleError, TurnBusyError
from store.ids import session_id_of_first_message
from store.models import Claim, Lease, Outcome, SameSend


def again(given: Claim) -> Claim:
    """The same request in another call: with ids that were minted anew."""
    fresh = claim()
    return replace(given, snapshot_id=fresh.snapshot_id, attempt=fresh.attempt)


class SameSendCases:
    """The same message sent again."""

    async def test_the_running_turn_answers_on_every_instance(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        given = claim("b", first.session_id, last_message_id="a-answer")
        lease = await claimed(store, given)
        for instance in (store, stores.open()):
            answer = await same_send(instance, again(given))
            assert answer == SameSend(first.session_id, lease.snapshot_id, is_running=True)

    async def test_the_running_turn_answers_before_the_tail_is_compared(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        answer = await same_send(store, claim("a", lease.session_id, last_message_id="whatever", model="other"))
        assert (answer.snapshot_id, answer.is_running) == (lease.snapshot_id, True)

    async def test_a_first_message_that_comes_again_finds_its_session(self, stores: Stores, store: Store) -> None:
        given = claim("a")
        lease = await claimed(store, given)
        assert lease.session_id == session_id_of_first_message("acme", "ann", "a")
        assert (await same_send(stores.open(), again(given))).snapshot_id == lease.snapshot_id
        await store.settle_turn(lease, completed(lease))
        answer = await same_send(stores.open(), again(given))
        assert answer == SameSend(lease.session_id, lease.snapshot_id, is_running=False)

    async def test_the_same_first_message_of_others_is_another_session(self, store: Store) -> None:
        leases = [await claimed(store, claim("a"), scope) for scope in (ANN, BOB, ELSEWHERE)]
        assert len({lease.session_id for lease in leases}) == 3

    async def test_a_completed_turn_answers(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        given = claim("b", first.session_id, last_message_id="a-answer")
        lease = await claimed(store, given)
        await store.settle_turn(lease, completed(lease))
        for instance in (store, stores.open()):
            answer = await same_send(instance, again(given))
            assert answer == SameSend(first.session_id, lease.snapshot_id, is_running=False)

    async def test_a_turn_that_is_no_more_the_last_one_answers_still(self, store: Store) -> None:
        first = await converse(store, "a")
        given = claim("b", first.session_id, last_message_id="a-answer")
        lease = await claimed(store, given)
        await store.settle_turn(lease, completed(lease))
        await converse(store, "c", first.session_id)
        assert (await same_send(store, again(given))).snapshot_id == lease.snapshot_id
        assert (await same_send(store, claim("a"))).snapshot_id == first.snapshot_id

    async def test_a_completed_turn_answers_whatever_tail_the_resend_names(self, store: Store) -> None:
        first = await converse(store, "a")
        for tail in ("a-answer", None, "nothing"):
            answer = await same_send(store, claim("a", first.session_id, last_message_id=tail))
            assert answer.snapshot_id == first.snapshot_id
        answer = await same_send(store, claim("a", first.session_id, check_tail=False))
        assert answer.snapshot_id == first.snapshot_id

    async def test_an_aborted_turn_with_its_message_in_the_transcript_answers(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await store.settle_turn(lease, aborted(lease))
        assert (await same_send(store, claim("a"))).snapshot_id == lease.snapshot_id

    async def test_an_aborted_turn_without_a_state_is_attempted_anew(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await store.settle_turn(lease, Outcome(ABORTED, "aborted"))
        second = await claimed(store, claim("a"))
        assert (second.session_id, second.parent_id) == (lease.session_id, None)

    async def test_a_failed_turn_is_attempted_anew(self, store: Store) -> None:
        first = await converse(store, "a")
        given = claim("b", first.session_id, last_message_id="a-answer")
        lease = await claimed(store, given)
        await store.settle_turn(lease, failed())
        second = await claimed(store, again(given))
        assert second.snapshot_id != lease.snapshot_id
        await store.settle_turn(second, completed(second))
        assert (await same_send(store, again(given))).snapshot_id == second.snapshot_id

    async def test_a_failed_first_turn_is_attempted_anew_in_the_same_session(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await store.settle_turn(lease, failed())
        second = await claimed(store, claim("a"))
        assert (second.session_id, second.is_new_session) == (lease.session_id, False)

    async def test_an_expired_turn_is_attempted_anew_and_fails(self, stores: Stores, store: Store) -> None:
        given = claim("a")
        lease = await claimed(store, given)
        await stores.wait(stores.moment)
        late = stores.open(lease_staleness=stores.moment)
        second = await claimed(late, again(given))
        assert second.session_id == lease.session_id
        assert (await require(store, lease.snapshot_id)).status is FAILED

    async def test_another_message_under_the_id_of_the_running_one_is_a_conflict(self, store: Store) -> None:
        lease = await claimed(store, claim("a", text="one"))
        for session_id in (None, lease.session_id):
            with pytest.raises(MessageIdConflictError) as caught:
                await store.claim_turn(ANN, claim("a", session_id, text="two"))
            assert caught.value.details == {"messageId": "a"}

    @pytest.mark.parametrize("tail", ["a-answer", "old", None])
    async def test_another_message_under_a_used_id_is_a_conflict(self, store: Store, tail: str | None) -> None:
        first = await converse(store, "a")
        with pytest.raises(MessageIdConflictError):
            await store.claim_turn(ANN, claim("a", first.session_id, text="two", last_message_id=tail))

    async def test_a_models_message_id_is_a_conflict(self, store: Store) -> None:
        first = await converse(store, "a")
        with pytest.raises(MessageIdConflictError):
            await store.claim_turn(ANN, claim("a-answer", first.session_id, last_message_id="a-answer"))

    async def test_another_message_under_the_id_of_a_failed_one_is_a_new_attempt(self, store: Store) -> None:
        lease = await claimed(store, claim("a", text="one"))
        await store.settle_turn(lease, failed())
        second = await claimed(store, claim("a", lease.session_id, text="two"))
        await store.settle_turn(second, completed(second))
        assert (await same_send(store, claim("a", lease.session_id, text="two"))).snapshot_id == second.snapshot_id

    async def test_a_message_whose_id_nobody_chose_is_never_taken_for_an_earlier_one(self, store: Store) -> None:
        first = await converse(store, "a")
        unnamed = claim("a", first.session_id, message_is_named=False)
        with pytest.raises(TranscriptStaleError):
            await store.claim_turn(ANN, unnamed)
        lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        with pytest.raises(TurnBusyError):
            await store.claim_turn(ANN, replace(unnamed, last_message_id="a-answer"))
        await store.settle_turn(lease, failed())

    async def test_an_id_that_left_the_transcript_is_free_again(self, store: Store) -> None:
        """Continuing from before a message takes it out of the conversation, though its row stays."""
        first = await converse(store, "a")
        await converse(store, "b", first.session_id)
        back = claim("c", first.session_id, last_message_id="a-answer", snapshot_to_resume=first.snapshot_id)
        lease = await claimed(store, back)
        await store.settle_turn(lease, completed(lease))
        free = claim("b", first.session_id, text="another", last_message_id="c-answer")
        assert isinstance(await store.claim_turn(ANN, free), Lease)

    async def test_an_outdated_resend_of_a_removed_message_is_stale(self, store: Store) -> None:
        first = await converse(store, "a")
        given = claim("b", first.session_id, last_message_id="a-answer")
        lease = await claimed(store, given)
        await store.settle_turn(lease, completed(lease))
        back = claim("c", first.session_id, last_message_id="a-answer", snapshot_to_resume=first.snapshot_id)
        lease = await claimed(store, back)
        await store.settle_turn(lease, completed(lease))
        with pytest.raises(TranscriptStaleError) as caught:
            await store.claim_turn(ANN, again(given))
        assert caught.value.last_message_id == "c-answer"

    async def test_others_cannot_ask_for_a_send(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        for scope in (BOB, ELSEWHERE):
            with pytest.raises(SessionNotFoundError):
                await store.claim_turn(scope, claim("a", lease.session_id))
