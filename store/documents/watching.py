"""Following rows across instances: one row's status, or those that a query finds. What is delivered is state, never
events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

from store.database import Document, Query
from store.documents.loading import read_one_row, visible_row
from store.documents.shelf import Shelf, row_path
from store.errors import StoreError, UnavailableError
from store.layout.rows import Row
from store.legacy.rows import is_legacy
from store.models import Scope, SnapshotStatus
from store.rules.lease import seconds_to_expiry, status_at

SLOW_POLL = 15.0  # seconds; a listener that died in silence is noticed by then


@asynccontextmanager
async def follow_status(shelf: Shelf, scope: Scope, snapshot_id: str) -> AsyncIterator[AsyncIterator[SnapshotStatus]]:
    """An iterator over the row's statuses; leaving the context frees the listener."""
    path = row_path(shelf.require_scope(scope), snapshot_id)
    async with shelf.database.watch(path) as deliveries:
        mailbox = _Mailbox()
        pump = asyncio.create_task(mailbox.fill(deliveries))
        try:
            yield _statuses(shelf, scope, snapshot_id, mailbox)
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)


@asynccontextmanager
async def watch_row_ids(shelf: Shelf, query: Query) -> AsyncIterator[AsyncIterator[list[str]]]:
    """Ids of the rows that the documents which `query` finds are or belong to; some repeatedly."""
    async with shelf.database.watch(query) as deliveries:
        yield _row_ids(deliveries)


async def _row_ids(deliveries: AsyncIterator[list[Document | None]]) -> AsyncIterator[list[str]]:
    async for documents in deliveries:
        yield [str(document.fields["snapshotId"]) for document in documents if document is not None]


class _Mailbox:
    """Holds the newest delivery only."""

    def __init__(self) -> None:
        self._document: Document | None = None
        self.is_ended = False
        self._arrived = asyncio.Event()

    async def fill(self, deliveries: AsyncIterator[list[Document | None]]) -> None:
        """Until the deliveries end, as they do when the store is closed. Where they fail the reader looks by itself."""
        try:
            async for documents in deliveries:
                self._document = documents[-1] if documents else None
                self._arrived.set()
            self.is_ended = True
        except StoreError:
            self._document = None
        finally:
            self._arrived.set()

    async def take(self, patience: float) -> Document | None:
        """The newest delivery; None where none of an existing document came within `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                await self._arrived.wait()
        except TimeoutError:
            return None
        self._arrived.clear()
        return self._document


class _Look(NamedTuple):
    """A row as it was found, its status, and the seconds until it is worth a read of its own. `is_gone`: a read has
    found no such row."""

    row: Row | None
    status: SnapshotStatus
    patience: float
    is_gone: bool = False


async def _statuses(shelf: Shelf, scope: Scope, snapshot_id: str, mailbox: _Mailbox) -> AsyncIterator[SnapshotStatus]:
    """Reads the row at the start, when it would expire, and now and then; in between believes the deliveries. Ends
    without a terminal status where a row that was there is deleted."""
    last: SnapshotStatus | None = None
    seen: datetime | None = None
    delivered: Document | None = None
    while True:
        look = await _look(shelf, scope, snapshot_id, delivered)
        if look.row is not None and (seen is None or look.row.update_time >= seen):
            seen = look.row.update_time
            if look.status is not last:
                last = look.status
                yield look.status
            if look.status.is_terminal:
                return
        if mailbox.is_ended or (look.is_gone and seen is not None):
            return
        delivered = await mailbox.take(look.patience)


async def _look(shelf: Shelf, scope: Scope, snapshot_id: str, delivered: Document | None) -> _Look:
    if delivered is not None and not is_legacy(delivered):
        row = visible_row(scope, delivered, delivered.update_time)
        if row is None:
            return _Look(None, SnapshotStatus.PENDING, SLOW_POLL)
        # Counted from the row's last write, since a delivery tells no time of the database: early rather than late.
        left = seconds_to_expiry(row, delivered.update_time, shelf.staleness)
        return _Look(row, row.snapshot.status, min(SLOW_POLL, left + _MARGIN))
    try:
        read = await read_one_row(shelf, scope, snapshot_id)
    except UnavailableError:
        return _Look(None, SnapshotStatus.PENDING, _AFTER_OUTAGE)
    if read.row is None:
        return _Look(None, SnapshotStatus.PENDING, SLOW_POLL, is_gone=True)
    left = seconds_to_expiry(read.row, read.time, shelf.staleness)
    return _Look(read.row, status_at(read.row, read.time, shelf.staleness), min(SLOW_POLL, left + _MARGIN))


_AFTER_OUTAGE = 1.0  # seconds
_MARGIN = 0.05  # seconds; a read just before the expiry would only have to be repeated
