"""`save_snapshot`: an atomic read-modify-write of one row, outside of turns but under the same lease."""

import inspect
from dataclasses import dataclass, replace

from store.database import Committed, Document
from store.documents.commits import Retries, shard_writes, try_commit, write_ahead
from store.documents.conversions import convert
from store.documents.loading import (
    RecordRead,
    RowRead,
    found_record,
    found_row,
    load_head,
    load_row_state,
    read_one_row,
)
from store.documents.save_writes import SaveInput, SavePlan, plan_save, with_times
from store.documents.shelf import Shelf, record_path, row_path
from store.errors import (
    DataLossError,
    InvalidRequestError,
    SessionNotFoundError,
    SnapshotNotFoundError,
    SnapshotSettledError,
    StoreError,
)
from store.layout.chain import Ground
from store.layout.rows import Row
from store.models import Change, NewSession, Scope, Snapshot
from store.rules.saves import is_heartbeat, require_saved

UNNAMED = NewSession(agent="")


@dataclass(frozen=True, slots=True)
class SaveCall:
    """One call of `save_snapshot`: `token` tells its own commit from others' after a lost answer."""

    scope: Scope
    snapshot_id: str
    change: Change
    token: str
    new_session: NewSession
    only_in_new_session: bool


async def save_snapshot(
    shelf: Shelf,
    scope: Scope,
    snapshot_id: str | None,
    change: Change,
    new_session: NewSession = UNNAMED,
    only_in_new_session: bool = False,
) -> Snapshot | None:
    """The stored row, or None where `change` gave None. `new_session` describes a session that the save may make;
    with `only_in_new_session` nothing is written where the session exists."""
    row_id = shelf.mint() if snapshot_id is None else snapshot_id
    call = SaveCall(scope, row_id, change, shelf.mint(), new_session, only_in_new_session)
    retries = Retries(shelf)
    read = await _read_row(shelf, call)
    is_repeated = False
    while True:
        existing = await _existing(shelf, scope, read)
        given = _changed(call, existing)
        if given is None:
            return None
        saved = require_saved(existing, given, call.snapshot_id)
        if read.row is not None and read.row.is_legacy:
            raise SnapshotSettledError("A snapshot that Genkit's store wrote is kept as it is.")
        if existing is not None and existing.status.is_terminal and is_heartbeat(existing, saved):
            return existing  # nobody is left to be alive
        try:
            plan = await _plan(shelf, call, read, existing, saved)
        except StoreError:
            # What an earlier try of this very save has changed must not refuse it: that try may have landed late.
            if is_repeated and _is_own(call, read := await _read_row(shelf, call)):
                return await _existing(shelf, scope, read)
            raise
        if plan is None:
            return None
        tenant = scope.tenant
        ahead = await write_ahead(shelf, shard_writes(tenant, saved.session_id, plan.shards, plan.expires_at))
        result = await try_commit(shelf, [*plan.writes, *ahead])
        if isinstance(result, Committed):
            _remember(shelf, call, plan)
            return plan.as_stored(result.server_time)
        read = await _read_row(shelf, call)
        if _is_own(call, read):
            return await _existing(shelf, scope, read)
        await retries.wait(result)
        is_repeated = True


def _is_own(call: SaveCall, read: RowRead) -> bool:
    """Whether this very save has been made, whatever was heard of it."""
    return read.row is not None and read.row.saved_by == call.token


async def _read_row(shelf: Shelf, call: SaveCall) -> RowRead:
    """The row, refused where the id is somebody else's."""
    path = row_path(shelf.require_scope(call.scope), call.snapshot_id)
    read = await shelf.database.get([path])
    row = await found_row(shelf, call.scope, read.documents[path], read.time)
    if row is None and read.documents[path] is not None:
        raise SnapshotNotFoundError(call.snapshot_id)
    return RowRead(row, read.time)


async def _existing(shelf: Shelf, scope: Scope, read: RowRead) -> Snapshot | None:
    """The row as `change` gets it, its status as stored."""
    if read.row is None:
        return None
    ground = await load_row_state(shelf, scope, read.row, read.time)
    return replace(read.row.snapshot, state=ground.state if ground else None)


def _changed(call: SaveCall, existing: Snapshot | None) -> Snapshot | None:
    given: object = call.change(existing)
    if inspect.iscoroutine(given):
        given.close()
        raise InvalidRequestError("change must be a plain function: it may run more than once.")
    if given is not None and not isinstance(given, Snapshot):
        raise InvalidRequestError("change must give a Snapshot or None.")
    return given


async def _plan(
    shelf: Shelf, call: SaveCall, read: RowRead, existing: Snapshot | None, saved: Snapshot
) -> SavePlan | None:
    record_read = await _read_record(shelf, call, saved.session_id)
    if record_read.record is None and existing is not None and (await _read_row(shelf, call)).row is not None:
        raise _without_session(call.scope, saved)
    if call.only_in_new_session and record_read.record is not None:
        return None
    changes_state = saved.state is not None and (existing is None or existing.state != saved.state)
    parent = await _parent(shelf, call, saved, record_read) if changes_state else None
    given = SaveInput(
        shelf, call.scope, call.token, call.new_session,
        read.row, record_read.record, record_read.time, parent, saved, changes_state,
    )  # fmt: skip
    if given.record is not None and given.record.is_legacy and not replace(given, saved=with_times(given)).becomes_head:
        # Its head has to be kept; a save that becomes the head converts the session by itself.
        await convert(shelf, call.scope, saved.session_id, call.new_session)
        return await _plan(shelf, call, read, existing, saved)
    return await plan_save(given)


async def _read_record(shelf: Shelf, call: SaveCall, session_id: str) -> RecordRead:
    """The session, None where there is none yet; refused where the id is somebody else's."""
    path = record_path(call.scope, session_id)
    read = await shelf.database.get([path])
    document: Document | None = read.documents[path]
    found = await found_record(shelf, call.scope, document, read.time, has_copy=True)
    if found.record is None and document is not None:
        raise SessionNotFoundError(session_id)
    return found


def _without_session(scope: Scope, saved: Snapshot) -> DataLossError:
    """A row is never there without its session: a delete takes the session's document last."""
    return DataLossError(
        str(record_path(scope, saved.session_id)), "the document is missing, and its snapshots are not"
    )


async def _parent(shelf: Shelf, call: SaveCall, saved: Snapshot, read: RecordRead) -> Ground | None:
    """The state to store against: the parent's; None, which makes a checkpoint, where the parent is missing, has
    none, or still runs: its state may be another one tomorrow."""
    scope = call.scope
    if saved.parent_id is None or saved.parent_id == saved.snapshot_id:
        return None
    head = read.record.head if read.record else None
    if head is not None and head.snapshot.snapshot_id == saved.parent_id:
        return await load_head(shelf, scope, read)
    parent = await read_one_row(shelf, scope, saved.parent_id)
    if parent.row is None:
        return None
    _require_same_session(parent.row, saved)
    if read.record is None and (await _read_record(shelf, call, saved.session_id)).record is None:
        raise _without_session(scope, saved)
    if not parent.row.snapshot.status.is_terminal:
        return None
    return await load_row_state(shelf, scope, parent.row, parent.time)


def _require_same_session(parent: Row, saved: Snapshot) -> None:
    if parent.snapshot.session_id != saved.session_id:
        raise SnapshotSettledError("A snapshot's parent must belong to the same session.")


def _remember(shelf: Shelf, call: SaveCall, plan: SavePlan) -> None:
    if plan.ground is None:
        return
    if plan.is_head:
        shelf.cache.replace_head(call.scope.tenant, plan.saved.session_id, plan.ground)
    elif plan.saved.status.is_terminal:
        shelf.cache.put(call.scope.tenant, plan.ground)
