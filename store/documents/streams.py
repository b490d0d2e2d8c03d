"""The event logs of running turns, in segments: written by the turn's runner, followed by any instance."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime

from store.database import Condition, Create, Delete, Document, Kind, Path, Put, Query, Update, Write
from store.documents.commits import try_commit
from store.documents.heartbeats import adopt_own
from store.documents.shelf import Shelf, row_path
from store.layout.rows import METADATA_FIELDS
from store.layout.segments import read_segment, segment_fields
from store.models import Lease, Scope, Segment


def segment_path(tenant: str, snapshot_id: str, index: int) -> Path:
    """Where a segment lies."""
    return Path(Kind.STREAMS, tenant, f"{snapshot_id}_{index}")


async def write_segments(shelf: Shelf, lease: Lease, segments: Iterable[Segment], expires_at: datetime) -> bool:
    """One commit. False where it was refused or not answered; the same segments may be written again.

    The row's version is part of it, though the row stays as it is: an owner that was superseded, or whose session was
    deleted, would leave segments that nobody removes."""
    row = row_path(lease.scope, lease.snapshot_id)
    creates = [Create(path, fields) for path, fields, _ in _documents(lease, segments, expires_at)]
    result = await try_commit(shelf, [Update(row, update_time=lease.version), *creates])
    if not isinstance(result, Exception):
        return True
    # A refusal is the echo of a lost answer, for nobody else writes segments of this turn; or the row was written.
    read = await shelf.database.get([row, *(write.path for write in creates)], mask=(*METADATA_FIELDS, "index"))
    adopt_own(lease, read.documents[row], read.time)
    return all(read.documents[write.path] is not None for write in creates)


def last_segment_writes(
    lease: Lease, segments: Iterable[Segment], expires_at: datetime | None
) -> list[tuple[Write, int]]:
    """The writes of the log's end, with their bytes, to be part of a settle. Unconditional, because a settle is
    repeated after lost answers, and may end differently then."""
    if expires_at is None:
        return []
    return [(Put(path, fields), size) for path, fields, size in _documents(lease, segments, expires_at)]


def _documents(
    lease: Lease, segments: Iterable[Segment], expires_at: datetime
) -> list[tuple[Path, dict[str, object], int]]:
    documents = []
    for segment in segments:
        fields = segment_fields(lease.snapshot_id, lease.session_id, segment, expires_at)
        path = segment_path(lease.scope.tenant, lease.snapshot_id, segment.index)
        documents.append((path, fields, len(fields["chunk"])))
    return documents


def _query(scope: Scope, snapshot_id: str) -> Query:
    return Query(Kind.STREAMS, scope.tenant, (Condition("snapshotId", "==", snapshot_id),))


async def read_segments(shelf: Shelf, scope: Scope, snapshot_id: str) -> list[Segment]:
    """All that is kept of a turn's log, in order. Whoever asks has made sure that the row is the caller's."""
    row_path(shelf.require_scope(scope), snapshot_id)
    found = await shelf.database.query(_query(scope, snapshot_id))
    return sorted(map(read_segment, found.documents), key=lambda segment: segment.index)


async def delete_segments(shelf: Shelf, scope: Scope, snapshot_id: str) -> None:
    """Deletes the log of a turn that is no more; what fails here, the database's own TTL does."""
    found = (await shelf.database.query(_query(scope, snapshot_id))).documents
    if found:
        await try_commit(shelf, [Delete(document.path, document.update_time) for document in found])


@asynccontextmanager
async def watch_segments(shelf: Shelf, scope: Scope, snapshot_id: str) -> AsyncIterator[AsyncIterator[list[Segment]]]:
    """Segments as they come, those of now first, some repeatedly."""
    row_path(shelf.require_scope(scope), snapshot_id)
    async with shelf.database.watch(_query(scope, snapshot_id)) as deliveries:
        yield _segments(deliveries)


async def _segments(deliveries: AsyncIterator[list[Document | None]]) -> AsyncIterator[list[Segment]]:
    async for documents in deliveries:
        yield [read_segment(document) for document in documents if document is not None]
