"""The records that the store takes and gives: frozen, with no I/O behind them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from store.state import Raw, State


class SnapshotStatus(StrEnum):
    """`pending → completed | failed | aborting → aborted`; EXPIRED is computed on read and never stored."""

    PENDING = "pending"
    ABORTING = "aborting"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    EXPIRED = "expired"

    @property
    def is_terminal(self) -> bool:
        """Whether the row is settled, or will never be by its owner."""
        return self not in (SnapshotStatus.PENDING, SnapshotStatus.ABORTING)


class FinishReason(StrEnum):
    """Why an agent stopped."""

    STOP = "stop"
    LENGTH = "length"
    BLOCKED = "blocked"
    INTERRUPTED = "interrupted"
    OTHER = "other"
    UNKNOWN = "unknown"
    ABORTED = "aborted"
    FAILED = "failed"


class Origin(StrEnum):
    """What made a snapshot."""

    TURN = "turn"
    SAVE = "save"
    TRUNCATE = "truncate"
    RESTORE = "restore"
    COMPACT = "compact"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Scope:
    """Who is asking: part of every path, explicit in every call. It scopes; it does not authorise."""

    tenant: str
    user: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The record of one turn and the state after it.

    `state` is None on a metadata read, on failed rows, and while a turn runs. Times are aware UTC. `error` is
    `{status, message, details?}`, `usage` is `{inputTokens?, outputTokens?, totalTokens?}`, both plain JSON objects."""

    session_id: str
    snapshot_id: str = ""
    parent_id: str | None = None
    origin: Origin = Origin.SAVE
    status: SnapshotStatus = SnapshotStatus.COMPLETED
    state: State | None = None
    finish_reason: str | None = None
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, int] | None = None
    model: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    heartbeat_at: datetime | None = None
    message_id: str | None = None
    message_text: str | None = None  # the beginning of the user's message, for people who look for a turn
    last_message_id: str | None = None
    event_count: int | None = None  # of a settled turn: how many events it told, its end included


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation's metadata. `is_turn_active` is whether a live turn holds the lease at the time of the read."""

    id: str
    owner_id: str
    agent: str
    title: str
    created_at: datetime
    updated_at: datetime
    temporary: bool = False
    model: str | None = None
    expires_at: datetime | None = None
    is_turn_active: bool = False
    active_snapshot_id: str | None = None
    head_snapshot_id: str | None = None
    last_message_id: str | None = None
    message_count: int = 0
    branched_from: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NewSession:
    """What a session is made with. A `temporary` one is not listed; with a `lifetime`, in seconds, it expires that long
    after it was made, and is temporary by that alone."""

    agent: str
    title: str = ""
    model: str | None = None
    lifetime: float | None = None
    branched_from: Mapping[str, str] | None = None
    temporary: bool = False

    @property
    def is_temporary(self) -> bool:
        """Whether it stays out of lists."""
        return self.temporary or self.lifetime is not None


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """One page of a session's tree, oldest first, without state; `next_cursor` is None at the end."""

    snapshots: tuple[Snapshot, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One page of a list; `next_cursor` is None at the end."""

    sessions: tuple[Session, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """A tenant's limits; 0 switches a rule off. Temporary sessions have their own, fixed expiry."""

    max_idle_days: int = 30
    max_count_per_user: int = 30


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep did, in sessions. `reasons` counts the deleted ones by why: `expired`, `idle`, `cap`, `resumed`
    (a deletion that was cut short before, and was counted by its reason then). `is_done` is whether nothing that is due
    was left over."""

    examined: int
    deleted: int
    spared: int
    is_done: bool
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session with the state that its next turn continues from (None before the first)."""

    session: Session
    state: State | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A request for a session's turn.

    `snapshot_id` and `attempt` are minted by the caller, who repeats them when it repeats the claim. `session` is
    what a session is made with where `session_id` is None. `runner` names the instance, None for a turn that waits
    in a queue, for `queue_seconds` at most. `models` are those that can be used, None for any.
    `new_session_id` is the id under which a session is opened where `session_id` is None; one that exists is continued.
    `snapshot_to_resume` names another row than the head. `check_tail=False` skips the stale-write guard. `accept` is
    called with the state that the turn would continue from, and raises where the request does not fit it."""

    snapshot_id: str
    attempt: str
    session: NewSession
    session_id: str | None = None
    message: Raw | None = None
    resume: Raw | None = None
    last_message_id: str | None = None
    check_tail: bool = True
    snapshot_to_resume: str | None = None
    model: str | None = None
    new_session_id: str | None = None
    runner: str | None = None
    queue_seconds: float | None = None
    origin: Origin = Origin.TURN
    models: frozenset[str] | None = None
    message_is_named: bool = False  # whether the caller chose message.id; a minted one can have no earlier send
    accept: "Callable[[State], None] | None" = field(default=None, compare=False)

    @property
    def message_id(self) -> str | None:
        """The id by which a resend is recognised."""
        return self.message.key if self.message and self.message_is_named else None


@dataclass(frozen=True, slots=True)
class SameSend:
    """The answer to a claim whose message was sent before: that turn, running or settled."""

    session_id: str
    snapshot_id: str
    is_running: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of a turn's event log, counted from 0. `first_event_id` and `last_event_id` are the events whose lines
    begin first and end last in it; None where no line does."""

    index: int
    content: bytes
    first_event_id: int | None
    last_event_id: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended. `state` is None when it failed. `interrupted` gives the outcome to store instead when an abort
    arrives while the turn is settling; without it the state is kept and the status becomes aborted."""

    status: SnapshotStatus
    finish_reason: str
    state: State | None = None
    error: Mapping[str, Any] | None = None
    usage: Mapping[str, int] | None = None
    event_count: int = 0
    auto_title: str | None = None
    segments: tuple[Segment, ...] = ()
    segments_expire_at: datetime | None = None
    segments_were_requested: bool = False  # the request goes with the settle
    interrupted: "Callable[[], Outcome] | None" = field(default=None, compare=False)


@dataclass(slots=True, eq=False)
class Lease:
    """The right to run one session's turn, held by whoever knows `attempt`.

    `state` is what the turn continues from, `parent_id` its row, `parent_usage` the tokens of that row's turn where
    they are known. `is_untitled` is whether nothing has given the session a title yet. `is_aborting` becomes true once
    the store has seen an abort of this turn. `version` and `ground` are the store's own: what it last knew of the row,
    and of the parent."""

    scope: Scope
    session_id: str
    snapshot_id: str
    attempt: str
    parent_id: str | None
    state: State
    model: str | None
    created_at: datetime
    version: Any
    ground: Any
    origin: Origin = Origin.TURN
    message_id: str | None = None
    message_text: str | None = None
    parent_usage: Mapping[str, int] | None = None
    is_new_session: bool = False
    took_over: bool = False  # from a turn that had expired
    is_untitled: bool = False
    is_aborting: bool = False


@dataclass(frozen=True, slots=True)
class Adopted:
    """A queued turn that is this runner's now, with the message or resume that was asked of it."""

    lease: Lease
    message: Any
    resume: Any


class Adoption(StrEnum):
    """Why a queued turn is not to be run: its row is not there (yet), is settled, or somebody runs it."""

    UNKNOWN = "unknown"
    SETTLED = "settled"
    RUNNING = "running"


class Beat(StrEnum):
    """What a heartbeat found: go on, stop the agent, or give up."""

    ALIVE = "alive"
    ABORTING = "aborting"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Abort:
    """What an abort did. `previous` is the status as read, EXPIRED included."""

    snapshot_id: str
    session_id: str
    previous: SnapshotStatus
    status: SnapshotStatus


Change: TypeAlias = Callable[[Snapshot | None], Snapshot | None]
"""Pure, may run more than once; None writes nothing."""
