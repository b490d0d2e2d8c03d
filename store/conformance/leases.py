"""Holding a lease: heartbeats, expiry, who may take a stale one over, and what its former owner finds."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.soundness import complaints
from store.conformance.turns import (
    ABORTED,
    ABORTING,
    ANN,
    COMPLETED,
    EXPIRED,
    FAILED,
    PENDING,
    aborted,
    claim,
    claimed,
    completed,
    converse,
    failed,
    require,
    save,
)
from store.errors import LeaseLostError, TurnBusyError
from store.models import Beat, Lease, Outcome, Snapshot


async def stale(stores: Stores, *leases: Lease) -> Store:
    """An instance for which these leases are too old; the others, with their 60 seconds, take them for alive only where
    the clock is the database's own."""
    await stores.wait(stores.moment)
    late = stores.open(lease_staleness=stores.moment)
    for lease in leases:
        row = await late.get_snapshot_metadata(ANN, lease.snapshot_id)
        assert row is not None
        assert row.status is EXPIRED
    return late


async def _head(stores: Stores, lease: Lease) -> Snapshot:
    latest = await stores.open().get_latest_snapshot(ANN, lease.session_id)
    assert latest is not None
    return latest


class LeaseCases:
    """Keeping, losing and taking over a lease."""

    async def test_a_heartbeat_moves_nothing_but_the_heartbeat(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        row, session = await require(store, lease.snapshot_id), await store.get_session(ANN, lease.session_id)
        assert list(await store.heartbeat([lease])) == [Beat.ALIVE]
        after = await require(store, lease.snapshot_id)
        assert row.heartbeat_at is not None
        assert after.heartbeat_at is not None
        assert after.heartbeat_at > row.heartbeat_at
        assert replace(after, heartbeat_at=row.heartbeat_at) == row
        assert await store.get_session(ANN, lease.session_id) == session

    async def test_without_leases_nothing_beats(self, store: Store) -> None:
        assert list(await store.heartbeat([])) == []

    async def test_verdicts_come_in_the_order_of_the_leases(self, stores: Stores, store: Store) -> None:
        leases = [await claimed(store, claim(f"q{n}")) for n in range(4)]
        await stores.open().abort_turn(ANN, leases[1].snapshot_id)
        await store.settle_turn(leases[2], failed())
        assert list(await store.heartbeat(leases)) == [Beat.ALIVE, Beat.ABORTING, Beat.LOST, Beat.ALIVE]
        assert [lease.is_aborting for lease in leases] == [False, True, False, False]
        assert list(await store.heartbeat(leases)) == [Beat.ALIVE, Beat.ABORTING, Beat.LOST, Beat.ALIVE]

    async def test_a_heartbeat_leaves_a_settled_row_alone(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        settled = await store.settle_turn(lease, completed(lease))
        assert list(await store.heartbeat([lease])) == [Beat.LOST]
        assert await require(store, lease.snapshot_id) == settled

    async def test_an_aborting_turn_keeps_its_lease_by_beating(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await store.abort_turn(ANN, lease.snapshot_id)
        before = await require(store, lease.snapshot_id)
        for _ in range(2):
            assert list(await store.heartbeat([lease])) == [Beat.ABORTING]
        after = await require(store, lease.snapshot_id)
        assert after.status is ABORTING
        assert before.heartbeat_at is not None
        assert after.heartbeat_at is not None
        assert after.heartbeat_at > before.heartbeat_at

    async def test_a_row_expires_by_the_clock_without_any_write(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        row = await require(store, lease.snapshot_id)
        assert row.status is PENDING
        late = await stale(stores, lease)
        assert await require(late, lease.snapshot_id) == replace(row, status=EXPIRED)
        latest = await late.get_latest_snapshot(ANN, lease.session_id)
        assert latest == replace(row, status=EXPIRED)
        session = await late.get_session(ANN, lease.session_id)
        assert session is not None
        assert (session.is_turn_active, session.active_snapshot_id) == (False, lease.snapshot_id)

    async def test_a_beat_keeps_a_row_from_expiring(self, stores: Stores) -> None:
        store = stores.open(lease_staleness=stores.moment * 10)
        lease = await claimed(store, claim("a"))
        for _ in range(2):
            await stores.wait(stores.moment * 6)
            await store.heartbeat([lease])
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert session.is_turn_active
        assert (await require(store, lease.snapshot_id)).status is PENDING

    async def test_an_expired_turn_whose_owner_beats_again_is_alive_again(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await stale(stores, lease)
        assert list(await store.heartbeat([lease])) == [Beat.ALIVE]
        assert (await require(store, lease.snapshot_id)).status is PENDING
        with pytest.raises(TurnBusyError):
            await store.claim_turn(ANN, claim("b", lease.session_id))

    async def test_a_saved_pending_row_without_a_beat_counts_from_when_it_was_written(
        self, stores: Stores, store: Store
    ) -> None:
        saved = await save(store, "row", status=PENDING, state=None)
        assert saved.heartbeat_at is None
        assert (await require(store, "row")).status is PENDING
        await stores.wait(stores.moment)
        late = stores.open(lease_staleness=stores.moment)
        assert (await require(late, "row")).status is EXPIRED

    async def test_a_takeover_settles_the_stale_row_as_failed(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        dead = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        late = await stale(stores, dead)
        lease = await claimed(late, claim("c", first.session_id, last_message_id="a-answer"))
        assert (lease.parent_id, lease.state) == (first.snapshot_id, first.state)
        row = await require(store, dead.snapshot_id)
        assert (row.status, row.finish_reason, row.state) == (FAILED, "failed", None)
        assert row.error is not None
        assert (row.error["status"], row.error["details"]) == ("ABORTED", {"code": "lease_lost"})
        session = await store.get_session(ANN, first.session_id)
        assert session is not None
        assert (session.active_snapshot_id, session.head_snapshot_id) == (lease.snapshot_id, first.snapshot_id)
        assert await complaints(stores) == []
        assert (await late.settle_turn(lease, completed(lease))).status is COMPLETED

    async def test_a_takeover_carries_out_an_abort_that_nobody_did(self, stores: Stores, store: Store) -> None:
        dead = await claimed(store, claim("a"))
        await store.abort_turn(ANN, dead.snapshot_id)
        late = await stale(stores, dead)
        lease = await claimed(late, claim("b", dead.session_id))
        row = await require(store, dead.snapshot_id)
        assert (row.status, row.finish_reason, row.error) == (ABORTED, "aborted", None)
        await late.settle_turn(lease, completed(lease))

    @pytest.mark.parametrize(
        "outcome", [completed, aborted, lambda _: failed()], ids=["completed", "aborted", "failed"]
    )
    async def test_the_former_owner_of_a_lease_publishes_nothing(
        self, stores: Stores, store: Store, outcome: Callable[[Lease], Outcome]
    ) -> None:
        dead = await claimed(store, claim("a"))
        late = await stale(stores, dead)
        lease = await claimed(late, claim("b", dead.session_id))
        row, session = await require(store, dead.snapshot_id), await store.get_session(ANN, dead.session_id)
        assert list(await store.heartbeat([dead])) == [Beat.LOST]
        with pytest.raises(LeaseLostError):
            await store.settle_turn(dead, outcome(dead))
        assert await require(store, dead.snapshot_id) == row
        assert await store.get_session(ANN, dead.session_id) == session
        settled = await late.settle_turn(lease, completed(lease, "the new owner's"))
        assert (await _head(stores, dead)).state == settled.state
        with pytest.raises(LeaseLostError):
            await store.settle_turn(dead, outcome(dead))
        assert (await _head(stores, dead)).state == settled.state

    async def test_a_late_owner_whom_nobody_has_replaced_still_publishes(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await stale(stores, lease)
        settled = await store.settle_turn(lease, completed(lease))
        assert settled == await require(store, lease.snapshot_id)
        assert settled.status is COMPLETED

    async def test_an_owner_that_beats_in_between_keeps_its_lease(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        late = await stale(stores, lease)
        await store.heartbeat([lease])
        fresh = stores.open()
        with pytest.raises(TurnBusyError):
            await fresh.claim_turn(ANN, claim("b", lease.session_id))
        assert (await late.settle_turn(lease, completed(lease))).status is COMPLETED

    async def test_a_lease_can_be_settled_through_another_instance(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        settled = await stores.open().settle_turn(lease, completed(lease))
        assert settled == await require(store, lease.snapshot_id)
        assert (await converse(store, "b", lease.session_id)).parent_id == lease.snapshot_id
