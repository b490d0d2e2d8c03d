"""GET /snapshot: one row, at once or as soon as it is settled."""

import asyncio

from starlette.responses import Response

from functions.handlers.context import Context
from functions.replies import JsonReply, snapshot_reply
from functions.wire.queries import SnapshotQuery
from functions.wiring import FullStore
from store.errors import SessionNotFoundError, SnapshotNotFoundError
from store.models import Scope, Snapshot


async def snapshot(context: Context) -> Response:
    """By snapshot, or the session's latest; with `wait` the one that is latest at the start."""
    query = context.query(SnapshotQuery)
    store, scope = context.application.store, context.scope
    wait = min(query.wait, context.application.settings.wait_max)
    snapshot_id = query.snapshot_id
    if wait > 0:
        snapshot_id = snapshot_id or (await latest(store, scope, query.session_id, metadata_only=True)).snapshot_id
        await context.application.engine.until_closing(_wait(store, scope, snapshot_id, wait))
    if snapshot_id is None:
        return JsonReply(snapshot_reply(await latest(store, scope, query.session_id, query.metadata_only)))
    read = store.get_snapshot_metadata if query.metadata_only else store.get_snapshot
    found = await read(scope, snapshot_id)
    if found is None:
        raise SnapshotNotFoundError(snapshot_id)
    return JsonReply(snapshot_reply(found))


async def latest(store: FullStore, scope: Scope, session_id: str | None, metadata_only: bool) -> Snapshot:
    """A session's latest snapshot. SessionNotFoundError."""
    assert session_id is not None  # the model has seen to it
    read = store.get_latest_snapshot_metadata if metadata_only else store.get_latest_snapshot
    found = await read(scope, session_id)
    if found is None:
        raise SessionNotFoundError(session_id)
    return found


async def _wait(store: FullStore, scope: Scope, snapshot_id: str, seconds: float) -> None:
    """Returns once the row is settled or expired, or the time is over. A missing row is told at once."""
    if await store.get_snapshot_metadata(scope, snapshot_id) is None:
        raise SnapshotNotFoundError(snapshot_id)
    try:
        async with asyncio.timeout(seconds), store.on_snapshot_status_change(scope, snapshot_id) as statuses:
            async for status in statuses:
                if status.is_terminal:
                    return
    except TimeoutError:
        return
