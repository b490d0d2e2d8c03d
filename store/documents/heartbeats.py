"""Heartbeats: all of an instance's turns in one round trip, touching nothing but `heartbeatAt`."""

from collections.abc import Sequence

from store.database import SERVER_TIME, CommitUnansweredError, Update
from store.documents.loading import visible_row
from store.documents.shelf import Shelf, row_path
from store.errors import UnavailableError
from store.layout.rows import METADATA_FIELDS, Row
from store.models import Beat, Lease, SnapshotStatus


async def beat(shelf: Shelf, leases: Sequence[Lease]) -> list[Beat]:
    """One verdict per lease. A lost answer is not asked about here: the next beat is refused then, and asks."""
    if not leases:
        return []
    sent = [lease.version for lease in leases]
    writes = [
        Update(row_path(lease.scope, lease.snapshot_id), {"heartbeatAt": SERVER_TIME}, update_time=lease.version)
        for lease in leases
    ]
    try:
        times = await shelf.database.write_each(writes)
    except CommitUnansweredError:
        return [_verdict(lease) for lease in leases]
    refused: list[Lease] = []
    for lease, version, time in zip(leases, sent, times, strict=True):
        if time is None:
            refused.append(lease)
        elif lease.version == version:  # not adopted a newer one while this beat was under way
            lease.version = time
    lost = await _question(shelf, refused)
    return [Beat.LOST if lease.snapshot_id in lost else _verdict(lease) for lease in leases]


def _verdict(lease: Lease) -> Beat:
    return Beat.ABORTING if lease.is_aborting else Beat.ALIVE


async def _question(shelf: Shelf, refused: Sequence[Lease]) -> set[str]:
    """Reads the refused leases' own rows together; adopts those that are still ours, names the others."""
    if not refused:
        return set()
    paths = {lease.snapshot_id: row_path(lease.scope, lease.snapshot_id) for lease in refused}
    try:
        read = await shelf.database.get(list(paths.values()), mask=METADATA_FIELDS)
    except UnavailableError:
        return set()  # not known to be lost; the next beat asks again
    lost: set[str] = set()
    for lease in refused:
        row = visible_row(lease.scope, read.documents[paths[lease.snapshot_id]], read.time)
        if row is None or not _is_ours(row, lease):
            lost.add(lease.snapshot_id)
            continue
        lease.version = row.update_time
        lease.is_aborting = row.snapshot.status is SnapshotStatus.ABORTING
    return lost


def _is_ours(row: Row, lease: Lease) -> bool:
    return row.attempt == lease.attempt and not row.snapshot.status.is_terminal
