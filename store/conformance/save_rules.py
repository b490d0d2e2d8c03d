"""What a save may not change: a settled row's status and state, any row's session and parent; what a beat leaves."""

from dataclasses import replace
from datetime import timedelta

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ABORTED,
    ABORTING,
    ANN,
    BOB,
    COMPLETED,
    EXPIRED,
    FAILED,
    PENDING,
    always,
    changed,
    claim,
    claimed,
    completed,
    require,
    save,
    snapshot,
    state_of,
)
from store.errors import (
    InvalidRequestError,
    SnapshotNotFoundError,
    SnapshotSettledError,
    TurnBusyError,
)
from store.models import SnapshotStatus
from store.state import State

SETTLED = (COMPLETED, FAILED, ABORTED)


class SaveRuleCases:
    """What a save may change, and what it may not."""

    @pytest.mark.parametrize("status", SETTLED)
    async def test_a_settled_status_never_changes(self, store: Store, status: SnapshotStatus) -> None:
        before = await save(store, "row", status=status)
        for other in set(SnapshotStatus) - {status, EXPIRED}:
            with pytest.raises(SnapshotSettledError):
                await store.save_snapshot(ANN, "row", changed(status=other))
        assert await require(store, "row") == before

    @pytest.mark.parametrize("status", SETTLED)
    async def test_a_settled_state_never_changes_but_its_metadata_may(
        self, store: Store, status: SnapshotStatus
    ) -> None:
        before = await save(store, "row", status=status, state=state_of("a", custom=1))
        for state in (state_of("a", custom=1.0), state_of("a", custom=True), state_of(), None):
            with pytest.raises(SnapshotSettledError):
                await store.save_snapshot(ANN, "row", changed(state=state))
        after = await store.save_snapshot(ANN, "row", changed(error={"noted": True}))
        assert after == await require(store, "row")
        assert (after.state, after.error) == (before.state, {"noted": True})

    async def test_an_interior_row_keeps_its_state_when_its_metadata_changes(
        self, stores: Stores, store: Store
    ) -> None:
        for before, row_id in ((None, "a"), ("a", "b"), ("b", "c")):
            await save(store, row_id, parent_id=before, state=state_of("m", row=row_id))
        await store.save_snapshot(ANN, "b", changed(finish_reason="length"))
        cold = stores.open()
        assert (await require(cold, "b")).finish_reason == "length"
        assert [(await require(cold, row_id)).state for row_id in "abc"] == [
            state_of("m", row=row_id) for row_id in "abc"
        ]
        latest = await cold.get_latest_snapshot(ANN, "s")
        assert latest is not None
        assert latest.snapshot_id == "c"

    @pytest.mark.parametrize("status", [*SETTLED, PENDING, ABORTING])
    async def test_a_rows_session_and_parent_never_change(self, store: Store, status: SnapshotStatus) -> None:
        before = await save(store, "row", session_id="s", status=status)
        for fields in ({"session_id": "t"}, {"parent_id": "p"}):
            with pytest.raises(SnapshotSettledError):
                await store.save_snapshot(ANN, "row", changed(**fields))
        assert (await require(store, "row")).session_id == before.session_id
        assert await store.get_session(ANN, "t") is None

    async def test_a_parent_of_another_session_is_refused(self, store: Store) -> None:
        await save(store, "row", session_id="s")
        with pytest.raises(SnapshotSettledError):
            await save(store, "child", session_id="t", parent_id="row")
        assert await store.get_snapshot(ANN, "child") is None
        assert await store.get_session(ANN, "t") is None

    async def test_another_users_row_is_refused_as_missing(self, store: Store) -> None:
        before = await save(store, "row", session_id="s")
        with pytest.raises(SnapshotNotFoundError):
            await save(store, "row", scope=BOB, session_id="t")
        assert await require(store, "row") == before

    async def test_a_computed_status_cannot_be_stored(self, store: Store) -> None:
        with pytest.raises(InvalidRequestError, match="expired"):
            await save(store, "row", status=EXPIRED)
        assert await store.get_snapshot(ANN, "row") is None

    @pytest.mark.parametrize(("before", "after"), [(PENDING, s) for s in (PENDING, ABORTING, *SETTLED)])
    async def test_a_pending_row_may_become_anything_else(
        self, store: Store, before: SnapshotStatus, after: SnapshotStatus
    ) -> None:
        await save(store, "row", status=before, state=None)
        saved = await store.save_snapshot(ANN, "row", changed(status=after, state=state_of("a")))
        assert saved == await require(store, "row")
        assert saved.status is after

    async def test_an_aborting_row_can_only_become_aborted(self, store: Store) -> None:
        await save(store, "row", status=ABORTING, state=None)
        for status in (PENDING, COMPLETED, FAILED):
            with pytest.raises(SnapshotSettledError):
                await store.save_snapshot(ANN, "row", changed(status=status))
        saved = await store.save_snapshot(ANN, "row", changed(status=ABORTED, state=state_of("a")))
        assert saved == await require(store, "row")

    async def test_a_running_rows_state_may_be_rewritten_and_dropped(self, stores: Stores, store: Store) -> None:
        await save(store, "row", status=PENDING, state=state_of("a"))
        for state in (state_of("a", n=1), state_of("b" * 3000), State.of({}), None, state_of("c"), None):
            await store.save_snapshot(ANN, "row", changed(state=state))
            assert (await require(stores.open(), "row")).state == state
        saved = await store.save_snapshot(ANN, "row", changed(status=FAILED))
        assert saved == await require(store, "row")
        assert saved.state is None
        assert saved.last_message_id is None

    async def test_the_state_of_a_settled_save_is_the_one_that_was_rewritten_last(
        self, stores: Stores, store: Store
    ) -> None:
        await save(store, "row", status=PENDING, state=state_of("a"))
        assert (await require(store, "row")).state == state_of("a")  # now this instance has it in its cache
        await store.save_snapshot(ANN, "row", changed(state=state_of("b"), status=COMPLETED))
        for instance in (store, stores.open()):
            transcript = await instance.get_transcript(ANN, "s")
            assert transcript is not None
            assert transcript.state == state_of("b")

    async def test_a_row_on_a_running_parent_does_not_depend_on_the_parents_state(
        self, stores: Stores, store: Store
    ) -> None:
        first = await save(store, "first", state=state_of("a"))
        assert first.created_at is not None
        await save(store, "running", status=PENDING, state=state_of("b", filler="x" * 500))
        earlier = first.created_at - timedelta(hours=1)
        await save(store, "child", parent_id="running", created_at=earlier, state=state_of("b", filler="x" * 500, n=1))
        await store.save_snapshot(ANN, "running", changed(state=state_of("c")))
        assert (await require(stores.open(), "child")).state == state_of("b", filler="x" * 500, n=1)

    async def test_a_beat_moves_nothing_but_the_heartbeat(self, store: Store) -> None:
        older = await save(store, "row", status=PENDING, state=None)
        session = await store.get_session(ANN, "s")
        assert older.created_at is not None
        beat = older.created_at + timedelta(seconds=5)
        saved = await store.save_snapshot(ANN, "row", changed(heartbeat_at=beat))
        assert saved == replace(older, heartbeat_at=beat) == await require(store, "row")
        assert await store.get_session(ANN, "s") == session

    async def test_a_beat_does_not_reorder_rows(self, store: Store) -> None:
        await save(store, "running", status=PENDING, state=None)
        running = await require(store, "running")
        assert running.created_at is not None
        await store.save_snapshot(ANN, "running", changed(status=COMPLETED, state=state_of("a")))
        newer = await save(store, "newer")
        assert newer.created_at is not None
        await store.save_snapshot(ANN, "running", changed(heartbeat_at=newer.created_at + timedelta(days=1)))
        assert await store.get_latest_snapshot(ANN, "s") == newer

    @pytest.mark.parametrize("status", SETTLED)
    async def test_a_beat_of_a_settled_row_changes_nothing(self, store: Store, status: SnapshotStatus) -> None:
        before = await save(store, "row", status=status)
        assert before.created_at is not None
        beat = before.created_at + timedelta(seconds=5)
        assert await store.save_snapshot(ANN, "row", changed(heartbeat_at=beat)) == before
        assert await require(store, "row") == before
        assert await store.get_latest_snapshot(ANN, "s") == before

    async def test_a_save_that_needs_the_lease_is_refused_while_a_turn_lives(self, store: Store) -> None:
        lease = await claimed(store, claim("q"))
        session = await store.get_session(ANN, lease.session_id)
        for status in (PENDING, COMPLETED):
            with pytest.raises(TurnBusyError) as caught:
                await save(store, "row", session_id=lease.session_id, status=status)
            assert caught.value.snapshot_id == lease.snapshot_id
        assert await store.get_snapshot(ANN, "row") is None
        assert await store.get_session(ANN, lease.session_id) == session
        settled = await store.settle_turn(lease, completed(lease))
        assert settled.status is COMPLETED

    async def test_a_failed_or_back_dated_row_may_be_saved_beside_a_turn(self, store: Store) -> None:
        first = await save(store, "first")
        assert first.created_at is not None
        lease = await claimed(store, claim("q", "s", last_message_id="m"))
        await save(store, "failure", status=FAILED, state=None)
        await save(store, "earlier", created_at=first.created_at - timedelta(days=1), state=state_of("x"))
        settled = await store.settle_turn(lease, completed(lease))
        session = await store.get_session(ANN, "s")
        assert session is not None
        assert session.head_snapshot_id == settled.snapshot_id

    async def test_saving_the_active_row_as_completed_ends_its_turn(self, store: Store) -> None:
        await save(store, "row", status=PENDING, state=None, message_id="q")
        session = await store.get_session(ANN, "s")
        assert session is not None
        assert session.active_snapshot_id == "row"
        await store.save_snapshot(ANN, "row", changed(status=COMPLETED, state=state_of("q", "a")))
        session = await store.get_session(ANN, "s")
        assert session is not None
        assert (session.active_snapshot_id, session.head_snapshot_id, session.last_message_id) == (None, "row", "a")

    async def test_a_second_pending_row_is_refused_while_the_first_lives(self, store: Store) -> None:
        await save(store, "row", status=PENDING, state=None)
        with pytest.raises(TurnBusyError):
            await store.save_snapshot(ANN, "second", always(snapshot(status=PENDING, state=None)))
        assert await store.get_snapshot(ANN, "second") is None

    async def test_a_save_that_takes_a_stale_lease_settles_its_row(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("q"))
        await stores.wait(stores.moment)
        late = stores.open(lease_staleness=stores.moment)
        await save(late, "row", session_id=lease.session_id)
        stale = await require(store, lease.snapshot_id)
        assert stale.status is FAILED
        assert stale.error is not None
        assert stale.error["details"] == {"code": "lease_lost"}
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert (session.active_snapshot_id, session.head_snapshot_id) == (None, "row")
