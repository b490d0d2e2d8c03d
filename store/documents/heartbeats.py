"""Heartbeats: all of an instance's turns in one round trip, touching nothing but `heartbeatAt`."""

from collections.abc import Sequence
from datetime import datetime

from store.database import SERVER_TIME, CommitUnansweredError, Document, Update
from store.documents.loading import visible_row
from store.documents.shelf import Shelf, row_path
from store.errors import UnavailableError
from store.layout.rows import METADATA_FIELDS
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
    documents = {lease.snapshot_id: read.documents[paths[lease.snapshot_id]] for lease in refused}
    return {lease.snapshot_id for lease in refused if not adopt_own(lease, documents[lease.snapshot_id], read.time)}


def adopt_own(lease: Lease, document: Document | None, read_time: datetime) -> bool:
    """Whether the row is still the lease's; then its version is taken over, and an abort that it tells of."""
    row = visible_row(lease.scope, document, read_time)
    if row is None or row.attempt != lease.attempt or row.snapshot.status.is_terminal:
        return False
    lease.version = max(lease.version, row.update_time)  # a write that was answered meanwhile knows better
    lease.is_aborting = lease.is_aborting or row.snapshot.status is SnapshotStatus.ABORTING
    return True
