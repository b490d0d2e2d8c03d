"""Watching in numbers: what many followers cost, and what they leave behind."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from store.documents import watching
from store.firestore.database import FirestoreDatabase
from store.firestore.store import FirestoreStore
from store.models import SnapshotStatus
from tests.contract.turns import ABORTED, ABORTING, ANN, COMPLETED, PENDING, claim, claimed, completed


@pytest.fixture
async def store(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreStore]:
    opened = FirestoreStore(project_id, emulator_host=emulator_host)
    yield opened
    await opened.close()


@pytest.fixture
async def other(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreStore]:
    opened = FirestoreStore(project_id, emulator_host=emulator_host)
    yield opened
    await opened.close()


def listener_of(store: FirestoreStore) -> Any:
    database = store._shelf.database
    assert isinstance(database, FirestoreDatabase)
    return database._listener


async def quiet_tasks() -> set["asyncio.Task[Any]"]:
    """The tasks that are left once those that were cancelled have had their turn."""
    for _ in range(5):
        await asyncio.sleep(0)
    return asyncio.all_tasks()


async def test_a_thousand_watches_opened_and_closed_leave_nothing(store: FirestoreStore) -> None:
    """No task, no thread, no target: the one stream stays for a while, and is the same one."""
    lease = await claimed(store, claim("m"))

    async def watch_once() -> None:
        async with store.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
            assert await anext(statuses) is PENDING

    async with store.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
        assert await anext(statuses) is PENDING
        await watch_once()
        tasks, threads = await quiet_tasks(), set(threading.enumerate())
        stream = listener_of(store)._following
        for _ in range(20):
            await asyncio.gather(*(watch_once() for _ in range(50)))
        assert len(await quiet_tasks()) <= len(tasks)
        assert set(threading.enumerate()) <= threads
        assert len(listener_of(store)._watches) == 1
        assert listener_of(store)._following is stream
        await store.settle_turn(lease, completed(lease))
        assert [status async for status in statuses] == [COMPLETED]
    assert listener_of(store)._watches == {}


async def test_two_hundred_followers_share_a_stream_and_see_every_end(
    store: FirestoreStore, other: FirestoreStore
) -> None:
    """Of a turn each, on another instance, on few threads."""
    leases = [await claimed(store, claim(f"m{number}")) for number in range(200)]
    waits = asyncio.Semaphore(0)

    async def follow(snapshot_id: str) -> list[SnapshotStatus]:
        seen = []
        async with other.on_snapshot_status_change(ANN, snapshot_id) as statuses:
            async for status in statuses:
                seen.append(status)
                waits.release()
        return seen

    followers = [asyncio.create_task(follow(lease.snapshot_id)) for lease in leases]
    for _ in leases:
        await waits.acquire()
    assert len([thread for thread in threading.enumerate() if thread.is_alive()]) <= 8
    for lease in leases:
        await store.settle_turn(lease, completed(lease))
    async with asyncio.timeout(20):
        assert await asyncio.gather(*followers) == [[PENDING, COMPLETED]] * 200


async def test_a_stream_that_dies_in_silence_costs_no_end(
    store: FirestoreStore, other: FirestoreStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream says nothing any more, and does not break: the slow poll sees the end."""
    monkeypatch.setattr(watching, "SLOW_POLL", 0.5)
    lease = await claimed(store, claim("m"))
    listener = listener_of(other)
    async with asyncio.timeout(30), other.on_snapshot_status_change(ANN, lease.snapshot_id) as statuses:
        assert await anext(statuses) is PENDING
        listener._receive = lambda message: None
        await store.abort_turn(ANN, lease.snapshot_id)
        assert await anext(statuses) is ABORTING
        await store.settle_turn(lease, completed(lease))
        assert [status async for status in statuses] == [ABORTED]
