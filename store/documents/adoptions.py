"""Adopting a queued turn: at most one runner ever runs it, because tools have effects that a retry would repeat."""

from typing import Any

from store.canonical import Json, parse_stored
from store.database import SERVER_TIME, Committed, Update, Write
from store.documents.claim_checks import Ready, ready_again
from store.documents.claims import LeaseGround, footing_of, lease_of_row
from store.documents.commits import Retries, try_commit
from store.documents.loading import read_one_record, read_one_row, read_request
from store.documents.settlements import plan_release, plan_stale_settlement
from store.documents.shelf import Shelf
from store.layout.rows import Row
from store.models import Adopted, Adoption, Claim, Lease, NewSession, Scope
from store.rules.lease import is_live
from store.state import Raw


async def adopt_turn(shelf: Shelf, scope: Scope, snapshot_id: str, runner: str, attempt: str) -> Adopted | Adoption:
    """The lease of a turn that waits in a queue, with what was asked of it; else why there is nothing to run."""
    retries = Retries(shelf)
    while True:
        read = await read_one_row(shelf, scope, snapshot_id, with_request=True)
        row = read.row
        if row is None:
            return Adoption.UNKNOWN
        if row.snapshot.status.is_terminal:
            return Adoption.SETTLED
        if row.runner is not None and row.attempt == attempt:
            return await _adopted(shelf, scope, row)
        if not is_live(row, read.time, shelf.staleness):
            await _settle_stale(shelf, scope, row, attempt, retries)
            continue
        if row.runner is not None:
            return Adoption.RUNNING
        result = await try_commit(shelf, [_adoption(row, runner, attempt)])
        if not isinstance(result, Committed):
            await retries.wait(result)


def _adoption(row: Row, runner: str, attempt: str) -> Write:
    fields: dict[str, Any] = {"runner": runner, "attempt": attempt, "heartbeatAt": SERVER_TIME}
    return Update(row.document.path, fields, remove=("queuedUntil",), update_time=row.update_time)


async def _settle_stale(shelf: Shelf, scope: Scope, row: Row, attempt: str, retries: Retries) -> None:
    """A turn whose runner died, or that nobody fetched in time, has failed."""
    writes = plan_stale_settlement(scope, row, attempt)
    read = await read_one_record(shelf, scope, row.snapshot.session_id, with_copy=False)
    if read.record is not None and read.record.session.active_snapshot_id == row.snapshot.snapshot_id:
        writes.append(plan_release(scope, read.record))
    result = await try_commit(shelf, writes)
    if not isinstance(result, Committed):
        await retries.wait(result)


async def _adopted(shelf: Shelf, scope: Scope, row: Row) -> Adopted:
    request = parse_stored(await read_request(shelf, scope, row))
    claim = _claim_of(row, request)
    read = await read_one_record(shelf, scope, row.snapshot.session_id, with_copy=True)
    ready: Ready | None = None
    if read.record is not None:
        ready = await ready_again(shelf, scope, claim, read)
    expires_at = row.expires_at
    ground = LeaseGround(row.snapshot.session_id, footing_of(ready), row.request_shards, expires_at)
    lease: Lease = lease_of_row(scope, claim, ground, row, ready)
    return Adopted(lease, request.get("message"), request.get("resume"))


def _claim_of(row: Row, request: Json) -> Claim:
    message = request.get("message")
    return Claim(
        snapshot_id=row.snapshot.snapshot_id,
        attempt=row.attempt,
        session=NewSession(request["agent"]),
        session_id=row.snapshot.session_id,
        message=None if message is None else Raw.stored(message),
        snapshot_to_resume=request.get("snapshotId"),
        runner=row.runner,
        origin=row.snapshot.origin,
    )
