"""Continuing from another row than the head: the turn becomes its sibling's rival, and the new head."""

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ABORTED,
    ANN,
    FAILED,
    aborted,
    answered,
    claim,
    claimed,
    completed,
    converse,
    failed,
    require,
    same_send,
    save,
    state_of,
)
from store.errors import NotResumableError, SnapshotNotFoundError, TranscriptStaleError, TurnBusyError
from store.models import Claim, Outcome, Snapshot


async def three_turns(store: Store) -> list[Snapshot]:
    """A conversation of three turns."""
    first = await converse(store, "a")
    return [first, await converse(store, "b", first.session_id), await converse(store, "c", first.session_id)]


def _again(first: Snapshot) -> Claim:
    return claim("d", first.session_id, last_message_id="a-answer", snapshot_to_resume=first.snapshot_id)


class ResumeCases:
    """Continuing from another row than the head."""

    @pytest.mark.parametrize("which", [0, 1, 2])
    async def test_the_turn_continues_the_named_row_and_becomes_the_head(
        self, stores: Stores, store: Store, which: int
    ) -> None:
        turns = await three_turns(store)
        point = turns[which]
        given = claim(
            "d", point.session_id, last_message_id=point.last_message_id, snapshot_to_resume=point.snapshot_id
        )
        lease = await claimed(stores.open(), given)
        assert (lease.parent_id, lease.state) == (point.snapshot_id, point.state)
        settled = await store.settle_turn(lease, completed(lease))
        assert (settled.parent_id, settled.state) == (point.snapshot_id, answered(lease))
        cold = stores.open()
        assert await cold.get_latest_snapshot(ANN, point.session_id) == settled
        for turn in turns:  # the former ones stay in the tree as they were
            assert await require(cold, turn.snapshot_id) == turn
        assert (await converse(cold, "e", point.session_id)).parent_id == settled.snapshot_id

    @pytest.mark.parametrize("base_size", [0, 2000])
    async def test_siblings_are_exact_also_where_the_base_is_too_large(self, stores: Stores, base_size: int) -> None:
        store = stores.open(base_size=base_size, checkpoint_interval=4)
        turns = await three_turns(store)
        for n in range(6):
            point = turns[n % 3]
            given = claim(
                f"d{n}",
                point.session_id,
                last_message_id=point.last_message_id,
                snapshot_to_resume=point.snapshot_id,
            )
            lease = await claimed(store, given)
            turns.append(await store.settle_turn(lease, completed(lease, "x" * 300 * n)))
        cold = stores.open()
        for turn in turns:
            assert await require(cold, turn.snapshot_id) == turn

    async def test_the_tail_is_compared_with_the_named_rows(self, store: Store) -> None:
        first, second, third = await three_turns(store)
        for tail in (second.last_message_id, third.last_message_id, None):
            given = claim("d", first.session_id, last_message_id=tail, snapshot_to_resume=first.snapshot_id)
            with pytest.raises(TranscriptStaleError) as caught:
                await store.claim_turn(ANN, given)
            assert caught.value.last_message_id == first.last_message_id

    async def test_an_aborted_row_with_a_state_can_be_continued(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        stopped = await store.settle_turn(lease, aborted(lease))
        await converse(store, "b", lease.session_id)
        given = claim(
            "c", lease.session_id, last_message_id=stopped.last_message_id, snapshot_to_resume=stopped.snapshot_id
        )
        assert (await claimed(store, given)).state == stopped.state

    async def test_a_row_without_a_result_cannot_be_continued(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        broken = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        await store.settle_turn(broken, failed())
        stopped = await claimed(store, claim("c", first.session_id, last_message_id="a-answer"))
        await store.settle_turn(stopped, Outcome(ABORTED, "aborted"))
        running = await claimed(store, claim("d", first.session_id, last_message_id="a-answer"))
        for row, status in ((broken, "failed"), (stopped, "aborted"), (running, "pending")):
            with pytest.raises(NotResumableError) as caught:
                await store.claim_turn(ANN, claim("e", first.session_id, snapshot_to_resume=row.snapshot_id))
            assert status in caught.value.message
            assert caught.value.details == {"snapshotId": row.snapshot_id}
        await stores.wait(stores.moment)
        late = stores.open(lease_staleness=stores.moment)
        with pytest.raises(NotResumableError, match="expired"):
            await late.claim_turn(ANN, claim("e", first.session_id, snapshot_to_resume=running.snapshot_id))
        await store.abort_turn(ANN, running.snapshot_id)
        with pytest.raises(NotResumableError):
            await store.claim_turn(ANN, claim("e", first.session_id, snapshot_to_resume=running.snapshot_id))

    async def test_a_row_of_another_session_or_nobodys_is_not_found(self, store: Store) -> None:
        first, other = await converse(store, "a"), await converse(store, "b")
        for row_id in (other.snapshot_id, "nothing"):
            with pytest.raises(SnapshotNotFoundError):
                await store.claim_turn(ANN, claim("c", first.session_id, snapshot_to_resume=row_id))

    async def test_a_live_turn_hinders_it_all_the_same(self, store: Store) -> None:
        first, second, third = await three_turns(store)
        running = await claimed(store, claim("d", first.session_id, last_message_id=third.last_message_id))
        given = claim(
            "e", first.session_id, last_message_id=second.last_message_id, snapshot_to_resume=second.snapshot_id
        )
        with pytest.raises(TurnBusyError):
            await store.claim_turn(ANN, given)
        await store.settle_turn(running, completed(running))

    async def test_the_same_send_is_known_there_too(self, stores: Stores, store: Store) -> None:
        first, _, _ = await three_turns(store)
        given = claim("d", first.session_id, last_message_id="a-answer", snapshot_to_resume=first.snapshot_id)
        lease = await claimed(store, given)
        assert (await same_send(stores.open(), _again(first))).is_running
        await store.settle_turn(lease, completed(lease))
        answer = await same_send(stores.open(), _again(first))
        assert (answer.snapshot_id, answer.is_running) == (lease.snapshot_id, False)

    async def test_a_failed_attempt_there_leaves_the_head(self, store: Store) -> None:
        first, _, third = await three_turns(store)
        given = claim("d", first.session_id, last_message_id="a-answer", snapshot_to_resume=first.snapshot_id)
        lease = await claimed(store, given)
        assert (await store.settle_turn(lease, failed())).status is FAILED
        session = await store.get_session(ANN, first.session_id)
        assert session is not None
        assert session.head_snapshot_id == third.snapshot_id

    async def test_a_saved_row_that_is_not_the_head_can_be_continued(self, store: Store) -> None:
        await save(store, "root", state=state_of("a"))
        await save(store, "left", parent_id="root", state=state_of("a", "b"))
        await save(store, "right", parent_id="root", state=state_of("a", "c"))
        lease = await claimed(store, claim("d", "s", last_message_id="b", snapshot_to_resume="left"))
        assert (lease.parent_id, lease.state) == ("left", state_of("a", "b"))
        await store.settle_turn(lease, completed(lease))
