"""Which row is the latest, what the conversation continues from, and that metadata reads say the same."""

from dataclasses import replace
from datetime import timedelta

import pytest

from store.conformance.harness import START, Store, Stores
from store.conformance.turns import (
    ABORTED,
    ABORTING,
    ANN,
    COMPLETED,
    FAILED,
    PENDING,
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
from store.models import SnapshotStatus

HOUR = timedelta(hours=1)
LONG_AGO = START - timedelta(days=100)


async def latest_id(store: Store, session_id: str = "s") -> str | None:
    latest = await store.get_latest_snapshot(ANN, session_id)
    return latest.snapshot_id if latest else None


async def head_id(store: Store, session_id: str = "s") -> str | None:
    session = await store.get_session(ANN, session_id)
    return session.head_snapshot_id if session else None


class LatestCases:
    """Recency, heads and metadata reads."""

    async def test_the_latest_row_is_the_one_created_last_whatever_its_id(self, store: Store) -> None:
        for row_id in ("c", "b", "a"):
            await save(store, row_id)
            assert await latest_id(store) == row_id

    async def test_rows_created_at_the_same_moment_are_ordered_by_id(self, store: Store) -> None:
        for row_id in ("b", "c", "a"):
            await save(store, row_id, created_at=LONG_AGO, state=state_of(row_id))
        assert (await latest_id(store), await head_id(store)) == ("c", "c")

    async def test_rewriting_an_older_row_does_not_make_it_the_latest(self, store: Store) -> None:
        await save(store, "older")
        await save(store, "newer")
        await store.save_snapshot(ANN, "older", changed(error={"noted": 1}))
        assert (await latest_id(store), await head_id(store)) == ("newer", "newer")

    async def test_a_back_dated_row_is_neither_the_latest_nor_the_head(self, store: Store) -> None:
        await save(store, "row", created_at=LONG_AGO)
        await save(store, "earlier", created_at=LONG_AGO - HOUR, state=state_of("x"))
        assert (await latest_id(store), await head_id(store)) == ("row", "row")
        assert (await require(store, "earlier")).state == state_of("x")
        await save(store, "later", created_at=LONG_AGO + HOUR)
        assert (await latest_id(store), await head_id(store)) == ("later", "later")

    @pytest.mark.parametrize("status", [PENDING, ABORTING, FAILED, ABORTED, COMPLETED])
    async def test_the_latest_row_is_given_whatever_its_status(self, store: Store, status: SnapshotStatus) -> None:
        await save(store, "first")
        await save(store, "second", status=status, state=None)
        latest = await store.get_latest_snapshot(ANN, "s")
        assert latest == await require(store, "second")
        assert latest.status is status

    async def test_the_latest_row_comes_with_its_whole_state(self, stores: Stores, store: Store) -> None:
        state = state_of("a", "b", custom={"deep": [1, {"x": None}]})
        await save(store, "first", state=state_of("a"))
        await save(store, "second", parent_id="first", state=state)
        for instance in (store, stores.open()):
            latest = await instance.get_latest_snapshot(ANN, "s")
            assert latest is not None
            assert latest.state == state

    async def test_a_failed_row_does_not_become_the_head(self, store: Store) -> None:
        await save(store, "good", state=state_of("a"))
        await save(store, "bad", status=FAILED, state=None)
        assert (await latest_id(store), await head_id(store)) == ("bad", "good")
        transcript = await store.get_transcript(ANN, "s")
        assert transcript is not None
        assert transcript.state == state_of("a")

    async def test_an_aborted_row_with_a_state_becomes_the_head_and_one_without_does_not(self, store: Store) -> None:
        await save(store, "kept", status=ABORTED, state=state_of("a"))
        assert await head_id(store) == "kept"
        await save(store, "empty", status=ABORTED, state=None)
        assert (await latest_id(store), await head_id(store)) == ("empty", "kept")

    async def test_of_two_branches_the_newer_leaf_is_latest_and_both_are_readable(self, store: Store) -> None:
        await save(store, "root", state=state_of("a"))
        await save(store, "left", parent_id="root", state=state_of("a", "b"))
        await save(store, "right", parent_id="root", state=state_of("a", "c"))
        assert await latest_id(store) == "right"
        assert (await require(store, "left")).state == state_of("a", "b")
        assert (await require(store, "right")).state == state_of("a", "c")

    async def test_aborting_the_latest_row_keeps_it_the_latest(self, store: Store) -> None:
        await save(store, "first")
        await save(store, "second", status=PENDING, state=None)
        await store.abort_turn(ANN, "second")
        assert await latest_id(store) == "second"

    async def test_a_turn_is_the_latest_row_from_its_first_moment(self, store: Store) -> None:
        first = await converse(store, "a")
        lease = await claimed(store, claim("b", first.session_id, last_message_id=first.last_message_id))
        assert await latest_id(store, first.session_id) == lease.snapshot_id
        assert await head_id(store, first.session_id) == first.snapshot_id
        failure = await store.settle_turn(lease, failed())
        assert await store.get_latest_snapshot(ANN, first.session_id) == failure
        assert await head_id(store, first.session_id) == first.snapshot_id

    async def test_a_turn_is_newer_than_every_row_whatever_their_times_say(self, store: Store) -> None:
        future = START + timedelta(days=40_000)
        await save(store, "row", created_at=future)
        lease = await claimed(store, claim("q", "s", last_message_id="m"))
        assert lease.created_at == future + timedelta(microseconds=1)
        await store.settle_turn(lease, completed(lease))
        assert await latest_id(store) == lease.snapshot_id

    async def test_rows_without_times_are_created_one_after_another_at_a_standing_clock(self, store: Store) -> None:
        rows = [await save(store, f"row-{n}") for n in (3, 1, 2)]
        times = [row.created_at for row in rows]
        assert times == sorted(set(times), key=lambda time: (time is None, time))
        assert await latest_id(store) == "row-2"

    async def test_metadata_reads_are_full_reads_without_the_state(self, stores: Stores, store: Store) -> None:
        await save(store, "checkpoint", state=state_of("a"), usage={"totalTokens": 1}, error={"n": 1})
        await save(store, "diff", parent_id="checkpoint", state=state_of("a", "b"), finish_reason="length")
        await save(store, "failure", status=FAILED, state=None, error={"status": "INTERNAL"})
        lease = await claimed(store, claim("q", "s", last_message_id="b"))
        cold = stores.open()
        for row_id in ("checkpoint", "diff", "failure", lease.snapshot_id):
            full = await require(cold, row_id)
            assert await cold.get_snapshot_metadata(ANN, row_id) == replace(full, state=None)

    @pytest.mark.parametrize("newest", ["checkpoint", "diff", "failure", "running"])
    async def test_the_latest_metadata_is_of_the_latest_row(self, stores: Stores, store: Store, newest: str) -> None:
        await save(store, "checkpoint", state=state_of("a"))
        if newest != "checkpoint":
            await save(store, "diff", parent_id="checkpoint", state=state_of("a", "b"))
        if newest in ("failure", "running"):
            running = newest == "running"
            await save(store, newest, status=PENDING if running else FAILED, state=None)
        cold = stores.open()
        full = await cold.get_latest_snapshot(ANN, "s")
        assert full == await require(cold, newest)
        assert await cold.get_latest_snapshot_metadata(ANN, "s") == replace(full, state=None)

    async def test_a_session_without_rows_has_no_latest_row(self, store: Store) -> None:
        lease = await claimed(store, claim("q"))
        await store.settle_turn(lease, failed())
        assert await latest_id(store, lease.session_id) == lease.snapshot_id
        assert await head_id(store, lease.session_id) is None
        transcript = await store.get_transcript(ANN, lease.session_id)
        assert transcript is not None
        assert transcript.state is None
