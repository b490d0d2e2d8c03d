"""A session's tree of snapshots, page by page."""

from store.database import Condition, Kind, Query
from store.documents.loading import found_row, read_one_record
from store.documents.pages import cursor_after, open_cursor
from store.documents.shelf import Shelf
from store.errors import SessionNotFoundError
from store.layout.rows import METADATA_FIELDS
from store.models import Scope, SnapshotPage
from store.rules.lease import status_at


async def list_snapshots(
    shelf: Shelf, scope: Scope, session_id: str, limit: int, cursor: str | None = None
) -> SnapshotPage:
    """Two round trips: the session, which must be the caller's, and one query of `limit` rows without payloads; and one
    more for each row that Genkit wrote."""
    start_after = open_cursor(cursor)
    if (await read_one_record(shelf, scope, session_id, with_copy=False)).record is None:
        raise SessionNotFoundError(session_id)
    query = Query(
        Kind.SNAPSHOTS,
        scope.tenant,
        (Condition("sessionId", "==", session_id),),
        order=(("createdAt", False),),
        start_after=start_after,
        limit=limit,
        mask=METADATA_FIELDS,
    )
    found = await shelf.database.query(query)
    rows = [await found_row(shelf, scope, document, found.time) for document in found.documents]
    snapshots = tuple(row.as_snapshot(status_at(row, found.time, shelf.staleness)) for row in rows if row is not None)
    is_full = len(found.documents) == limit
    return SnapshotPage(snapshots, cursor_after(found.documents[-1], "createdAt") if is_full else None)
