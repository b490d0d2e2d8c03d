"""The event logs of running turns: written by whoever runs the turn, read and followed by any instance."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from store.canonical import Json
from store.conformance.harness import START, Store, Stores
from store.conformance.interposed import Interposed, interposed_store, store_on
from store.conformance.turns import ANN, COMPLETED, ELSEWHERE, answered, claim, claimed, completed, failed
from store.database import Committed, CommitUnansweredError, Create, Kind, Query, Write
from store.documents.shelf import Options
from store.errors import DataLossError
from store.layout.segments import EventLog, cut_segments, log_line
from store.models import Beat, Lease, Outcome, Segment

LATER = START + timedelta(days=3650)
Told = tuple[int, str, Json]


def told(first: int, last: int) -> list[Told]:
    return [(number, "text-delta", {"text": f"{number} é"}) for number in range(first, last + 1)]


def segment(index: int, first: int, last: int) -> Segment:
    """One segment with these events."""
    (made,) = cut_segments(index, [(number, log_line(number, name, data)) for number, name, data in told(first, last)])
    return made


async def write(store: Store, lease: Lease, *segments: Segment) -> bool:
    return await store.write_segments(lease, segments, LATER)


async def kept(store: Store, snapshot_id: str) -> list[Told]:
    return list(EventLog(snapshot_id).feed(await store.read_segments(ANN, snapshot_id)))


class LosesOneAnswer(Interposed):
    """The first commit lands, or with `drops` does not; its sender is not told which."""

    drops = False
    _is_done = False

    async def commit(self, writes: Sequence[Write]) -> Committed:
        if self._is_done:
            return await super().commit(writes)
        self._is_done = True
        if not self.drops:
            await super().commit(writes)
        raise CommitUnansweredError


async def nothing(writes: Sequence[Write]) -> None:
    pass


class EventLogCases:
    """Writing, reading and following."""

    async def test_what_was_written_is_read_by_every_instance(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        assert await store.read_segments(ANN, lease.snapshot_id) == []
        assert await write(store, lease, segment(0, 1, 4))
        assert await write(store, lease, segment(1, 5, 5), segment(2, 6, 9))
        assert await kept(stores.open(), lease.snapshot_id) == told(1, 9)
        assert await store.read_segments(ELSEWHERE, lease.snapshot_id) == []

    async def test_logs_with_ten_segments_and_more_are_in_order(self, stores: Stores, store: Store) -> None:
        """By number, not by the text of their names."""
        lease = await claimed(store, claim("m"))
        assert await write(store, lease, *(segment(index, index + 1, index + 1) for index in reversed(range(12))))
        assert [found.index for found in await store.read_segments(ANN, lease.snapshot_id)] == list(range(12))

    async def test_logs_of_turns_are_apart(self, stores: Stores, store: Store) -> None:
        first, second = await claimed(store, claim("m")), await claimed(store, claim("n"))
        await write(store, first, segment(0, 1, 2))
        await write(store, second, segment(0, 1, 5))
        assert await kept(store, first.snapshot_id) == told(1, 2)
        assert await kept(store, second.snapshot_id) == told(1, 5)

    async def test_a_follower_is_told_what_is_there_and_what_comes(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        await write(store, lease, segment(0, 1, 2))
        log = EventLog(lease.snapshot_id)
        seen: list[Told] = []
        async with asyncio.timeout(10), stores.open().watch_segments(ANN, lease.snapshot_id) as deliveries:
            seen += log.feed(await anext(deliveries))
            assert seen == told(1, 2)
            await write(store, lease, segment(1, 3, 4))
            await write(store, lease, segment(2, 5, 5))
            while len(seen) < 5:
                seen += log.feed(await anext(deliveries))
        assert seen == told(1, 5)

    async def test_a_follower_that_is_early_is_told_that_there_is_nothing_yet(
        self, stores: Stores, store: Store
    ) -> None:
        async with asyncio.timeout(10), stores.open().watch_segments(ANN, "to-come") as deliveries:
            assert await anext(deliveries) == []
            lease = await claimed(store, claim("m", snapshot_id="to-come"))
            await write(store, lease, segment(0, 1, 1))
            assert await anext(deliveries) == [segment(0, 1, 1)]

    @pytest.mark.parametrize("drops", [False, True])
    async def test_a_write_without_an_answer_is_known_to_have_landed_only_where_it_has(
        self, stores: Stores, store: Store, drops: bool
    ) -> None:
        lease = await claimed(store, claim("m"))
        database = LosesOneAnswer(stores.database, nothing)
        database.drops = drops
        doubtful = store_on(database)
        segments = [segment(0, 1, 3), segment(1, 4, 4)]
        assert await write(doubtful, lease, *segments) is not drops
        assert await write(doubtful, lease, *segments), "the echo of what has landed is no refusal"
        assert await store.read_segments(ANN, lease.snapshot_id) == segments

    async def test_more_than_one_commit_holds_is_written_in_several(self, stores: Stores, store: Store) -> None:
        """A turn that is followed late has its whole log to tell. Where answers are lost, what is stored is whole."""
        lease = await claimed(store, claim("m"))
        sizes: list[int] = []

        async def note(writes: Sequence[Write]) -> None:
            sizes.append(sum(len(write.fields["chunk"]) for write in writes if isinstance(write, Create)))
            if len(sizes) == 2:
                raise CommitUnansweredError

        event: Told = (1, "text-delta", {"text": random.Random(1).randbytes(5_000_000).hex()})
        segments = cut_segments(0, [(1, log_line(*event))])
        doubtful = interposed_store(stores.database, note)
        assert not await write(doubtful, lease, *segments)
        assert await write(doubtful, lease, *segments)
        assert await kept(stores.open(), lease.snapshot_id) == [event]
        assert max(sizes) <= Options().commit_size < sum(sizes[2:])

    @pytest.mark.parametrize("size", [1, 3_400_000])  # bytes, in one event
    async def test_the_settle_ends_the_log(self, stores: Stores, store: Store, size: int) -> None:
        """Also with more than one commit holds: then it is written ahead."""
        lease = await claimed(store, claim("m"))
        await write(store, lease, segment(0, 1, 2))
        end: Told = (3, "text-delta", {"text": random.Random(1).randbytes(size).hex()})
        segments = tuple(cut_segments(1, [(3, log_line(*end))]))
        outcome = Outcome(
            COMPLETED, "stop", answered(lease), segments=segments, segments_expire_at=LATER, event_count=3
        )
        await store.settle_turn(lease, outcome)
        assert await kept(stores.open(), lease.snapshot_id) == [*told(1, 2), end]

    async def test_a_damaged_segment_is_said_to_be(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        await write(store, lease, segment(0, 1, 2))
        await write(store, lease, segment(1, 4, 5))  # 3 is missing
        with pytest.raises(DataLossError, match="from 2 to 4"):
            await kept(stores.open(), lease.snapshot_id)

    async def test_a_deleted_session_leaves_no_log(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        await write(store, lease, segment(0, 1, 2))
        await store.settle_turn(lease, completed(lease))
        await store.delete_session(ANN, lease.session_id)
        assert await stores.open().read_segments(ANN, lease.snapshot_id) == []

    async def test_an_owner_that_was_superseded_writes_no_more_segments(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        assert await write(store, lease, segment(0, 1, 1))
        await store.settle_turn(replace(lease), failed())
        assert not await write(store, lease, segment(1, 2, 2))
        assert await store.read_segments(ANN, lease.snapshot_id) == [segment(0, 1, 1)]

    async def test_an_owner_whose_session_was_deleted_leaves_no_segment(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        await store.settle_turn(replace(lease), failed())
        await store.delete_session(ANN, lease.session_id)
        assert not await write(store, lease, segment(0, 1, 1))
        assert (await stores.database.query(Query(Kind.STREAMS, ANN.tenant, ()))).documents == []

    async def test_a_segment_follows_a_row_that_was_aborted_meanwhile(self, stores: Stores, store: Store) -> None:
        """The first try finds the abort out, and tells the lease; the next one lands."""
        lease = await claimed(store, claim("m"))
        await stores.open().abort_turn(ANN, lease.snapshot_id)
        assert not await write(store, lease, segment(0, 1, 1))
        assert lease.is_aborting
        assert await write(store, lease, segment(0, 1, 1))

    async def test_a_segment_leaves_the_row_as_it_is(self, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        version = lease.version
        assert await write(store, lease, segment(0, 1, 1))
        assert (lease.version, await store.heartbeat([lease])) == (version, [Beat.ALIVE])
