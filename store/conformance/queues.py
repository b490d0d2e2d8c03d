"""Turns that wait in a queue: claimed without a runner, adopted at most once, settled where nobody comes."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from store.canonical import Json
from store.conformance.harness import Store, Stores
from store.conformance.interposed import Interposed, interposed_store, store_on
from store.conformance.turns import (
    ABORTED,
    ABORTING,
    ANN,
    BOB,
    COMPLETED,
    EXPIRED,
    FAILED,
    PENDING,
    claim,
    claimed,
    completed,
    converse,
    require,
)
from store.database import Committed, CommitUnansweredError, Kind, Query, Write
from store.ids import mint_id
from store.models import Adopted, Adoption, Claim, Lease, SameSend, SnapshotStatus
from store.rules.settle import LEASE_LOST
from store.state import Raw

PATIENT = 300.0  # seconds in the queue


def queued_claim(message_id: str = "m", session_id: str | None = None, **fields: Any) -> Claim:
    return claim(message_id, session_id, **{"runner": None, "queue_seconds": PATIENT, **fields})


async def queued(store: Store, message_id: str = "m", session_id: str | None = None, **fields: Any) -> str:
    """The id of a turn that waits."""
    return (await claimed(store, queued_claim(message_id, session_id, **fields))).snapshot_id


async def adopt(store: Store, snapshot_id: str, runner: str = "adopter") -> Adopted | Adoption:
    return await store.adopt_turn(ANN, snapshot_id, runner, mint_id())


async def adopted(store: Store, snapshot_id: str) -> Adopted:
    answer = await adopt(store, snapshot_id)
    assert isinstance(answer, Adopted)
    return answer


async def status_of(store: Store, snapshot_id: str) -> SnapshotStatus:
    found = await store.get_snapshot_metadata(ANN, snapshot_id)
    assert found is not None
    return found.status


class LosesAnswers(Interposed):
    """Every commit of this database lands, and its sender is told nothing."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        await super().commit(writes)
        raise CommitUnansweredError


async def nothing(writes: Sequence[Write]) -> None:
    pass


def large_message() -> dict[str, Json]:
    """Its text does not compress to 256 KiB."""
    text = random.Random(7).randbytes(400_000).hex()
    return {"id": "m", "role": "user", "content": [{"text": text}, {"data": {"a": [1.0, None, -0.0]}}]}


class QueueCases:
    """Waiting, adopting, and dying in between."""

    async def test_a_queued_turn_is_run_by_who_adopts_it(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        snapshot_id = await queued(store, "b", first.session_id, text="Good day", last_message_id="a-answer")
        waiting = await require(stores.open(), snapshot_id)
        assert (waiting.status, waiting.parent_id) == (PENDING, first.snapshot_id)
        runner = stores.open()
        turn = await adopted(runner, snapshot_id)
        assert turn.message == {"id": "b", "role": "user", "content": [{"text": "Good day"}]}
        assert turn.resume is None
        lease = turn.lease
        assert (lease.parent_id, lease.state, lease.message_id) == (first.snapshot_id, first.state, "b")
        settled = await runner.settle_turn(lease, completed(lease))
        head = await stores.open().get_transcript(ANN, first.session_id)
        assert head is not None
        assert (head.state, head.session.active_snapshot_id) == (settled.state, None)

    async def test_the_first_turn_of_a_session_can_wait_too(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        lease = (await adopted(stores.open(), snapshot_id)).lease
        await store.settle_turn(lease, completed(lease))
        assert (await require(stores.open(), snapshot_id)).status is COMPLETED

    async def test_of_eight_adopters_one_wins(self, stores: Stores, store: Store) -> None:
        """At most once: tools have effects."""
        snapshot_id = await queued(store)
        answers = await asyncio.gather(*(adopt(stores.open(), snapshot_id, f"runner-{number}") for number in range(8)))
        (winner,) = [answer for answer in answers if isinstance(answer, Adopted)]
        assert [answer for answer in answers if answer is not winner] == [Adoption.RUNNING] * 7
        await store.settle_turn(winner.lease, completed(winner.lease))

    async def test_of_two_adopters_that_have_both_found_it_waiting_one_wins(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        first: list[Adopted] = []

        async def overtake(_: Sequence[Write]) -> None:
            if not first:
                first.append(await adopted(store, snapshot_id))

        second = interposed_store(stores.database, overtake)
        assert await adopt(second, snapshot_id, "second") is Adoption.RUNNING
        [winner] = first
        await store.settle_turn(winner.lease, completed(winner.lease))

    async def test_a_delivery_before_the_claim_finds_nothing_yet(self, stores: Stores, store: Store) -> None:
        given = queued_claim()
        assert await adopt(store, given.snapshot_id) is Adoption.UNKNOWN
        await claimed(store, given)
        assert isinstance(await adopt(stores.open(), given.snapshot_id), Adopted)

    async def test_another_users_delivery_finds_nothing(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        assert await store.adopt_turn(BOB, snapshot_id, "adopter", mint_id()) is Adoption.UNKNOWN

    async def test_a_repeated_delivery_runs_nothing(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        lease = (await adopted(store, snapshot_id)).lease
        assert await adopt(stores.open(), snapshot_id) is Adoption.RUNNING
        await store.settle_turn(lease, completed(lease))
        before = await require(stores.open(), snapshot_id)
        assert await adopt(stores.open(), snapshot_id) is Adoption.SETTLED
        assert await require(stores.open(), snapshot_id) == before

    async def test_a_turn_that_was_claimed_by_a_runner_is_nobody_elses(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("m"))
        assert await adopt(stores.open(), lease.snapshot_id) is Adoption.RUNNING
        await store.settle_turn(lease, completed(lease))

    @pytest.mark.parametrize("is_aborting", [False, True])
    async def test_a_dead_runners_turn_is_settled_and_never_run_again(
        self, stores: Stores, store: Store, is_aborting: bool
    ) -> None:
        snapshot_id = await queued(store)
        lease = (await adopted(store, snapshot_id)).lease
        if is_aborting:
            await store.abort_turn(ANN, snapshot_id)
        await stores.wait(stores.moment)
        impatient = stores.open(lease_staleness=stores.moment)
        assert await adopt(impatient, snapshot_id) is Adoption.SETTLED
        row = await require(stores.open(), snapshot_id)
        assert (row.status, row.error) == ((ABORTED, None) if is_aborting else (FAILED, LEASE_LOST))
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert session.active_snapshot_id is None
        assert await adopt(stores.open(), snapshot_id) is Adoption.SETTLED

    async def test_a_queued_turn_lives_longer_than_a_lease_without_beats(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        await stores.wait(stores.moment)
        assert isinstance(await adopt(stores.open(lease_staleness=stores.moment), snapshot_id), Adopted)

    async def test_an_adopted_turn_beats_from_its_adoption_on(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        before = await require(store, snapshot_id)
        await stores.wait(stores.moment)
        await adopted(store, snapshot_id)
        after = await require(store, snapshot_id)
        assert before.heartbeat_at is not None
        assert after.heartbeat_at is not None
        assert (after.heartbeat_at - before.heartbeat_at).total_seconds() >= stores.moment * 0.9
        assert after.status is PENDING

    @pytest.mark.parametrize("is_first", [True, False])
    async def test_a_turn_that_nobody_fetched_in_time_has_failed(
        self, stores: Stores, store: Store, is_first: bool
    ) -> None:
        place = (
            {} if is_first else {"session_id": (await converse(store, "a")).session_id, "last_message_id": "a-answer"}
        )
        snapshot_id = await queued(store, "b", queue_seconds=stores.moment, **place)
        await stores.wait(stores.moment)
        assert await status_of(stores.open(), snapshot_id) is EXPIRED
        assert await adopt(stores.open(), snapshot_id) is Adoption.SETTLED
        row = await require(stores.open(), snapshot_id)
        assert (row.status, row.error) == (FAILED, LEASE_LOST)

    async def test_an_abort_of_a_turn_that_waits_is_done_at_once(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        answer = await stores.open().abort_turn(ANN, snapshot_id)
        assert (answer.previous, answer.status) == (PENDING, ABORTED)
        assert await adopt(store, snapshot_id) is Adoption.SETTLED
        row = await require(store, snapshot_id)
        assert (row.status, row.finish_reason) == (ABORTED, "aborted")

    async def test_an_abort_of_an_adopted_turn_asks_its_runner(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        lease = (await adopted(store, snapshot_id)).lease
        async with stores.open().watch_aborts("adopter") as batches:
            assert await anext(batches) == []
            assert (await store.abort_turn(ANN, snapshot_id)).status is ABORTING
            assert await anext(batches) == [snapshot_id]
        assert (await store.settle_turn(lease, completed(lease))).status is ABORTED

    async def test_the_same_message_again_is_the_turn_that_waits(self, stores: Stores, store: Store) -> None:
        snapshot_id = await queued(store)
        again = await stores.open().claim_turn(ANN, queued_claim())
        assert isinstance(again, SameSend)
        assert (again.snapshot_id, again.is_running) == (snapshot_id, True)

    async def test_an_adoption_whose_answer_is_lost_is_ones_own(self, stores: Stores, store: Store) -> None:
        """A refused repetition is a question: the row has our attempt."""
        snapshot_id = await queued(store)
        losing = store_on(LosesAnswers(stores.database, nothing))
        turn = await losing.adopt_turn(ANN, snapshot_id, "adopter", "this one")
        assert isinstance(turn, Adopted)
        assert turn.lease.attempt == "this one"
        assert await adopt(stores.open(), snapshot_id) is Adoption.RUNNING
        assert (await store.settle_turn(turn.lease, completed(turn.lease))).status is COMPLETED

    async def test_a_large_request_comes_back_exactly(self, stores: Stores, store: Store) -> None:
        given = Raw.of(large_message(), depth=3)
        snapshot_id = await queued(store, message=given)
        shards = Query(Kind.SHARDS, ANN.tenant, ())
        assert (await stores.database.query(shards)).documents != []
        turn = await adopted(stores.open(), snapshot_id)
        assert Raw.of(turn.message, depth=3).text == given.text
        await store.settle_turn(turn.lease, completed(turn.lease))
        left = (await stores.database.query(shards)).documents
        assert not any(document.path.id.startswith(f"{snapshot_id}_") and "r_" in document.path.id for document in left)

    @pytest.mark.parametrize("ends", ["aborted", "expired"])
    async def test_a_large_request_goes_with_its_turn(self, stores: Stores, store: Store, ends: str) -> None:
        seconds = stores.moment if ends == "expired" else PATIENT
        snapshot_id = await queued(store, message=Raw.of(large_message(), depth=3), queue_seconds=seconds)
        if ends == "aborted":
            await store.abort_turn(ANN, snapshot_id)
        else:
            await stores.wait(stores.moment)
        assert await adopt(stores.open(), snapshot_id) is Adoption.SETTLED
        assert (await stores.database.query(Query(Kind.SHARDS, ANN.tenant, ()))).documents == []

    async def test_a_resume_waits_as_a_message_does(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        resume: dict[str, Json] = {"respond": [{"toolResponse": {"name": "ask", "ref": "1", "output": {"b": [1.0]}}}]}
        given = queued_claim(
            session_id=first.session_id, message=None, resume=Raw.of(resume, depth=3), check_tail=False
        )
        await claimed(store, given)
        turn = await adopted(stores.open(), given.snapshot_id)
        assert (turn.message, turn.resume) == (None, resume)
        assert (turn.lease.parent_id, turn.lease.message_id) == (first.snapshot_id, None)

    async def test_a_queued_turn_continues_from_the_row_that_it_named(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        await converse(store, "b", first.session_id)
        place = {"snapshot_to_resume": first.snapshot_id, "last_message_id": "a-answer"}
        snapshot_id = await queued(store, "c", first.session_id, **place)
        lease: Lease = (await adopted(stores.open(), snapshot_id)).lease
        assert (lease.parent_id, lease.state) == (first.snapshot_id, first.state)
        settled = await store.settle_turn(lease, completed(lease))
        assert settled.last_message_id == "c-answer"
