"""What the explorer has found, or ought to have found sooner, each as the shortest test that shows it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from store.documents.shelf import Shelf
from store.documents.store import DocumentStore
from store.errors import SnapshotNotFoundError, TurnBusyError
from store.memory.database import MemoryDatabase
from store.models import NewSession, SameSend, Snapshot, SnapshotStatus
from store.state import State
from tests.properties.faulty_database import Fault
from tests.properties.plain_turns import ADA, claim, claimed, completed
from tests.properties.scripted import Script, Step

STALE = timedelta(seconds=61)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(clock: Clock) -> AsyncIterator[MemoryDatabase]:
    database = MemoryDatabase(clock=clock)
    yield database
    await database.close()


@pytest.fixture
def store(database: MemoryDatabase) -> DocumentStore:
    """An instance to which nothing happens."""
    return DocumentStore(Shelf(database))


async def test_a_saved_row_that_takes_over_a_stale_turn_is_not_the_answer_to_that_turns_message(
    store: DocumentStore, clock: Clock
) -> None:
    stale = await claimed(store, claim("m1"))
    clock.now += STALE
    await store.save_snapshot(ADA, "saved", lambda _: Snapshot(stale.session_id, status=SnapshotStatus.PENDING))
    with pytest.raises(TurnBusyError) as refusal:
        await store.claim_turn(ADA, claim("m1", stale.session_id))
    assert refusal.value.snapshot_id == "saved"


async def test_an_abort_of_a_turn_whose_session_is_deleted_just_then_finds_no_damage(
    store: DocumentStore, database: MemoryDatabase, clock: Clock
) -> None:
    lease = await claimed(store, claim("m1"))
    clock.now += STALE
    script = Script(Step("get pointer", before=lambda: store.delete_session(ADA, lease.session_id)))
    with pytest.raises(SnapshotNotFoundError):
        await script.store(database).abort_turn(ADA, lease.snapshot_id)
    assert script.left == []


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LATE])
async def test_an_abort_that_was_not_answered_is_told_what_it_has_done(
    store: DocumentStore, database: MemoryDatabase, fault: Fault
) -> None:
    lease = await claimed(store, claim("m1"))
    script = Script(Step("commit", fault), Step("get snapshot", before=lambda: script.land_late()))
    answer = await script.store(database).abort_turn(ADA, lease.snapshot_id)
    assert (answer.previous, answer.status) == (SnapshotStatus.PENDING, SnapshotStatus.ABORTING)


async def test_a_save_that_lands_late_is_not_refused_for_a_turn_that_was_claimed_after_it(
    store: DocumentStore, database: MemoryDatabase
) -> None:
    session = await store.create_session(ADA, None, NewSession(agent="echo"))

    async def land_and_claim() -> None:
        await script.land_late()
        await claimed(store, claim("m1", session.id))

    script = Script(Step("commit", Fault.LATE), Step("get pointer", before=land_and_claim))
    given = Snapshot(session.id, state=State.of({"custom": 1}))
    saved = await script.store(database).save_snapshot(ADA, "saved", lambda existing: existing or given)
    assert script.left == []
    assert saved == await store.get_snapshot(ADA, "saved")


async def test_a_change_of_model_that_lands_late_is_not_refused_for_a_turn_that_was_claimed_after_it(
    store: DocumentStore, database: MemoryDatabase
) -> None:
    session = await store.create_session(ADA, None, NewSession(agent="echo"))

    async def land_and_claim() -> None:
        await script.land_late()
        await claimed(store, claim("m1", session.id))

    script = Script(Step("commit", Fault.LATE), Step("get pointer", before=land_and_claim))
    changed = await script.store(database).update_session(ADA, session.id, model="newer")
    assert script.left == []
    assert (changed.model, changed.is_turn_active) == ("newer", True)


async def test_a_truncate_that_lands_late_is_not_refused_for_having_moved_the_tail(
    store: DocumentStore, database: MemoryDatabase
) -> None:
    lease = await claimed(store, claim("m1"))
    await store.settle_turn(lease, completed(lease))
    script = Script(Step("commit", Fault.LATE), Step("get pointer", before=lambda: script.land_late()))
    rewound = await script.store(database).truncate(ADA, lease.session_id, "m1", "m1-answer")
    assert script.left == []
    assert rewound.message_count == 0


async def test_a_claim_whose_turn_was_fetched_from_the_queue_before_its_answer_came_is_told_so(
    store: DocumentStore, database: MemoryDatabase
) -> None:
    queued = replace(claim("m1"), runner=None, queue_seconds=300)
    adopt = partial(store.adopt_turn, ADA, queued.snapshot_id, "instance", "attempt")
    script = Script(Step("commit", Fault.LOST_ANSWER), Step("get snapshot", before=adopt))
    answer = await script.store(database).claim_turn(ADA, queued)
    assert isinstance(answer, SameSend)
    assert (answer.snapshot_id, answer.is_running) == (queued.snapshot_id, True)
