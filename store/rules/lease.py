"""Whether a turn is alive, and who may have the session's lease."""

from datetime import datetime, timedelta

from store.layout.rows import Row
from store.models import SnapshotStatus

RETRY_AFTER_SECONDS = 3  # while the other turn beats; a client polls at this pace


def is_live(row: Row, now: datetime, staleness: timedelta) -> bool:
    """Whether the row's owner is still there: it beat within `staleness` (exactly that old is still alive), or the row
    waits in a queue until later than `now`."""
    if row.snapshot.status.is_terminal:
        return False
    if row.runner is None and row.queued_until is not None:
        return now <= row.queued_until
    return now - _last_sign(row) <= staleness


def _last_sign(row: Row) -> datetime:
    """The owner's last beat; a row saved without any counts from when it was written."""
    return row.snapshot.heartbeat_at or row.update_time


def status_at(row: Row, now: datetime, staleness: timedelta) -> SnapshotStatus:
    """The status that a reader sees at `now`: EXPIRED where a running row's owner is gone."""
    status = row.snapshot.status
    if status.is_terminal or is_live(row, now, staleness):
        return status
    return SnapshotStatus.EXPIRED


def seconds_to_expiry(row: Row, now: datetime, staleness: timedelta) -> float:
    """How long until the row expires unless its owner beats; 0 where it has. Only for running rows."""
    if row.runner is None and row.queued_until is not None:
        return max(0.0, (row.queued_until - now).total_seconds())
    until = _last_sign(row) + staleness
    return max(0.0, (until - now).total_seconds())


def status_of_stale(status: SnapshotStatus) -> SnapshotStatus:
    """What a row becomes when somebody else accepts its stale lease: an abort that nobody carried out is done by it."""
    return SnapshotStatus.ABORTED if status is SnapshotStatus.ABORTING else SnapshotStatus.FAILED


def is_resumable(row: Row) -> bool:
    """Whether a turn may continue from the row: completed, or aborted with what it had produced."""
    if row.is_legacy:  # Genkit's aborted rows hold what was there when they began, or nothing
        return row.chain is not None and row.snapshot.status is SnapshotStatus.COMPLETED
    return row.chain is not None and row.snapshot.status in (SnapshotStatus.COMPLETED, SnapshotStatus.ABORTED)
