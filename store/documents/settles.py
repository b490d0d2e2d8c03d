"""Settling a turn: the one commit that publishes it and gives the lease back.

The row's update time is the fencing token. Whoever else accepted the lease has settled the row, so that this commit is
refused; after a refusal, or an answer that was lost, the row itself says which of the three it was.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from store.database import SERVER_TIME, Committed, Delete, Update, Write
from store.documents.apart import apart, work_on
from store.documents.claims import LeaseGround
from store.documents.commits import Retries, shard_writes, try_commit, write_ahead
from store.documents.loading import RowRead, read_one_row
from store.documents.requests import token_of
from store.documents.settlements import END_FIELDS, REQUEST_FIELDS
from store.documents.shelf import Shelf, record_path, row_path, shard_path
from store.documents.streams import delete_segments, last_segment_writes
from store.errors import LeaseLostError, SessionNotFoundError, StateTooLargeError, UnavailableError
from store.layout.fields import present
from store.layout.heads import HeadPlan, plan_head
from store.layout.records import LEASE_FIELDS, head_field
from store.layout.rows import Row, error_field, state_fields
from store.models import Lease, Outcome, Snapshot, SnapshotStatus
from store.rules.history import last_message_id, messages_of
from store.rules.retention import due_at, is_expired
from store.rules.settle import as_aborted, require_outcome

_RUNNING_FIELDS = (*REQUEST_FIELDS, "heartbeatAt")  # the last beat of a turn that its owner ended tells nothing


async def settle_turn(shelf: Shelf, lease: Lease, outcome: Outcome) -> Snapshot:
    """Publishes the turn. Keeps trying for as long as the lease can be alive: what an agent has done is not given up
    for a short outage."""
    require_outcome(outcome)
    if outcome.state is not None and outcome.state.size > shelf.options.max_state_size:
        raise StateTooLargeError(outcome.state.size, shelf.options.max_state_size)
    retries = Retries(shelf, seconds=shelf.options.lease_staleness)
    earlier: tuple[str, ...] = ()
    while True:
        if lease.is_aborting:
            outcome = as_aborted(outcome)
        plan = await _plan(shelf, lease, outcome)
        ahead = await _write_shards(shelf, lease, outcome, plan)
        result = await try_commit(shelf, [*_settle_writes(lease, outcome, plan, earlier), *ahead])
        if isinstance(result, Committed):
            _require_unexpired(lease, result.server_time)
            return _settled(shelf, lease, outcome, plan, result.server_time)
        own = await _question(shelf, lease, result, retries, [] if ahead else _shards_of(plan))
        if own.snapshot.status.is_terminal:
            return _settled(shelf, lease, outcome, plan, own.snapshot.updated_at)
        earlier = own.own_shards  # of a state that a save has given the running row
        lease.version = own.update_time
        lease.is_aborting = own.snapshot.status is SnapshotStatus.ABORTING
        await retries.wait(result)


def _require_unexpired(lease: Lease, now: datetime) -> None:
    """A turn that outlives its temporary session has settled into nothing, and is told so."""
    ground: LeaseGround = lease.ground
    if is_expired(ground.expires_at, now):
        raise SessionNotFoundError(lease.ground.session_id)


async def _question(
    shelf: Shelf, lease: Lease, doubt: Exception, retries: Retries, written_ahead: Sequence[str]
) -> Row:
    """The turn's own row, still ours or settled by us; LeaseLostError where it is neither, SessionNotFoundError where
    the session has expired."""
    read = await read_own_row(shelf, lease, doubt, retries)
    row = read.row
    if row is None:
        await _leave_nothing(shelf, lease, written_ahead)
        _require_unexpired(lease, read.time)
    if row is None or row.attempt != lease.attempt:
        raise LeaseLostError(lease.snapshot_id)
    if row.snapshot.status.is_terminal and row.settled_by != lease.attempt:
        raise LeaseLostError(lease.snapshot_id)
    return row


async def _leave_nothing(shelf: Shelf, lease: Lease, shard_ids: Sequence[str]) -> None:
    """The session was deleted under its turn: what the turn has written since, nobody else would look for."""
    with suppress(UnavailableError):
        await delete_segments(shelf, lease.scope, lease.snapshot_id)
    if shard_ids:
        await try_commit(shelf, [Delete(shard_path(lease.scope.tenant, shard_id)) for shard_id in shard_ids])


def _shards_of(plan: HeadPlan | None) -> list[str]:
    return list(plan.storage.shards) if plan else []


async def read_own_row(shelf: Shelf, lease: Lease, doubt: Exception, retries: Retries) -> RowRead:
    """The turn's own row, asked for until the database answers or `retries` are used up."""
    while True:
        try:
            return await read_one_row(shelf, lease.scope, lease.snapshot_id)
        except UnavailableError:
            await retries.wait(doubt)


async def _plan(shelf: Shelf, lease: Lease, outcome: Outcome) -> HeadPlan | None:
    state = outcome.state
    if state is None:
        return None
    shape, footing, token = shelf.options.shape, lease.ground.footing, token_of(lease.attempt)
    return await apart(
        work_on(state, footing.parent), lambda: plan_head(shape, lease.snapshot_id, token, footing, state)
    )


async def _write_shards(shelf: Shelf, lease: Lease, outcome: Outcome, plan: HeadPlan | None) -> list[Write]:
    """The writes besides row and session: the state's shards and the end of the event log."""
    ground: LeaseGround = lease.ground
    shards = plan.storage.shards if plan else {}
    sized = shard_writes(lease.scope.tenant, ground.session_id, shards, ground.expires_at)
    return await write_ahead(shelf, [*sized, *last_segment_writes(lease, outcome)])


def _settle_writes(
    lease: Lease, outcome: Outcome, plan: HeadPlan | None, earlier_shards: tuple[str, ...]
) -> list[Write]:
    ground: LeaseGround = lease.ground
    row: dict[str, Any] = {"status": outcome.status.value, "settledBy": lease.attempt, "updatedAt": SERVER_TIME}
    row |= present(
        finishReason=outcome.finish_reason,
        error=error_field(outcome.error),
        usage=None if outcome.usage is None else dict(outcome.usage),
        eventCount=outcome.event_count or None,
        lastMessageId=last_message_id(outcome.state),
    )
    if plan is not None:
        row |= state_fields(_snapshot(lease, outcome, None), plan.storage)
    remove = (*_RUNNING_FIELDS, *(name for name in END_FIELDS if name not in row))
    writes: list[Write] = [
        Update(row_path(lease.scope, lease.snapshot_id), row, remove=remove, update_time=lease.version),
        _record_write(lease, outcome, plan),
    ]
    obsolete = (*ground.request_shards, *earlier_shards)
    return [*writes, *(Delete(shard_path(lease.scope.tenant, shard_id)) for shard_id in obsolete)]


def _record_write(lease: Lease, outcome: Outcome, plan: HeadPlan | None) -> Write:
    """The session's side. It needs no precondition of its own: who else takes the lease away settles the row too."""
    ground: LeaseGround = lease.ground
    fields: dict[str, Any] = {"updatedAt": SERVER_TIME, "dueAt": due_at(lease.created_at, ground.expires_at)}
    if outcome.auto_title:
        fields["autoTitle"] = outcome.auto_title
    path = record_path(lease.scope, ground.session_id)
    if plan is None or outcome.state is None:
        return Update(path, fields, remove=LEASE_FIELDS)
    fields |= head_fields(_snapshot(lease, outcome, None), plan)
    return Update(path, fields, remove=(*LEASE_FIELDS, *plan.remove, *without_tail(outcome)), append=plan.append)


def without_tail(outcome: Outcome) -> tuple[str, ...]:
    """The field that an empty transcript does not have."""
    return () if last_message_id(outcome.state) is not None else ("lastMessageId",)


def head_fields(snapshot: Snapshot, plan: HeadPlan) -> dict[str, Any]:
    """The session document's fields for a new head; `snapshot` carries its state."""
    return plan.fields | present(
        headSnapshotId=snapshot.snapshot_id,
        head=head_field(snapshot, plan.storage.chain, plan.storage.runs),
        headUpdatedAt=snapshot.updated_at or SERVER_TIME,
        lastMessageId=last_message_id(snapshot.state),
        messageCount=len(messages_of(snapshot.state)),
    )


def _settled(
    shelf: Shelf, lease: Lease, outcome: Outcome, plan: HeadPlan | None, updated_at: datetime | None
) -> Snapshot:
    if plan is not None and outcome.state is not None:
        ground = plan.storage.ground(outcome.state)
        shelf.cache.replace_head(lease.scope.tenant, lease.ground.session_id, ground)
    return _snapshot(lease, outcome, updated_at)


def _snapshot(lease: Lease, outcome: Outcome, updated_at: datetime | None) -> Snapshot:
    return Snapshot(
        session_id=lease.ground.session_id,
        snapshot_id=lease.snapshot_id,
        parent_id=lease.parent_id,
        origin=lease.origin,
        status=outcome.status,
        state=outcome.state,
        finish_reason=outcome.finish_reason,
        error=outcome.error,
        usage=outcome.usage,
        model=lease.model,
        created_at=lease.created_at,
        updated_at=updated_at,
        message_id=lease.message_id,
        message_text=lease.message_text,
        last_message_id=last_message_id(outcome.state),
        event_count=outcome.event_count or None,
    )
