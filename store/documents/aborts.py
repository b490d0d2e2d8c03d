"""Aborting a turn from anywhere: a flag on its row that its runner's listener sees, or the end where nobody listens."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from store.database import (
    SERVER_TIME,
    Committed,
    CommitUnansweredError,
    Condition,
    Kind,
    Query,
    Update,
    Write,
)
from store.documents.commits import Retries, try_commit
from store.documents.loading import RowRead, read_one_record, read_one_row
from store.documents.settlements import plan_release, plan_row_end
from store.documents.shelf import Shelf
from store.documents.watching import watch_row_ids
from store.errors import DataLossError, SessionNotFoundError, SnapshotNotFoundError
from store.layout.rows import Row
from store.models import Abort, Scope, SnapshotStatus
from store.rules.lease import is_live, status_at


async def abort_turn(shelf: Shelf, scope: Scope, snapshot_id: str) -> Abort:
    """Asks the runner to stop, or settles the row; a settled row is left as it is."""
    retries = Retries(shelf)
    tried: SnapshotStatus | None = None
    while True:
        read = await read_one_row(shelf, scope, snapshot_id)
        if read.row is None:
            raise SnapshotNotFoundError(snapshot_id)
        previous = status_at(read.row, read.time, shelf.staleness)
        planned = await _plan(shelf, scope, read)
        if planned is None:
            # After a try that was not answered, an aborted row is what that try has made of it.
            is_ours = tried is not None and previous in (SnapshotStatus.ABORTING, SnapshotStatus.ABORTED)
            return Abort(snapshot_id, read.row.snapshot.session_id, tried if tried and is_ours else previous, previous)
        status, writes = planned
        if not writes:
            continue
        result = await try_commit(shelf, writes)
        if isinstance(result, Committed):
            return Abort(snapshot_id, read.row.snapshot.session_id, previous, status)
        if isinstance(result, CommitUnansweredError):
            tried = previous
        await retries.wait(result)


async def abort_session(shelf: Shelf, scope: Scope, session_id: str) -> Abort:
    """The same for the session's active turn."""
    read = await read_one_record(shelf, scope, session_id, with_copy=False)
    if read.record is None or read.record.session.active_snapshot_id is None:
        raise SessionNotFoundError(session_id)
    return await abort_turn(shelf, scope, read.record.session.active_snapshot_id)


async def _plan(shelf: Shelf, scope: Scope, read: RowRead) -> tuple[SnapshotStatus, list[Write]] | None:
    """The status that the abort leads to and its writes, none where the row has to be read again; None where there is
    nothing to do."""
    row = read.row
    if row is None or row.snapshot.status.is_terminal:
        return None
    if not is_live(row, read.time, shelf.staleness) or row.runner is None:
        return SnapshotStatus.ABORTED, await _plan_end(shelf, scope, row)
    if row.snapshot.status is SnapshotStatus.ABORTING:
        return None
    flag = {"status": SnapshotStatus.ABORTING.value, "abortRunner": row.runner, "updatedAt": SERVER_TIME}
    return SnapshotStatus.ABORTING, [Update(row.document.path, flag, update_time=row.update_time)]


async def _plan_end(shelf: Shelf, scope: Scope, row: Row) -> list[Write]:
    """Row and lease end together, each as it was read, so that an owner that beats in between wins."""
    read = await read_one_record(shelf, scope, row.snapshot.session_id, with_copy=False)
    if read.record is None:
        await _require_over(shelf, scope, row)
        return []
    writes = plan_row_end(scope, row, SnapshotStatus.ABORTED, f"abort:{shelf.mint()}")
    if read.record.session.active_snapshot_id == row.snapshot.snapshot_id:
        writes.append(plan_release(scope, read.record))
    return writes


async def _require_over(shelf: Shelf, scope: Scope, row: Row) -> None:
    """A session that was deleted, or has expired, since the row was read has taken the row with it; DataLossError where
    it is missing and the row runs on."""
    again = (await read_one_row(shelf, scope, row.snapshot.snapshot_id)).row
    if again is not None and not again.snapshot.status.is_terminal:
        raise DataLossError(row.name, f"its session {row.snapshot.session_id!r} is missing")


def watch_aborts(shelf: Shelf, runner: str) -> AbstractAsyncContextManager[AsyncIterator[list[str]]]:
    """Ids of the rows that ask `runner` to stop, of whatever tenant."""
    return watch_row_ids(shelf, Query(Kind.SNAPSHOTS, None, (Condition("abortRunner", "==", runner),)))
