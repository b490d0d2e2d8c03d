"""Following a row's status: the present one first, then each other one once, from whichever instance."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.soundness import documents_of
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
    aborted,
    changed,
    claim,
    claimed,
    completed,
    failed,
    save,
)
from store.database import Delete, Kind
from store.errors import StoreError
from store.models import SnapshotStatus

PATIENCE = 12.0  # seconds; less than the slow poll of a reader whose listener has died


async def rest(statuses: AsyncIterator[SnapshotStatus]) -> list[SnapshotStatus]:
    """Everything up to the end."""
    return [status async for status in statuses]


async def is_silent(statuses: AsyncIterator[SnapshotStatus]) -> bool:
    """Whether nothing arrives while the loop is busy with everything that there is to do, and a while longer."""
    waiting = asyncio.ensure_future(anext(statuses))
    done, _ = await asyncio.wait([waiting], timeout=0.15)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return not done


class SubscriptionCases:
    """Following a status."""

    @pytest.fixture(autouse=True)
    async def in_time(self, request: pytest.FixtureRequest) -> AsyncIterator[None]:
        """Changes are delivered: a store that only looks now and then is too late. Asked of these cases alone."""
        clock = asyncio.get_running_loop().time
        started = clock()
        yield
        is_one_of_these = request.function.__qualname__.startswith(SubscriptionCases.__name__)
        assert not is_one_of_these or clock() - started < PATIENCE

    async def test_the_present_status_comes_first_then_the_changes_until_the_turn_is_settled(
        self,
        store: Store,
    ) -> None:
        lease = await claimed(store, claim("a"))
        async with store.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
            assert await anext(statuses) is PENDING
            await store.abort_turn(ANN, lease.snapshot_id)
            assert await anext(statuses) is ABORTING
            await store.settle_turn(lease, aborted(lease))
            assert await rest(statuses) == [ABORTED]

    @pytest.mark.parametrize("kind", ["completed", "failed", "aborted"])
    async def test_another_instances_settle_is_seen(self, stores: Stores, store: Store, kind: str) -> None:
        lease = await claimed(store, claim("a"))
        async with stores.open().on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
            assert await anext(statuses) is PENDING
            outcome = {"completed": completed(lease), "failed": failed(), "aborted": aborted(lease)}[kind]
            settled = await store.settle_turn(lease, outcome)
            assert await rest(statuses) == [settled.status]

    async def test_another_instances_abort_is_seen(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        async with store.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
            assert await anext(statuses) is PENDING
            await stores.open().abort_turn(ANN, lease.snapshot_id)
            assert await anext(statuses) is ABORTING
        await store.settle_turn(lease, aborted(lease))

    @pytest.mark.parametrize("status", [COMPLETED, FAILED, ABORTED])
    async def test_a_settled_row_gives_one_status_and_the_end(self, store: Store, status: SnapshotStatus) -> None:
        await save(store, "row", status=status)
        async with store.on_snapshot_status_change(ANN, "row") as statuses:
            assert await rest(statuses) == [status]

    async def test_a_missing_row_is_waited_for(self, stores: Stores, store: Store) -> None:
        given = claim("a")
        async with store.on_snapshot_status_change(ANN, given.snapshot_id) as statuses:
            first = asyncio.ensure_future(anext(statuses))
            await asyncio.sleep(0)
            lease = await claimed(stores.open(), given)
            assert await first is PENDING
            await store.settle_turn(lease, completed(lease))
            assert await rest(statuses) == [COMPLETED]

    async def test_what_does_not_change_the_status_is_not_told(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        async with store.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
            assert await anext(statuses) is PENDING
            await store.heartbeat([lease])
            await stores.open().save_snapshot(ANN, lease.snapshot_id, changed(error={"note": 1}))
            assert await is_silent(statuses)
        await store.settle_turn(lease, failed())

    async def test_a_change_that_a_save_makes_is_told(self, store: Store) -> None:
        await save(store, "row", status=PENDING, state=None)
        async with store.on_snapshot_status_change(ANN, "row") as statuses:
            assert await anext(statuses) is PENDING
            await store.save_snapshot(ANN, "row", changed(status=FAILED))
            assert await rest(statuses) == [FAILED]

    async def test_expiry_comes_by_the_clock(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        late = stores.open(lease_staleness=stores.moment)
        await stores.wait(stores.moment)
        async with late.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
            assert await rest(statuses) == [EXPIRED]

    async def test_a_reader_that_waits_learns_of_the_expiry(self, stores: Stores, store: Store) -> None:
        """Nothing is written when a lease expires, so its reader has a timer; real time, a short staleness."""
        watching = stores.open(lease_staleness=0.2)
        lease = await claimed(store, claim("a"))
        async with watching.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
            assert await anext(statuses) in (PENDING, EXPIRED)
            await stores.wait(0.2)
            assert await rest(statuses) in ([EXPIRED], [])

    async def test_every_reader_gets_every_status(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        instances = [store, store, stores.open()]

        async def read(instance: Store) -> list[SnapshotStatus]:
            async with instance.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
                started.release()
                return await rest(statuses)

        started = asyncio.Semaphore(0)
        readers = [asyncio.create_task(read(instance)) for instance in instances]
        for _ in readers:
            await started.acquire()
        await store.settle_turn(lease, completed(lease))
        for statuses in await asyncio.gather(*readers):
            assert statuses[-1] is COMPLETED
            assert len(statuses) == len(set(statuses))

    async def test_a_reader_that_leaves_does_not_starve_the_others(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        async with store.on_snapshot_status_change(ANN, lease.snapshot_id) as staying:
            assert await anext(staying) is PENDING
            async with store.on_snapshot_status_change(ANN, lease.snapshot_id) as leaving:
                assert await anext(leaving) is PENDING
            await store.settle_turn(lease, completed(lease))
            assert await rest(staying) == [COMPLETED]

    async def test_a_reader_that_is_cancelled_ends(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        started = asyncio.Event()

        async def read() -> None:
            async with store.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
                async for _ in statuses:
                    started.set()

        reader = asyncio.create_task(read())
        await started.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await store.settle_turn(lease, completed(lease))

    @pytest.mark.parametrize("scope", [BOB, ELSEWHERE], ids=["another user", "another tenant"])
    async def test_others_see_nothing_of_it(self, store: Store, scope: Any) -> None:
        lease = await claimed(store, claim("a"))
        async with store.on_snapshot_status_change(scope, lease.snapshot_id) as statuses:
            assert await is_silent(statuses)
        async with store.on_snapshot_status_change(scope, lease.snapshot_id) as statuses:
            await store.settle_turn(lease, completed(lease))
            assert await is_silent(statuses)

    async def test_the_same_id_in_two_tenants_has_two_readers(self, store: Store) -> None:
        for scope in (ANN, ELSEWHERE):
            await save(store, "row", scope=scope, status=PENDING, state=None)
        async with (
            store.on_snapshot_status_change(ANN, "row") as here,
            store.on_snapshot_status_change(ELSEWHERE, "row") as there,
        ):
            assert [await anext(here), await anext(there)] == [PENDING, PENDING]
            await store.save_snapshot(ELSEWHERE, "row", changed(status=FAILED))
            assert await rest(there) == [FAILED]
            await store.save_snapshot(ANN, "row", changed(status=ABORTED))
            assert await rest(here) == [ABORTED]

    async def test_closing_the_store_ends_its_readers(self, stores: Stores, store: Store) -> None:
        other = stores.open()
        lease = await claimed(store, claim("a"))
        async with other.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
            assert await anext(statuses) is PENDING
            waiting = asyncio.ensure_future(rest(statuses))
            await asyncio.sleep(0)
            await other.close()
            assert await waiting == []

    async def test_a_row_is_followed_where_its_state_cannot_be_read(self, stores: Stores, store: Store) -> None:
        """Following costs the row alone."""
        stores.is_damaged = True
        await save(store, "row", status=PENDING)
        shards = await documents_of(stores.database, Kind.SHARDS)
        assert shards
        await stores.database.commit([Delete(shard.path) for shard in shards])
        async with stores.open().on_snapshot_status_change(ANN, "row") as statuses:
            assert await anext(statuses) is PENDING
            await stores.open().abort_turn(ANN, "row")
            assert await rest(statuses) == [ABORTED]

    async def test_a_wrong_id_is_refused_when_the_reader_starts(self, store: Store) -> None:
        with pytest.raises(StoreError, match="snapshotId"):
            async with store.on_snapshot_status_change(ANN, "a/b"):
                pass
