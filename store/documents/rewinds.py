"""Moving a session's head outside of turns: truncate and restore. The state that it moves away from stays readable."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from store.database import Committed, Write
from store.documents.claim_checks import read_active, require_stale
from store.documents.commits import Retries, shard_writes, try_commit, write_ahead
from store.documents.loading import RecordRead, RowRead, load_head, load_row_state, read_one_record, read_one_row
from store.documents.reading import with_activity
from store.documents.save_writes import SaveInput, plan_save
from store.documents.settlements import plan_release, plan_stale_settlement
from store.documents.shelf import Shelf
from store.errors import (
    MessageNotFoundError,
    NotResumableError,
    SessionNotFoundError,
    SnapshotNotFoundError,
    StoreError,
    TranscriptStaleError,
)
from store.layout.chain import Ground
from store.layout.records import Record
from store.layout.rows import Row
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


class Guarded(NamedTuple):
    """A session that may be changed outside of a turn: free (`active` None), or with an active row whose owner is gone
    (`stale`) or that was settled since (`stale` None)."""

    read: RecordRead
    record: Record
    active: RowRead | None
    stale: Row | None


class Step(NamedTuple):
    """What one try of a move writes, and the session and the cached head after it; no writes where nothing changes."""

    writes: list[Write]
    session: Session
    ground: Ground | None


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
        read = await read_one_row(shelf, scope, snapshot_id)
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
    is_repeated = False
    while True:
        try:
            step = await _plan_step(shelf, move, next_state)
        except StoreError:
            # What an earlier try of this very move has changed must not refuse it: that try may have landed late.
            if is_repeated and await _has_landed(shelf, move):
                return await _present(shelf, move)
            raise
        if not step.writes:
            return step.session
        result = await try_commit(shelf, step.writes)
        if isinstance(result, Committed):
            if step.ground is not None:
                shelf.cache.replace_head(move.scope.tenant, move.session_id, step.ground)
            return replace(step.session, updated_at=result.server_time)
        if await _has_landed(shelf, move):
            return await _present(shelf, move)
        await retries.wait(result)
        is_repeated = True


async def _plan_step(shelf: Shelf, move: Move, next_state: NextState) -> Step:
    guarded = await read_guarded(shelf, move.scope, move.session_id, move.expected_tail)
    head = await load_head(shelf, move.scope, guarded.read)
    state = await next_state(head)
    free = replace(guarded.record.session, is_turn_active=False, active_snapshot_id=None)
    if state is None:
        return Step(release_writes(move.scope, guarded, move.token), free, None)
    plan = await plan_save(_input(shelf, move, guarded, head, state))
    shards = shard_writes(move.scope.tenant, move.session_id, plan.shards, plan.expires_at)
    session = replace(
        free,
        head_snapshot_id=move.snapshot_id,
        last_message_id=last_message_id(state),
        message_count=len(messages_of(state)),
    )
    return Step([*plan.writes, *await write_ahead(shelf, shards)], session, plan.ground)


async def _has_landed(shelf: Shelf, move: Move) -> bool:
    """Whether this very move has been made, whatever was heard of it."""
    row = (await read_one_row(shelf, move.scope, move.snapshot_id)).row
    return row is not None and row.saved_by == move.token


async def _present(shelf: Shelf, move: Move) -> Session:
    read = await read_one_record(shelf, move.scope, move.session_id, with_copy=False)
    if read.record is None:
        raise SessionNotFoundError(move.session_id)
    return await with_activity(shelf, move.scope, read)


async def read_guarded(shelf: Shelf, scope: Scope, session_id: str, expected_tail: str | None) -> Guarded:
    """The session, free or with a stale lease. SessionNotFoundError, TurnBusyError, and TranscriptStaleError where
    `expected_tail` is given and is not the last message."""
    with_copy = not shelf.cache.has_head(scope.tenant, session_id)
    read = await read_one_record(shelf, scope, session_id, with_copy=with_copy)
    if read.record is None:
        raise SessionNotFoundError(session_id)
    session = read.record.session
    if expected_tail is not None and expected_tail != session.last_message_id:
        raise TranscriptStaleError(session.last_message_id)
    if session.active_snapshot_id is None:
        return Guarded(read, read.record, None, None)
    active = await read_active(shelf, scope, read.record, read.time)
    return Guarded(read, read.record, active, await require_stale(shelf, scope, session.active_snapshot_id, active))


def release_writes(scope: Scope, guarded: Guarded, settled_by: str) -> list[Write]:
    """Ends the stale turn of a session whose head stays as it is; nothing where the session is free.

    A turn that was settled since makes these writes fail, as it has to be: the session has changed then."""
    if guarded.active is None:
        return []
    stale = [] if guarded.stale is None else plan_stale_settlement(scope, guarded.stale, settled_by)
    return [plan_release(scope, guarded.record), *stale]


def _input(shelf: Shelf, move: Move, guarded: Guarded, head: Ground | None, state: State) -> SaveInput:
    record = guarded.record
    saved = Snapshot(
        session_id=move.session_id,
        snapshot_id=move.snapshot_id,
        parent_id=head.snapshot_id if head else None,
        origin=move.origin,
        state=state,
        model=record.session.model,
    )
    new_session = NewSession(record.session.agent)  # not used: the session exists
    return SaveInput(
        shelf, move.scope, move.token, new_session, None, record, guarded.read.time, head, saved, True, guarded.active
    )
