"""Asking the runner of a turn for its event log: heard by that runner alone, and gone with the turn."""

import asyncio
from collections.abc import Sequence

import pytest

from store.conformance.conversations import documents
from store.conformance.harness import START, Store, Stores
from store.conformance.interposed import interposed_store
from store.conformance.leases import stale
from store.conformance.queues import adopted, queued
from store.conformance.turns import ANN, BOB, COMPLETED, RUNNER, answered, claim, claimed, completed, failed
from store.database import Kind, Write
from store.errors import SnapshotNotFoundError
from store.models import Beat, Lease, Outcome


async def logs_of(stores: Stores) -> list[str]:
    """The names of all documents of event logs."""
    return [path.id for path in await documents(stores) if path.kind is Kind.STREAMS]


def followed(lease: Lease) -> Outcome:
    """How a turn ends whose runner has heard of a request."""
    return Outcome(COMPLETED, "stop", answered(lease), segments_expire_at=START, segments_were_requested=True)


class LogRequestCases:
    """Who asks, who hears, and what is left."""

    async def test_a_runner_hears_which_of_its_turns_are_followed(self, stores: Stores, store: Store) -> None:
        """Those of before it listens first, then each as it comes; never another runner's."""
        early, later = await claimed(store, claim("a")), await claimed(store, claim("b"), BOB)
        foreign = await claimed(store, claim("f", runner="instance-2"))
        other = stores.open()
        assert await other.request_segments(ANN, early.snapshot_id)
        assert await other.request_segments(ANN, foreign.snapshot_id)
        async with asyncio.timeout(10), store.watch_segment_requests(RUNNER) as deliveries:
            assert await anext(deliveries) == [early.snapshot_id]
            assert await other.request_segments(BOB, later.snapshot_id)
            heard: set[str] = set()
            while later.snapshot_id not in heard:
                heard |= set(await anext(deliveries))
        assert heard <= {early.snapshot_id, later.snapshot_id}

    async def test_a_request_is_no_segment(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        await stores.open().request_segments(ANN, lease.snapshot_id)
        assert await store.read_segments(ANN, lease.snapshot_id) == []
        async with asyncio.timeout(10), store.watch_segments(ANN, lease.snapshot_id) as deliveries:
            assert await anext(deliveries) == []

    async def test_a_second_request_changes_nothing(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        assert await store.request_segments(ANN, lease.snapshot_id)
        before = await documents(stores)
        assert await stores.open().request_segments(ANN, lease.snapshot_id)
        assert await documents(stores) == before

    async def test_many_ask_at_once(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        asked = (stores.open().request_segments(ANN, lease.snapshot_id) for _ in range(8))
        assert await asyncio.gather(*asked) == [True] * 8
        assert len(await logs_of(stores)) <= 1

    async def test_a_request_leaves_the_turn_its_lease(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        await stores.open().request_segments(ANN, lease.snapshot_id)
        assert (await store.settle_turn(lease, completed(lease))).status is COMPLETED

    async def test_a_turn_that_waits_in_a_queue_has_nobody_to_ask_until_it_is_taken(
        self, stores: Stores, store: Store
    ) -> None:
        snapshot_id = await queued(store)
        assert not await store.request_segments(ANN, snapshot_id)
        assert await logs_of(stores) == []
        await adopted(store, snapshot_id)
        assert await store.request_segments(ANN, snapshot_id)
        async with asyncio.timeout(10), stores.open().watch_segment_requests("adopter") as deliveries:
            assert await anext(deliveries) == [snapshot_id]

    async def test_an_owner_that_was_late_is_asked_once_it_beats_again(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        late = await stale(stores, lease)
        assert not await late.request_segments(ANN, lease.snapshot_id)
        assert await logs_of(stores) == []
        assert await store.heartbeat([lease]) == [Beat.ALIVE]
        assert await store.request_segments(ANN, lease.snapshot_id)
        async with asyncio.timeout(10), store.watch_segment_requests(RUNNER) as deliveries:
            assert await anext(deliveries) == [lease.snapshot_id]

    async def test_a_turn_that_is_over_is_not_asked_for(self, stores: Stores, store: Store) -> None:
        settled = await claimed(store, claim("m"))
        await store.settle_turn(settled, completed(settled))
        before = await documents(stores)
        assert await store.request_segments(ANN, settled.snapshot_id)
        assert await documents(stores) == before

    async def test_what_is_missing_and_what_is_somebody_elses_is_not_found(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"), BOB)
        for snapshot_id in ("missing", lease.snapshot_id):
            with pytest.raises(SnapshotNotFoundError):
                await store.request_segments(ANN, snapshot_id)
        assert await logs_of(stores) == []

    async def test_the_request_goes_with_the_turn_that_has_heard_it(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        await stores.open().request_segments(ANN, lease.snapshot_id)
        await store.settle_turn(lease, followed(lease))
        assert await logs_of(stores) == []

    async def test_a_request_that_was_not_heard_goes_with_the_session(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        await stores.open().request_segments(ANN, lease.snapshot_id)
        await store.settle_turn(lease, failed())
        await store.delete_session(ANN, lease.session_id)
        assert await logs_of(stores) == []

    async def test_a_request_that_a_delete_comes_before_leaves_nothing(self, stores: Stores, store: Store) -> None:
        """The row was read while it ran; then it was settled, and its session deleted."""
        lease = await claimed(store, claim("m"))
        is_first = True

        async def delete(_: Sequence[Write]) -> None:
            nonlocal is_first
            if is_first:
                is_first = False
                await store.settle_turn(lease, failed())
                await store.delete_session(ANN, lease.session_id)

        with pytest.raises(SnapshotNotFoundError):
            await interposed_store(stores.database, delete).request_segments(ANN, lease.snapshot_id)
        assert await documents(stores) == {}
