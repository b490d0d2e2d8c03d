"""Claiming a session's turn: the one commit that takes the lease, and what its answer means."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from store.database import SERVER_TIME, Committed, CommitUnansweredError, Create, Delete, Update, Write
from store.documents.claim_checks import Ready, check_claim, check_size, is_available, ready_again, require_model
from store.documents.commits import Retries, expiry_fields, shard_writes, try_commit, write_ahead
from store.documents.legacy import UnconvertedSessionError
from store.documents.loading import read_one_record, read_one_row
from store.documents.requests import RequestPlan, plan_request
from store.documents.settlements import plan_stale_settlement
from store.documents.shelf import Shelf, record_path, row_path, shard_path
from store.errors import (
    InvalidRequestError,
    LeaseLostError,
    SessionNotFoundError,
    SnapshotNotFoundError,
    StoreError,
    TranscriptStaleError,
    UnavailableError,
)
from store.ids import mint_id, require_id, require_message_id, require_session_id, session_id_of_first_message
from store.layout.fields import FORMAT_VERSION, present
from store.layout.heads import Footing
from store.layout.rows import Row, snapshot_fields
from store.models import Claim, Lease, NewSession, Origin, SameSend, Scope, Snapshot, SnapshotStatus
from store.rules.fields import require_claim_fields
from store.rules.history import preview_of
from store.rules.retention import bucket_of, due_at
from store.state import EMPTY


@dataclass(frozen=True, slots=True)
class LeaseGround:
    """What a lease's settle needs besides the outcome. `session_id` is the stored one, not what the lease tells."""

    session_id: str
    footing: Footing
    request_shards: tuple[str, ...] = ()
    expires_at: datetime | None = None


async def claim_turn(shelf: Shelf, scope: Scope, claim: Claim) -> Lease | SameSend:
    """The session's turn, or the turn that this very message already has."""
    _require_claim(shelf, scope, claim)
    claim = await _with_session(shelf, scope, claim)
    request = plan_request(claim, shelf.options.shard_size)
    try:
        answer = await _claim(shelf, scope, claim, request)
    except UnavailableError:
        raise  # the row may be there after all, and need its shards
    except StoreError:
        await _withdraw(shelf, scope, request)
        raise
    if isinstance(answer, SameSend):
        await _withdraw(shelf, scope, request)
    return answer


async def _withdraw(shelf: Shelf, scope: Scope, request: RequestPlan) -> None:
    """Deletes the shards that were written ahead for a claim that was not granted; what fails here, the sweep does."""
    if sum(len(stored.content) for stored in request.shards.values()) > shelf.options.commit_size:
        await try_commit(shelf, [Delete(shard_path(scope.tenant, shard_id)) for shard_id in request.shards])


async def _claim(shelf: Shelf, scope: Scope, claim: Claim, request: RequestPlan) -> Lease | SameSend:
    if claim.session_id is not None:
        return await _claim_existing(shelf, scope, claim, request)
    session_id = new_session_id(scope, claim)
    lease = await _open_session(shelf, scope, session_id, claim, request)
    if lease is not None:
        return lease
    # An earlier send of this very message has opened the session.
    return await _claim_existing(shelf, scope, replace(claim, session_id=session_id), request)


def _require_claim(shelf: Shelf, scope: Scope, claim: Claim) -> None:
    shelf.require_scope(scope)
    require_claim_fields(claim)
    require_id(claim.snapshot_id, "snapshotId")
    if claim.session_id is not None:
        require_session_id(claim.session_id)
    if claim.snapshot_to_resume is not None:
        require_id(claim.snapshot_to_resume, "snapshotId")
    if claim.session.is_temporary:
        raise InvalidRequestError("A turn cannot make a temporary session: it has to be created before.")
    asked = [part for part in (claim.message, claim.resume) if part is not None]
    if len(asked) != (0 if claim.origin is Origin.COMPACT else 1):
        raise InvalidRequestError("A turn takes either a message or a resume, a compaction neither.")
    if claim.message is not None:
        require_message_id(claim.message.key)


async def _with_session(shelf: Shelf, scope: Scope, claim: Claim) -> Claim:
    """A claim that names a snapshot alone belongs to that snapshot's session. SnapshotNotFoundError."""
    if claim.session_id is not None or claim.snapshot_to_resume is None:
        return claim
    read = await read_one_row(shelf, scope, claim.snapshot_to_resume)
    if read.row is None:
        raise SnapshotNotFoundError(claim.snapshot_to_resume)
    return replace(claim, session_id=read.row.snapshot.session_id)


def new_session_id(scope: Scope, claim: Claim) -> str:
    """The id of the session that a claim opens: as asked, or told by its message, so that a resend finds it."""
    if claim.new_session_id is not None:
        return require_session_id(claim.new_session_id)
    if claim.message_id is None:
        return mint_id()
    return session_id_of_first_message(scope.tenant, scope.user, claim.message_id)


async def _open_session(
    shelf: Shelf, scope: Scope, session_id: str, claim: Claim, request: RequestPlan
) -> Lease | SameSend | None:
    """Creates session and row in one commit; None where the session exists."""
    check_size(shelf, None, claim)
    _require_no_tail(claim)
    if not is_available(claim.session.model, claim.models):
        if (await read_one_record(shelf, scope, session_id, with_copy=False)).record is None:
            require_model(claim.session.model, claim.models)
        return None
    queued_until = None
    if claim.queue_seconds is not None:  # counted from a time of the database, which a first claim does not know yet
        now = (await read_one_record(shelf, scope, session_id, with_copy=False)).time
        queued_until = now + timedelta(seconds=claim.queue_seconds)
    created = {"createdAt": SERVER_TIME, "dueAt": SERVER_TIME, **record_identity(scope, session_id, claim.session)}
    active = active_fields(claim, SERVER_TIME)
    row = _row_fields(scope, session_id, claim, request, None, None) | present(queuedUntil=queued_until)
    writes: list[Write] = [
        Create(record_path(scope, session_id), created | active),
        Create(row_path(scope, claim.snapshot_id), row),
    ]
    writes += await write_ahead(shelf, shard_writes(scope.tenant, session_id, request.shards, None))
    retries = Retries(shelf)
    while True:
        result = await try_commit(shelf, writes)
        ground = LeaseGround(session_id, Footing(), tuple(request.shards))
        if isinstance(result, Committed):
            return _lease(scope, session_id, claim, ground, result.server_time, result.update_times[1], None)
        own = await own_row(shelf, scope, claim)
        if own is not None:
            return _answer_of(scope, claim, ground, own, None)
        if not isinstance(result, CommitUnansweredError):
            return None
        await retries.wait(result)


def _require_no_tail(claim: Claim) -> None:
    if claim.message is None:
        raise InvalidRequestError("A turn that continues another one needs its sessionId.")
    if claim.check_tail and claim.last_message_id is not None:
        raise TranscriptStaleError(None)  # the transcript of a session that is yet to be made is empty


async def _claim_existing(shelf: Shelf, scope: Scope, claim: Claim, request: RequestPlan) -> Lease | SameSend:
    assert claim.session_id is not None
    session_id = claim.session_id
    retries = Retries(shelf)
    while True:
        with_copy = not shelf.cache.has_head(scope.tenant, session_id)
        read = await read_one_record(shelf, scope, session_id, with_copy=with_copy)
        if read.record is None:
            raise SessionNotFoundError(session_id)
        if read.record.session.active_snapshot_id == claim.snapshot_id:
            ready: Ready | SameSend = await ready_again(shelf, scope, claim, read)
        else:
            ready = await check_claim(shelf, scope, claim, read.record, read)
        if isinstance(ready, SameSend):
            return ready
        if ready.record.is_legacy:
            raise UnconvertedSessionError(session_id)
        expires_at = read.record.session.expires_at
        ahead = await write_ahead(shelf, shard_writes(scope.tenant, session_id, request.shards, expires_at))
        result = await try_commit(shelf, [*_claim_writes(scope, claim, request, ready), *ahead])
        ground = LeaseGround(session_id, footing_of(ready), tuple(request.shards), expires_at)
        if isinstance(result, Committed):
            created_at = ready.record.next_created_at(ready.time)
            return _lease(scope, session_id, claim, ground, created_at, result.update_times[1], ready)
        own = await own_row(shelf, scope, claim)
        if own is not None:
            return _answer_of(scope, claim, ground, own, ready)
        await retries.wait(result)


def footing_of(ready: Ready | None) -> Footing:
    """What a claimed turn's state will be stored on."""
    if ready is None:
        return Footing()
    return Footing(ready.parent, ready.parent_is_head, ready.record.tail_bytes, ready.record.has_base)


async def own_row(shelf: Shelf, scope: Scope, claim: Claim) -> Row | None:
    """The row of this very claim, where its commit landed after all. Who fetches a turn from the queue gives its row
    another attempt, perhaps before the claim's own answer has arrived."""
    row = (await read_one_row(shelf, scope, claim.snapshot_id)).row
    is_own = row is not None and (row.attempt == claim.attempt or claim.queue_seconds is not None)
    return row if is_own else None


def _answer_of(scope: Scope, claim: Claim, ground: LeaseGround, own: Row, ready: Ready | None) -> Lease | SameSend:
    """What a claim is told that has found its row."""
    snapshot = own.snapshot
    if own.attempt != claim.attempt:
        return SameSend(snapshot.session_id, snapshot.snapshot_id, is_running=not snapshot.status.is_terminal)
    return lease_of_row(scope, claim, ground, own, ready)


def _claim_writes(scope: Scope, claim: Claim, request: RequestPlan, ready: Ready) -> list[Write]:
    record = ready.record
    created_at = record.next_created_at(ready.time)
    expires_at = record.session.expires_at
    active = active_fields(claim, created_at) | {"dueAt": due_at(ready.time, expires_at)}
    without = tuple(name for name in ("activeMessageId", "activeMessageDigest") if name not in active)
    row = _row_fields(scope, record.session.id, claim, request, ready, created_at)
    writes: list[Write] = [
        Update(record.document.path, active, remove=without, update_time=record.update_time),
        Create(row_path(scope, claim.snapshot_id), row | expiry_fields(expires_at) | _queue_fields(claim, ready.time)),
    ]
    if ready.stale is not None:
        writes += plan_stale_settlement(scope, ready.stale, claim.attempt)
    return writes


def _queue_fields(claim: Claim, now: datetime) -> dict[str, Any]:
    return {} if claim.queue_seconds is None else {"queuedUntil": now + timedelta(seconds=claim.queue_seconds)}


def record_identity(scope: Scope, session_id: str, new: NewSession) -> dict[str, Any]:
    """The fields that a session document is created with and keeps."""
    return present(
        formatVersion=FORMAT_VERSION,
        id=session_id,
        ownerId=scope.user,
        agent=new.agent,
        model=new.model,
        title=new.title,
        temporary=new.is_temporary,
        bucket=bucket_of(session_id),
        messageCount=0,
        branchedFrom=None if new.branched_from is None else dict(new.branched_from),
    )


def active_fields(claim: Claim, created_at: Any) -> dict[str, Any]:
    """The session's side of a lease: the row that is its turn, now the latest one."""
    return present(
        activeSnapshotId=claim.snapshot_id,
        activeMessageId=claim.message.key if claim.message else None,
        activeMessageDigest=claim.message.digest if claim.message else None,
        claimedAt=SERVER_TIME,
        currentSnapshotId=claim.snapshot_id,
        currentCreatedAt=created_at,
        latestCreatedAt=created_at,
        updatedAt=SERVER_TIME,
    )


def _row_fields(
    scope: Scope, session_id: str, claim: Claim, request: RequestPlan, ready: Ready | None, created_at: datetime | None
) -> dict[str, Any]:
    parent = ready.parent if ready else None
    is_retry = bool(ready and ready.stale and ready.stale.snapshot.message_id == claim.message_id is not None)
    snapshot = Snapshot(
        session_id=session_id,
        snapshot_id=claim.snapshot_id,
        parent_id=parent.snapshot_id if parent else None,
        origin=claim.origin,
        status=SnapshotStatus.PENDING,
        model=ready.record.session.model if ready else claim.session.model,
        created_at=created_at,
        message_id=claim.message.key if claim.message else None,
        message_text=preview_of(claim.message),
    )
    return (
        snapshot_fields(snapshot, scope.user, claim.attempt)
        | request.fields
        | {"heartbeatAt": SERVER_TIME}
        | present(
            runner=claim.runner,
            messageDigest=claim.message.digest if claim.message else None,
            retryOf=ready.stale.snapshot.snapshot_id if ready and ready.stale and is_retry else None,
        )
    )


def _lease(
    scope: Scope,
    session_id: str,
    claim: Claim,
    ground: LeaseGround,
    created_at: datetime,
    version: datetime | None,
    ready: Ready | None,
) -> Lease:
    parent = ground.footing.parent
    head = ready.record.head if ready and ready.parent_is_head else None
    return Lease(
        scope=scope,
        session_id=session_id,
        snapshot_id=claim.snapshot_id,
        attempt=claim.attempt,
        parent_id=parent.snapshot_id if parent else None,
        state=parent.state if parent else EMPTY,
        model=ready.record.session.model if ready else claim.session.model,
        created_at=created_at,
        version=version,
        ground=ground,
        origin=claim.origin,
        message_id=claim.message.key if claim.message else None,
        message_text=preview_of(claim.message),
        parent_usage=head.snapshot.usage if head else None,
        is_new_session=ready is None,
        took_over=ready is not None and ready.stale is not None,
        is_untitled=not (ready.record.session.title if ready else claim.session.title),
    )


def lease_of_row(scope: Scope, claim: Claim, ground: LeaseGround, own: Row, ready: Ready | None) -> Lease:
    """The lease of a claim whose answer was lost, that an abort has met on its way back, or that waited in a queue."""
    if own.snapshot.status.is_terminal:
        raise LeaseLostError(claim.snapshot_id)
    created_at = own.snapshot.created_at
    assert created_at is not None  # every stored row has one; read_row has seen to it
    lease = _lease(scope, own.snapshot.session_id, claim, ground, created_at, own.update_time, ready)
    lease.is_aborting = own.snapshot.status is SnapshotStatus.ABORTING
    return lease
