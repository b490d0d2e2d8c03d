"""Moving a session's head outside of turns: truncate and restore. The state that it moves away from stays readable."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from store.database import Committed
from store.documents.claim_checks import require_stale
from store.documents.commits import Retries, shard_writes, try_commit, write_ahead
from store.documents.loading import RecordRead, load_head, load_row_state, read_one_record, read_one_row
from store.documents.save_writes import SaveInput, SavePlan, plan_save
from store.documents.shelf import Shelf
from store.errors import (
    MessageNotFoundError,
    NotResumableError,
    SessionNotFoundError,
    SnapshotNotFoundError,
    TranscriptStaleError,
)
from store.layout.chain import Ground
from store.layout.records import Record
from store.models import NewSession, Origin, Scope, Session, Snapshot
from store.rules.history import last_message_id, messages_of
from store.rules.lease import is_resumable, status_at
from store.rules.transcripts import rewound
from store.state import State

NextState: TypeAlias = Callable[[Ground | None], Awaitable[State | None]]
"""From the head to the state that the head shall have; None where nothing has to change."""


@dataclass(frozen=True, slots=True)
class Move:
    """One move of a head: ids minted for it, so that its own commit is recognised after a lost answer."""

    scope: Scope
    session_id: str
    snapshot_id: str
    token: str
    origin: Origin
    expected_tail: str | None


async def truncate(
    shelf: Shelf, scope: Scope, session_id: str, message_id: str, expected_tail: str | None = None
) -> Session:
    """Rewinds the transcript to a message. Custom state and artifacts stay; `restore` takes those back too."""

    async def next_state(head: Ground | None) -> State | None:
        if head is None:
            raise MessageNotFoundError(message_id)
        state = rewound(head.state, message_id)
        return None if state is head.state else state

    return await _move_head(shelf, _move(shelf, scope, session_id, Origin.TRUNCATE, expected_tail), next_state)


async def restore(
    shelf: Shelf, scope: Scope, session_id: str, snapshot_id: str, expected_tail: str | None = None
) -> Session:
    """Makes an earlier row's state the head's again."""

    async def next_state(head: Ground | None) -> State | None:
        if head is not None and head.snapshot_id == snapshot_id:
            return None
        read = await read_one_row(shelf, scope, snapshot_id, with_patch=True)
        if read.row is None or read.row.snapshot.session_id != session_id:
            raise SnapshotNotFoundError(snapshot_id)
        if not is_resumable(read.row):
            raise NotResumableError(snapshot_id, status_at(read.row, read.time, shelf.staleness))
        ground = await load_row_state(shelf, scope, read.row, read.time)
        return ground.state if ground else None

    return await _move_head(shelf, _move(shelf, scope, session_id, Origin.RESTORE, expected_tail), next_state)


def _move(shelf: Shelf, scope: Scope, session_id: str, origin: Origin, expected_tail: str | None) -> Move:
    return Move(scope, session_id, shelf.mint(), shelf.mint(), origin, expected_tail)


async def _move_head(shelf: Shelf, move: Move, next_state: NextState) -> Session:
    """Two round trips where the head's state is inline or cached: the session, and one commit of row and session."""
    retries = Retries(shelf)
    while True:
        read = await read_guarded(shelf, move.scope, move.session_id, move.expected_tail)
        record = read.record
        assert record is not None  # read_guarded has seen to it
        head = await load_head(shelf, move.scope, read)
        state = await next_state(head)
        if state is None:
            return record.session
        plan = await plan_save(_input(shelf, move, record, read.time, head, state))
        shards = shard_writes(move.scope.tenant, move.session_id, plan.shards, plan.expires_at)
        result = await try_commit(shelf, [*plan.writes, *await write_ahead(shelf, shards)])
        if isinstance(result, Committed):
            return _moved(shelf, move, record, plan, result.server_time)
        own = await read_one_row(shelf, move.scope, move.snapshot_id)
        if own.row is not None and own.row.saved_by == move.token:
            return _moved(shelf, move, record, plan, own.row.update_time)
        await retries.wait(result)


async def read_guarded(shelf: Shelf, scope: Scope, session_id: str, expected_tail: str | None) -> RecordRead:
    """The session, free or with a stale lease. SessionNotFoundError, TurnBusyError, and TranscriptStaleError where
    `expected_tail` is given and is not the last message."""
    with_copy = not shelf.cache.has_head(scope.tenant, session_id)
    read = await read_one_record(shelf, scope, session_id, with_copy=with_copy)
    if read.record is None:
        raise SessionNotFoundError(session_id)
    session = read.record.session
    if expected_tail is not None and expected_tail != session.last_message_id:
        raise TranscriptStaleError(session.last_message_id)
    if session.active_snapshot_id is not None:
        await require_stale(shelf, scope, session.active_snapshot_id)
    return read


def _input(shelf: Shelf, move: Move, record: Record, time: datetime, head: Ground | None, state: State) -> SaveInput:
    saved = Snapshot(
        session_id=move.session_id,
        snapshot_id=move.snapshot_id,
        parent_id=head.snapshot_id if head else None,
        origin=move.origin,
        state=state,
        model=record.session.model,
    )
    new_session = NewSession(record.session.agent)  # not used: the session exists
    return SaveInput(shelf, move.scope, move.token, new_session, None, record, time, head, saved, True)


def _moved(shelf: Shelf, move: Move, record: Record, plan: SavePlan, updated_at: datetime) -> Session:
    if plan.ground is not None:
        shelf.cache.replace_head(move.scope.tenant, move.session_id, plan.ground)
    return replace(
        record.session,
        updated_at=updated_at,
        is_turn_active=False,
        active_snapshot_id=None,
        head_snapshot_id=move.snapshot_id,
        last_message_id=last_message_id(plan.saved.state),
        message_count=len(messages_of(plan.saved.state)),
    )
