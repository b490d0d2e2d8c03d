"""The event logs of running turns, in segments: written by the turn's runner, followed by any instance.

A runner writes a log while its turn runs only where somebody asks for it: what every turn would write each second
would cost more than all the rest of it. Who asks leaves a request beside the segments, which the runner listens for.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

from store.database import Committed, Condition, Create, Delete, Document, Kind, Path, Put, Query, Update, Write
from store.documents.commits import Retries, grouped, try_commit
from store.documents.heartbeats import adopt_own
from store.documents.loading import read_one_row
from store.documents.shelf import Shelf, row_path
from store.documents.watching import watch_row_ids
from store.errors import SnapshotNotFoundError
from store.layout.rows import METADATA_FIELDS, Row
from store.layout.segments import read_segment, request_fields, segment_fields
from store.models import Lease, Outcome, Scope, Segment
from store.rules.lease import is_live

_REQUEST_LIFETIME: Final = timedelta(hours=1)  # the settle takes a request away; this is for those that it missed


def segment_path(tenant: str, snapshot_id: str, index: int) -> Path:
    """Where a segment lies."""
    return Path(Kind.STREAMS, tenant, f"{snapshot_id}_{index}")


def request_path(tenant: str, snapshot_id: str) -> Path:
    """Where the request for a turn's log lies. No segment has this name, for theirs end with a number."""
    return Path(Kind.STREAMS, tenant, f"{snapshot_id}_request")


async def request_segments(shelf: Shelf, scope: Scope, snapshot_id: str) -> bool:
    """Asks the turn's runner to write its log while it runs. False where nobody runs it, yet or any more: ask again,
    since an owner that is taken for dead may be late. A turn that is over, or was asked for already, costs no write.
    SnapshotNotFoundError."""
    retries = Retries(shelf)
    path = request_path(shelf.require_scope(scope).tenant, snapshot_id)
    while True:
        read = await read_one_row(shelf, scope, snapshot_id)
        if read.row is None:
            raise SnapshotNotFoundError(snapshot_id)
        if read.row.snapshot.status.is_terminal:
            return True
        if read.row.runner is None or not is_live(read.row, read.time, shelf.staleness):
            return False
        result = await try_commit(shelf, _request_writes(path, read.row, read.row.runner, read.time))
        if isinstance(result, Committed) or (await shelf.database.get([path])).documents[path] is not None:
            return True
        await retries.wait(result)


def _request_writes(path: Path, row: Row, runner: str, now: datetime) -> list[Write]:
    """The row's version is part of it, as it is of a segment's: a deleted session must not be left one."""
    fields = request_fields(row.snapshot.snapshot_id, row.snapshot.session_id, runner, now + _REQUEST_LIFETIME)
    return [Update(row.document.path, update_time=row.update_time), Create(path, fields)]


def watch_segment_requests(shelf: Shelf, runner: str) -> AbstractAsyncContextManager[AsyncIterator[list[str]]]:
    """Ids of the rows whose log `runner` is asked to write, of whatever tenant; some repeatedly."""
    return watch_row_ids(shelf, Query(Kind.STREAMS, None, (Condition("runner", "==", runner),)))


async def write_segments(shelf: Shelf, lease: Lease, segments: Iterable[Segment], expires_at: datetime) -> bool:
    """One commit, or as many as it takes: a turn that is followed late has a whole log to tell. False where one was
    refused or not answered; the same segments may be written again."""
    sized: list[tuple[Write, int]] = [
        (Create(path, fields), size) for path, fields, size in _documents(lease, segments, expires_at)
    ]
    for creates in grouped(sized, shelf.options.commit_size):
        if not await _write_together(shelf, lease, creates):
            return False
    return True


async def _write_together(shelf: Shelf, lease: Lease, creates: Sequence[Write]) -> bool:
    """The row's version is part of it, though the row stays as it is: an owner that was superseded, or whose session
    was deleted, would leave segments that nobody removes."""
    row = row_path(lease.scope, lease.snapshot_id)
    result = await try_commit(shelf, [Update(row, update_time=lease.version), *creates])
    if not isinstance(result, Exception):
        return True
    # A refusal is the echo of a lost answer, for nobody else writes segments of this turn; or the row was written.
    read = await shelf.database.get([row, *(write.path for write in creates)], mask=(*METADATA_FIELDS, "index"))
    adopt_own(lease, read.documents[row], read.time)
    return all(read.documents[write.path] is not None for write in creates)


def last_segment_writes(lease: Lease, outcome: Outcome) -> list[tuple[Write, int]]:
    """The writes of the log's end, with their bytes, to be part of a settle. Unconditional, because a settle is
    repeated after lost answers, and may end differently then."""
    if outcome.segments_expire_at is None:
        return []
    writes: list[tuple[Write, int]] = [
        (Put(path, fields), size)
        for path, fields, size in _documents(lease, outcome.segments, outcome.segments_expire_at)
    ]
    if outcome.segments_were_requested:
        writes.append((Delete(request_path(lease.scope.tenant, lease.snapshot_id)), 0))
    return writes


def _documents(
    lease: Lease, segments: Iterable[Segment], expires_at: datetime
) -> list[tuple[Path, dict[str, object], int]]:
    documents = []
    for segment in segments:
        fields = segment_fields(lease.snapshot_id, lease.ground.session_id, segment, expires_at)
        path = segment_path(lease.scope.tenant, lease.snapshot_id, segment.index)
        documents.append((path, fields, len(fields["chunk"])))
    return documents


def _query(scope: Scope, snapshot_id: str) -> Query:
    return Query(Kind.STREAMS, scope.tenant, (Condition("snapshotId", "==", snapshot_id),))


async def read_segments(shelf: Shelf, scope: Scope, snapshot_id: str) -> list[Segment]:
    """All that is kept of a turn's log, in order. Whoever asks has made sure that the row is the caller's."""
    row_path(shelf.require_scope(scope), snapshot_id)
    found = await shelf.database.query(_query(scope, snapshot_id))
    return sorted(_segments_in(scope, snapshot_id, found.documents), key=lambda segment: segment.index)


def _segments_in(scope: Scope, snapshot_id: str, documents: Iterable[Document | None]) -> list[Segment]:
    request = request_path(scope.tenant, snapshot_id)
    return [read_segment(found) for found in documents if found is not None and found.path != request]


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
        yield _segments(scope, snapshot_id, deliveries)


async def _segments(
    scope: Scope, snapshot_id: str, deliveries: AsyncIterator[list[Document | None]]
) -> AsyncIterator[list[Segment]]:
    async for documents in deliveries:
        yield _segments_in(scope, snapshot_id, documents)
