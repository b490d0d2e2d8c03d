"""Whether a turn is alive, to the microsecond, and what its row reads as and becomes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from store.database import Document, Kind, Path
from store.layout.chain import Chain
from store.layout.rows import Row
from store.models import Snapshot, SnapshotStatus
from store.rules.lease import is_live, is_resumable, seconds_to_expiry, status_at, status_of_stale

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STALENESS = timedelta(seconds=60)
TICK = timedelta(microseconds=1)
RUNNING = (SnapshotStatus.PENDING, SnapshotStatus.ABORTING)
SETTLED = (SnapshotStatus.COMPLETED, SnapshotStatus.FAILED, SnapshotStatus.ABORTED)


def row(
    status: SnapshotStatus = SnapshotStatus.PENDING,
    *,
    beat: datetime | None = NOW,
    written: datetime = NOW,
    runner: str | None = "instance",
    queued_until: datetime | None = None,
    has_state: bool = False,
) -> Row:
    """A row of a turn."""
    return Row(
        Snapshot("s", "row", status=status, heartbeat_at=beat),
        "ann",
        "attempt",
        written,
        Document(Path(Kind.SNAPSHOTS, "acme", "row"), {}, written),
        chain=Chain("row", ("row_0",), (), b"digest", 1) if has_state else None,
        runner=runner,
        queued_until=queued_until,
    )


@pytest.mark.parametrize("status", RUNNING)
@pytest.mark.parametrize(
    ("age", "alive"),
    [
        (timedelta(0), True),
        (STALENESS - TICK, True),
        (STALENESS, True),  # exactly that old is still alive
        (STALENESS + TICK, False),
        (timedelta(days=1), False),
        (-timedelta(hours=1), True),  # a beat from the future, as clocks go
    ],
)
def test_a_turn_lives_until_its_beat_is_older_than_the_staleness(
    status: SnapshotStatus, age: timedelta, alive: bool
) -> None:
    given = row(status)
    assert is_live(given, NOW + age, STALENESS) is alive
    assert status_at(given, NOW + age, STALENESS) is (status if alive else SnapshotStatus.EXPIRED)
    assert (seconds_to_expiry(given, NOW + age, STALENESS) > 0) is (alive and age != STALENESS)


@pytest.mark.parametrize("status", SETTLED)
def test_a_settled_row_neither_lives_nor_expires(status: SnapshotStatus) -> None:
    for later in (NOW, NOW + timedelta(days=100)):
        assert not is_live(row(status), later, STALENESS)
        assert status_at(row(status), later, STALENESS) is status


def test_a_row_without_a_beat_counts_from_when_it_was_written() -> None:
    given = row(beat=None, written=NOW)
    assert is_live(given, NOW + STALENESS, STALENESS)
    assert not is_live(given, NOW + STALENESS + TICK, STALENESS)


def test_a_beat_counts_even_where_the_row_was_written_later() -> None:
    """Others write a row too, as an abort does: that is no sign of its owner."""
    assert not is_live(row(beat=NOW, written=NOW + timedelta(hours=1)), NOW + STALENESS + TICK, STALENESS)


def test_a_queued_row_lives_until_its_time_has_come() -> None:
    until = NOW + timedelta(minutes=5)
    queued = row(beat=NOW, runner=None, queued_until=until)
    assert is_live(queued, until, STALENESS)
    assert not is_live(queued, until + TICK, STALENESS)
    assert seconds_to_expiry(queued, NOW, STALENESS) == 300.0
    adopted = replace(queued, runner="instance")
    assert not is_live(adopted, NOW + STALENESS + TICK, STALENESS)


def test_the_time_to_expiry_is_in_seconds_and_never_negative() -> None:
    assert seconds_to_expiry(row(), NOW + timedelta(seconds=12.5), STALENESS) == 47.5
    assert seconds_to_expiry(row(), NOW + timedelta(days=1), STALENESS) == 0.0
    assert seconds_to_expiry(row(runner=None, queued_until=NOW), NOW + TICK, STALENESS) == 0.0


def test_a_stale_row_becomes_failed_and_an_unheeded_abort_is_carried_out() -> None:
    assert status_of_stale(SnapshotStatus.PENDING) is SnapshotStatus.FAILED
    assert status_of_stale(SnapshotStatus.ABORTING) is SnapshotStatus.ABORTED


@pytest.mark.parametrize("status", [*RUNNING, *SETTLED])
def test_a_turn_continues_from_what_has_a_result(status: SnapshotStatus) -> None:
    has_result = status in (SnapshotStatus.COMPLETED, SnapshotStatus.ABORTED)
    assert is_resumable(row(status, has_state=True)) is has_result
    assert not is_resumable(row(status, has_state=False))
