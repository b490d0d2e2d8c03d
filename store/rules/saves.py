"""What a save may change: identity and settled results are kept, metadata may be corrected."""

from dataclasses import replace
from datetime import datetime

from store.canonical import dump
from store.errors import InvalidRequestError, SnapshotSettledError
from store.ids import require_id, require_session_id
from store.models import Snapshot, SnapshotStatus
from store.rules.fields import require_row_fields

_NEXT = {
    SnapshotStatus.PENDING: {
        SnapshotStatus.PENDING,
        SnapshotStatus.ABORTING,
        SnapshotStatus.COMPLETED,
        SnapshotStatus.FAILED,
        SnapshotStatus.ABORTED,
    },
    SnapshotStatus.ABORTING: {SnapshotStatus.ABORTING, SnapshotStatus.ABORTED},
}


def require_saved(existing: Snapshot | None, given: Snapshot, snapshot_id: str) -> Snapshot:
    """`given` as it may be stored: under the store's id, refused where it contradicts the row that is there."""
    require_session_id(given.session_id)
    if given.parent_id is not None:
        require_id(given.parent_id, "parentId")
    if given.status is SnapshotStatus.EXPIRED:
        raise InvalidRequestError("A snapshot's status cannot be stored as expired: that is computed on read.")
    _require_zones(given)
    require_row_fields(given)
    if existing is None:
        return replace(given, snapshot_id=snapshot_id)
    _require_same_identity(existing, given)
    if given.status not in _NEXT.get(existing.status, {existing.status}):
        raise SnapshotSettledError(f"A snapshot that is {existing.status} cannot become {given.status}.")
    if existing.status.is_terminal and existing.state != given.state:
        raise SnapshotSettledError("The state of a settled snapshot cannot be changed.")
    return replace(given, snapshot_id=snapshot_id, created_at=existing.created_at, origin=existing.origin)


def _require_zones(given: Snapshot) -> None:
    times = {"created_at": given.created_at, "updated_at": given.updated_at, "heartbeat_at": given.heartbeat_at}
    for name, time in times.items():
        if time is not None and time.utcoffset() is None:
            raise InvalidRequestError(f"{name} needs a time zone.")


def _require_same_identity(existing: Snapshot, given: Snapshot) -> None:
    if given.session_id != existing.session_id:
        raise SnapshotSettledError("A snapshot's session cannot be changed.")
    if given.parent_id != existing.parent_id:
        raise SnapshotSettledError("A snapshot's parent cannot be changed.")


def is_heartbeat(existing: Snapshot, given: Snapshot) -> bool:
    """Whether nothing but the heartbeat differs, which moves neither `updated_at` nor recency."""
    return given.heartbeat_at != existing.heartbeat_at and _rest(existing) == _rest(given)


def _rest(snapshot: Snapshot) -> tuple[Snapshot, bytes, bytes]:
    """Everything but the times, JSON as text: Python's own equality takes 1 for True."""
    plain = replace(snapshot, heartbeat_at=None, updated_at=None, error=None, usage=None)
    return plain, dump(snapshot.error and dict(snapshot.error)), dump(snapshot.usage and dict(snapshot.usage))


def is_newer(snapshot: Snapshot, other_created_at: datetime | None, other_id: str | None) -> bool:
    """Recency: by creation, ties by id; anything is newer than nothing."""
    if other_created_at is None or other_id is None or snapshot.created_at is None:
        return True
    return (snapshot.created_at, snapshot.snapshot_id) > (other_created_at, other_id)
