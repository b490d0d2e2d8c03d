"""An emulator that freezes for a minute: connections stay open, nothing is answered, and no end is missed later."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from functions.cli.emulator import Emulator, find_jar
from store.firestore.store import FirestoreStore
from store.models import SnapshotStatus
from tests.contract.turns import ANN, COMPLETED, PENDING, claim, claimed, completed
from tests.warm_emulator import warm_up

FREEZE = 60.0  # seconds
AFTERWARDS = 20.0  # seconds within which every follower knows

pytestmark = pytest.mark.slow


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with Emulator(find_jar(os.environ)) as emulator:
        warm_up(emulator.host)
        yield emulator


@pytest.fixture
async def stores(emulator: Emulator, project_id: str) -> AsyncIterator[list[FirestoreStore]]:
    """Two instances whose leases outlive the freeze."""
    opened = [FirestoreStore(project_id, emulator_host=emulator.host, lease_staleness=300) for _ in range(2)]
    yield opened
    for store in opened:
        await store.close()


async def test_no_end_is_missed_whenever_it_came(emulator: Emulator, stores: list[FirestoreStore]) -> None:
    """Turns that end just before the freeze, during it, and after it."""
    here, there = stores
    leases = [await claimed(here, claim(f"m{number}")) for number in range(3)]
    started = asyncio.Semaphore(0)

    async def follow(snapshot_id: str) -> list[SnapshotStatus]:
        seen = []
        async with there.on_snapshot_status_change(ANN, snapshot_id) as statuses:
            async for status in statuses:
                seen.append(status)
                started.release()
        return seen

    followers = [asyncio.create_task(follow(lease.snapshot_id)) for lease in leases]
    for _ in leases:
        await started.acquire()
    before, during, after = leases
    await here.settle_turn(before, completed(before))
    emulator.pause()
    settling = asyncio.create_task(here.settle_turn(during, completed(during)))
    await asyncio.sleep(FREEZE)
    emulator.resume()
    async with asyncio.timeout(AFTERWARDS):
        assert (await settling).status is COMPLETED
        await here.settle_turn(after, completed(after))
        assert await asyncio.gather(*followers) == [[PENDING, COMPLETED]] * 3
