"""How long an operation waits for a database that does not answer: a settle for as long as its lease can live, since an
agent has worked for it; whatever a caller waits for, no longer than that caller."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from store.documents.store import DocumentStore
from store.errors import UnavailableError
from store.memory.database import MemoryDatabase
from store.models import SnapshotStatus
from tests.properties.faulty_database import Fault
from tests.properties.plain_turns import ADA, claim, claimed, completed
from tests.properties.scripted import Script
from tests.properties.virtual_loop import run_virtually

STALENESS = 60.0  # seconds, as by default


class Outage(Script):
    """No commit arrives for so many seconds from `begin` on."""

    until = 0.0

    def begin(self, seconds: float) -> None:
        self.until = asyncio.get_running_loop().time() + seconds

    async def before(self, call: str, faults: tuple[Fault, ...]) -> Fault:
        is_out = call.startswith("commit") and asyncio.get_running_loop().time() < self.until
        return Fault.DROPPED if is_out else Fault.NONE


def test_a_settle_outlasts_an_outage_far_longer_than_a_caller_waits() -> None:
    async def work() -> None:
        outage = Outage()
        store = outage.store(MemoryDatabase())
        lease = await claimed(store, claim("m"))
        outage.begin(STALENESS / 2)
        settled = await store.settle_turn(lease, completed(lease))
        assert settled.status is SnapshotStatus.COMPLETED
        assert asyncio.get_running_loop().time() >= outage.until

    run_virtually(work())


CALLS: dict[str, Callable[[DocumentStore, str], Awaitable[object]]] = {
    "claim": lambda store, _: claimed(store, claim("other")),
    "abort": lambda store, row_id: store.abort_turn(ADA, row_id),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_caller_waits_for_gives_up_within_five_seconds(name: str) -> None:
    async def work() -> None:
        outage = Outage()
        store = outage.store(MemoryDatabase())
        lease = await claimed(store, claim("m"))
        outage.begin(STALENESS)
        now = asyncio.get_running_loop().time
        started = now()
        with pytest.raises(UnavailableError):
            await CALLS[name](store, lease.snapshot_id)
        assert now() - started < 5

    run_virtually(work())
