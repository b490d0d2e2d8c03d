"""Aborting: by snapshot, by session, whatever state the turn is in; and the runner that is asked to stop."""

import asyncio

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.soundness import complaints
from store.conformance.turns import (
    ABORTED,
    ABORTING,
    ANN,
    BOB,
    COMPLETED,
    ELSEWHERE,
    EXPIRED,
    FAILED,
    PENDING,
    RUNNER,
    aborted,
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
from store.errors import SessionNotFoundError, SnapshotNotFoundError
from store.models import Abort, Beat, NewSession, Outcome, SnapshotStatus


class AbortCases:
    """Aborting a turn."""

    async def test_a_running_turn_is_asked_to_stop(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        before = await require(store, lease.snapshot_id)
        done = await stores.open().abort_turn(ANN, lease.snapshot_id)
        assert done == Abort(lease.snapshot_id, lease.session_id, PENDING, ABORTING)
        after = await require(store, lease.snapshot_id)
        assert (after.status, after.heartbeat_at) == (ABORTING, before.heartbeat_at)
        assert list(await store.heartbeat([lease])) == [Beat.ABORTING]
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert (session.is_turn_active, session.active_snapshot_id) == (True, lease.snapshot_id)
        await store.settle_turn(lease, aborted(lease))

    async def test_asking_twice_changes_nothing_more(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await store.abort_turn(ANN, lease.snapshot_id)
        before = await require(store, lease.snapshot_id)
        assert await store.abort_turn(ANN, lease.snapshot_id) == Abort(
            lease.snapshot_id, lease.session_id, ABORTING, ABORTING
        )
        assert await require(store, lease.snapshot_id) == before

    async def test_the_turn_of_a_session_is_asked_to_stop(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        done = await store.abort_session(ANN, lease.session_id)
        assert done == Abort(lease.snapshot_id, lease.session_id, PENDING, ABORTING)

    async def test_a_session_without_a_turn_has_none_to_abort(self, store: Store) -> None:
        first = await converse(store, "a")
        await store.create_session(ANN, "idle", NewSession("echo"))
        for session_id in (first.session_id, "idle", "nothing"):
            with pytest.raises(SessionNotFoundError):
                await store.abort_session(ANN, session_id)

    @pytest.mark.parametrize("status", [COMPLETED, FAILED, ABORTED])
    async def test_a_settled_row_stays_as_it_is(self, store: Store, status: SnapshotStatus) -> None:
        before = await save(store, "row", status=status)
        session = await store.get_session(ANN, "s")
        assert await store.abort_turn(ANN, "row") == Abort("row", "s", status, status)
        assert await require(store, "row") == before
        assert await store.get_session(ANN, "s") == session

    async def test_a_missing_row_or_another_users_is_not_found(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        before = await require(store, lease.snapshot_id)
        with pytest.raises(SnapshotNotFoundError):
            await store.abort_turn(ANN, "nothing")
        for scope in (BOB, ELSEWHERE):
            with pytest.raises(SnapshotNotFoundError):
                await store.abort_turn(scope, lease.snapshot_id)
            with pytest.raises(SessionNotFoundError):
                await store.abort_session(scope, lease.session_id)
        assert await require(store, lease.snapshot_id) == before

    @pytest.mark.parametrize("is_aborting", [False, True])
    @pytest.mark.parametrize("by_session", [False, True])
    async def test_a_stale_turn_is_ended_at_once(
        self, stores: Stores, store: Store, is_aborting: bool, by_session: bool
    ) -> None:
        first = await converse(store, "a")
        lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        if is_aborting:
            await store.abort_turn(ANN, lease.snapshot_id)
        await stores.wait(stores.moment)
        late = stores.open(lease_staleness=stores.moment)
        if by_session:
            done = await late.abort_session(ANN, first.session_id)
        else:
            done = await late.abort_turn(ANN, lease.snapshot_id)
        assert done == Abort(lease.snapshot_id, first.session_id, EXPIRED, ABORTED)
        row = await require(store, lease.snapshot_id)
        assert (row.status, row.finish_reason, row.state, row.error) == (ABORTED, "aborted", None, None)
        session = await store.get_session(ANN, first.session_id)
        assert session is not None
        assert (session.active_snapshot_id, session.head_snapshot_id) == (None, first.snapshot_id)
        assert list(await store.heartbeat([lease])) == [Beat.LOST]
        assert await complaints(stores) == []

    async def test_a_turn_without_a_runner_is_ended_at_once(self, store: Store) -> None:
        """It waits in a queue: nobody is there to be asked."""
        lease = await claimed(store, claim("a", runner=None))
        assert await store.abort_turn(ANN, lease.snapshot_id) == Abort(
            lease.snapshot_id, lease.session_id, PENDING, ABORTED
        )
        assert (await require(store, lease.snapshot_id)).status is ABORTED
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert (session.active_snapshot_id, session.is_turn_active) == (None, False)

    async def test_a_running_row_that_was_saved_is_ended_at_once(self, stores: Stores, store: Store) -> None:
        await save(store, "row", status=PENDING, state=state_of("a"))
        assert await store.abort_turn(ANN, "row") == Abort("row", "s", PENDING, ABORTED)
        row = await require(stores.open(), "row")
        assert row.status is ABORTED
        session = await store.get_session(ANN, "s")
        assert session is not None
        assert session.active_snapshot_id is None

    async def test_a_save_can_ask_for_the_abort(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await store.save_snapshot(ANN, lease.snapshot_id, changed(status=ABORTING))
        assert list(await store.heartbeat([lease])) == [Beat.ABORTING]
        assert (await store.settle_turn(lease, completed(lease))).status is ABORTED

    async def test_after_an_abort_the_session_takes_the_next_turn(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await store.abort_session(ANN, lease.session_id)
        await store.settle_turn(lease, Outcome(ABORTED, "aborted"))
        assert (await converse(store, "b", lease.session_id)).parent_id is None

    async def test_a_runner_hears_which_of_its_turns_shall_stop(self, stores: Stores, store: Store) -> None:
        """Those of before it listens first, then each as it comes; never another runner's."""
        early, later, settled = [await claimed(store, claim(f"q{n}"), scope) for n, scope in enumerate((ANN, BOB, ANN))]
        foreign = await claimed(store, claim("f", runner="instance-2"))
        other = stores.open()
        for scope, lease in ((ANN, early), (ANN, settled), (ANN, foreign)):
            await other.abort_turn(scope, lease.snapshot_id)
        await store.settle_turn(settled, aborted(settled))
        async with asyncio.timeout(10), store.watch_aborts(RUNNER) as deliveries:
            assert await anext(deliveries) == [early.snapshot_id]
            await other.abort_turn(BOB, later.snapshot_id)
            heard: set[str] = set()
            while later.snapshot_id not in heard:
                heard |= set(await anext(deliveries))
        assert heard <= {early.snapshot_id, later.snapshot_id}

    async def test_a_runner_without_aborts_hears_so_at_once(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        async with asyncio.timeout(10), store.watch_aborts(RUNNER) as deliveries:
            assert await anext(deliveries) == []
        await store.settle_turn(lease, failed())
