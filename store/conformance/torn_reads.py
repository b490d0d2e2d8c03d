"""Reads of a session whose documents change in between: what they tell is of one moment, never half of one and half of
another."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.interposed import store_on
from store.conformance.turns import ANN, claim, claimed, completed, converse, failed
from store.database import Database, Path, Read
from store.models import Lease

Change = Callable[[Store, Lease], Awaitable[object]]


class BetweenReads:
    """Passes everything on; `act` is called once, after the first read that is answered once `is_armed`."""

    def __init__(self, database: Database, act: Callable[[], Awaitable[object]]) -> None:
        self._database = database
        self._waiting = [act]
        self.is_armed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def get(self, paths: Sequence[Path], **how: Any) -> Read:
        """As the database's, before somebody else acts."""
        read = await self._database.get(paths, **how)
        while self.is_armed and self._waiting:
            await self._waiting.pop()()
        return read


async def settle(store: Store, lease: Lease) -> None:
    """The turn ends."""
    await store.settle_turn(lease, completed(lease))


async def settle_and_claim(store: Store, lease: Lease) -> None:
    """Two commits: the turn ends, and the next one begins."""
    await settle(store, lease)
    await claimed(store, claim("q3", lease.session_id, last_message_id="q2-answer"))


async def fail_and_go_on(store: Store, lease: Lease) -> None:
    """Three commits, after which the head is another one."""
    await store.settle_turn(lease, failed())
    await converse(store, "q3", lease.session_id)


async def end_and_delete(store: Store, lease: Lease) -> None:
    """The whole session goes."""
    await settle(store, lease)
    await store.delete_session(ANN, lease.session_id)


CHANGES: list[Change] = [settle, settle_and_claim, fail_and_go_on, end_and_delete]
READS: dict[str, Callable[[Store, Lease], Awaitable[object]]] = {
    "the latest row": lambda store, lease: store.get_latest_snapshot(ANN, lease.session_id),
    "the latest row's metadata": lambda store, lease: store.get_latest_snapshot_metadata(ANN, lease.session_id),
    "the session": lambda store, lease: store.get_session(ANN, lease.session_id),
    "the transcript": lambda store, lease: store.get_transcript(ANN, lease.session_id),
    "the row": lambda store, lease: store.get_snapshot(ANN, lease.snapshot_id),
    "the row before": lambda store, lease: store.get_snapshot(ANN, str(lease.parent_id)),
}


class TornReadCases:
    """Commits between the reads of one load."""

    @pytest.mark.parametrize("base_size", [131_072, 0], ids=["with a copy", "without a copy"])
    @pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
    @pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
    async def test_what_is_read_is_of_before_or_after(
        self, stores: Stores, change: Change, is_warm: bool, base_size: int
    ) -> None:
        """Of the running turn's session, by an instance that knows nothing yet, and by one that has read it before."""
        told_half = []
        for number, (name, read) in enumerate(READS.items()):
            store = stores.open(base_size=base_size)
            first = await converse(store, f"q1-{number}")
            lease = await claimed(store, claim("q2", first.session_id, last_message_id=f"q1-{number}-answer"))
            before = await read(stores.open(), lease)
            between = BetweenReads(stores.database, lambda: change(store, lease))  # noqa: B023  # runs in this round
            reader = store_on(between, base_size=base_size)
            if is_warm:
                assert await read(reader, lease) == before
            between.is_armed = True
            told = await read(reader, lease)
            if told not in (before, await read(stores.open(), lease)):
                told_half.append(name)
        assert told_half == []
