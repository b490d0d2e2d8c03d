"""Whether a claim may have the session's turn, and what the turn would continue from. Writes nothing."""

import math
from dataclasses import dataclass
from datetime import datetime

from store.database import Condition, Kind, Query
from store.documents.loading import RecordRead, RowRead, load_head, load_row_state, read_one_row, visible_row
from store.documents.shelf import Shelf
from store.errors import (
    DataLossError,
    MessageIdConflictError,
    ModelStaleError,
    ModelUnavailableError,
    NotResumableError,
    SnapshotNotFoundError,
    StateTooLargeError,
    TranscriptStaleError,
    TurnBusyError,
)
from store.layout import rows
from store.layout.chain import Ground
from store.layout.records import Record
from store.layout.rows import Row
from store.models import Claim, SameSend, Scope, SnapshotStatus
from store.rules.history import has_message, require_room
from store.rules.lease import RETRY_AFTER_SECONDS, is_live, is_resumable, seconds_to_expiry, status_at
from store.state import EMPTY


@dataclass(frozen=True, slots=True)
class Ready:
    """A claim that passed: what its turn continues from, and the stale row that it takes the lease over from."""

    record: Record
    time: datetime
    parent: Ground | None
    stale: Row | None

    @property
    def parent_is_head(self) -> bool:
        """Whether the turn continues the session's head (or starts the session), not another row."""
        head = self.record.head
        return (head and head.snapshot.snapshot_id) == (self.parent and self.parent.snapshot_id)


async def check_claim(shelf: Shelf, scope: Scope, claim: Claim, record: Record, read: RecordRead) -> Ready | SameSend:
    """The order of API.md: this very send running, stale, busy, model; then what needs the state."""
    active = await _same_send_running(shelf, scope, claim, record, read.time)
    if isinstance(active, SameSend):
        return active
    resumed = await _resumed_row(shelf, scope, claim, record)
    earlier = await _check_tail(shelf, scope, claim, read, resumed)
    if earlier is not None:
        return earlier
    stale = await _stale_row(shelf, scope, read, active)
    if claim.model is not None and claim.model != record.session.model:
        raise ModelStaleError(record.session.model)
    require_model(record.session.model, claim.models)
    parent = await _parent(shelf, scope, read, resumed)
    if claim.message_id is not None and parent is not None and has_message(parent.state, claim.message_id):
        return await _same_send_settled(shelf, scope, claim, read) or _conflict(claim.message_id)
    check_size(shelf, parent, claim)
    if claim.accept is not None:
        claim.accept(parent.state if parent else EMPTY)
    return Ready(record, read.time, parent, stale)


async def ready_again(shelf: Shelf, scope: Scope, claim: Claim, read: RecordRead) -> Ready:
    """What a claim continues from whose commit landed late: the session names its row, hence its head has not moved.
    The repeated commit will be refused, and its row be found."""
    assert read.record is not None
    resumed = await _resumed_row(shelf, scope, claim, read.record)
    return Ready(read.record, read.time, await _parent(shelf, scope, read, resumed), None)


def require_model(model: str | None, models: frozenset[str] | None) -> None:
    """ModelUnavailableError where the session's model is not one of those that can be used."""
    if model is not None and not is_available(model, models):
        raise ModelUnavailableError(model)


def is_available(model: str | None, models: frozenset[str] | None) -> bool:
    """Whether a turn can run on `model`, where None is whatever the agent takes."""
    return model is None or models is None or model in models


def check_size(shelf: Shelf, parent: Ground | None, claim: Claim) -> None:
    """Refuses a message that the state cannot take, before an agent has worked for nothing."""
    require_room(parent.state if parent else EMPTY, shelf.options.max_messages)
    size = (parent.state.size if parent else 0) + (len(claim.message.text) if claim.message else 0)
    if size > shelf.options.max_state_size:
        raise StateTooLargeError(size, shelf.options.max_state_size)


def _conflict(message_id: str) -> SameSend:
    raise MessageIdConflictError(message_id)


async def _same_send_running(
    shelf: Shelf, scope: Scope, claim: Claim, record: Record, time: datetime
) -> SameSend | RowRead | None:
    """The running turn of this very message; else the active row where it had to be read."""
    active_id = record.session.active_snapshot_id
    if active_id is None or claim.message_id is None or record.active_message_id != claim.message_id:
        return None
    read = await read_active(shelf, scope, record, time)
    if read.row is None or not is_live(read.row, read.time, shelf.staleness):
        return read
    if claim.message is None or claim.message.digest != record.active_message_digest:
        raise MessageIdConflictError(claim.message_id)
    return SameSend(record.session.id, active_id, is_running=True)


async def _resumed_row(shelf: Shelf, scope: Scope, claim: Claim, record: Record) -> RowRead | None:
    if claim.snapshot_to_resume is None:
        return None
    read = await read_one_row(shelf, scope, claim.snapshot_to_resume)
    if read.row is None or read.row.snapshot.session_id != record.session.id:
        raise SnapshotNotFoundError(claim.snapshot_to_resume)
    if not is_resumable(read.row):
        status = status_at(read.row, read.time, shelf.staleness)
        raise NotResumableError(claim.snapshot_to_resume, status)
    return read


async def _check_tail(
    shelf: Shelf, scope: Scope, claim: Claim, read: RecordRead, resumed: RowRead | None
) -> SameSend | None:
    """The stale-write guard. An earlier send of the same message explains an outdated tail, and is the answer."""
    assert read.record is not None
    row = resumed.row if resumed else None
    tail = row.snapshot.last_message_id if row else read.record.session.last_message_id
    is_stale = claim.check_tail and tail != claim.last_message_id
    if claim.message_id is not None and (is_stale or resumed):
        earlier = await _same_send_settled(shelf, scope, claim, read)
        if earlier is not None:
            return earlier
    if is_stale:
        raise TranscriptStaleError(tail)
    return None


async def _same_send_settled(shelf: Shelf, scope: Scope, claim: Claim, read: RecordRead) -> SameSend | None:
    """The settled turn of the same message, where the transcript still has that message: a truncate frees the ids that
    it removes. MessageIdConflictError where the message is another one."""
    assert read.record is not None
    session_id = read.record.session.id
    where = (Condition("sessionId", "==", session_id), Condition("messageId", "==", claim.message_id))
    found = await shelf.database.query(Query(Kind.SNAPSHOTS, scope.tenant, where, mask=rows.METADATA_FIELDS))
    visible = [visible_row(scope, document, found.time) for document in found.documents]
    settled = [row for row in visible if row and is_resumable(row)]
    if not settled or claim.message is None or claim.message_id is None:
        return None
    head = await load_head(shelf, scope, read)
    if head is None or not has_message(head.state, claim.message_id):
        return None
    same = [row for row in settled if row.message_digest == claim.message.digest]
    if not same:
        raise MessageIdConflictError(claim.message_id)
    newest = max(same, key=lambda row: (row.snapshot.created_at, row.snapshot.snapshot_id))
    return SameSend(session_id, newest.snapshot.snapshot_id, is_running=False)


async def _stale_row(shelf: Shelf, scope: Scope, read: RecordRead, active: RowRead | None) -> Row | None:
    """The row whose stale lease is there to be taken over; TurnBusyError where the lease is alive."""
    if read.record is None or read.record.session.active_snapshot_id is None:
        return None
    active = active or await read_active(shelf, scope, read.record, read.time)
    return await require_stale(shelf, scope, read.record.session.active_snapshot_id, active)


async def read_active(shelf: Shelf, scope: Scope, record: Record, time: datetime) -> RowRead:
    """The row that holds the lease of a session that was read at `time`, None where it has gone since, with its
    session; DataLossError where it was not there then."""
    active_id = record.session.active_snapshot_id
    assert active_id is not None  # the caller has seen to it
    read = await read_one_row(shelf, scope, active_id)
    if read.row is None and (await read_one_row(shelf, scope, active_id, at=time)).row is None:
        raise DataLossError(record.name, f"the snapshot of its turn, {active_id!r}, is missing")
    if read.row is not None and read.row.snapshot.session_id != record.session.id:
        raise DataLossError(record.name, f"the snapshot of its turn, {active_id!r}, is another session's")
    return read


async def require_stale(shelf: Shelf, scope: Scope, active_id: str, read: RowRead | None = None) -> Row | None:
    """The active row where its owner is gone, None where it is settled meanwhile; TurnBusyError where it lives."""
    read = read or await read_one_row(shelf, scope, active_id)
    row = read.row
    if row is None or row.snapshot.status.is_terminal:
        return None  # settled since the session was read: the commit's precondition will notice, and all is asked again
    if is_live(row, read.time, shelf.staleness):
        raise TurnBusyError(active_id, _retry_after(shelf, row, read.time))
    return row


def _retry_after(shelf: Shelf, row: Row, now: datetime) -> int:
    """Soon while the owner beats; not before the lease expires once beats are missing."""
    left = seconds_to_expiry(row, now, shelf.staleness)
    if row.snapshot.status is SnapshotStatus.PENDING and left < shelf.options.lease_staleness / 2:
        return max(1, math.ceil(left))
    return RETRY_AFTER_SECONDS


async def _parent(shelf: Shelf, scope: Scope, read: RecordRead, resumed: RowRead | None) -> Ground | None:
    if resumed is None or resumed.row is None:
        return await load_head(shelf, scope, read)
    return await load_row_state(shelf, scope, resumed.row, resumed.time)
