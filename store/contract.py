"""What a session store offers, as protocols. Every method takes the caller's scope first and checks ids before any I/O.

A store may offer less: without SnapshotMetadataReader a caller reads in full and drops the state; without
SnapshotSubscriber chat works and detached turns are refused.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, runtime_checkable

from store.models import (
    Abort,
    Adopted,
    Adoption,
    Beat,
    Change,
    Claim,
    Lease,
    NewSession,
    Outcome,
    RetentionRules,
    SameSend,
    Scope,
    Segment,
    Session,
    SessionPage,
    Snapshot,
    SnapshotPage,
    SnapshotStatus,
    SweepReport,
    Transcript,
)
from store.state import State


@runtime_checkable
class SnapshotReader(Protocol):
    """Reading rows with their state."""

    async def get_snapshot(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        """The row with its state; None where it is missing, expired or another user's. DataLossError where its
        documents contradict each other."""

    async def get_latest_snapshot(self, scope: Scope, session_id: str) -> Snapshot | None:
        """The most recently created row of the session, whatever its status."""


@runtime_checkable
class SnapshotWriter(Protocol):
    """Writing rows outside turns."""

    async def save_snapshot(self, scope: Scope, snapshot_id: str | None, change: Change) -> Snapshot | None:
        """Atomic read-modify-write of one row. `change` gets the present row or None, must be pure, may run more than
        once, and returns the row to store, or None to write nothing. The store owns identity: it mints an absent id,
        keeps a given one and the row's session. SnapshotSettledError where a settled row's status or state, or any
        row's session or parent, would change; TurnBusyError where a live turn holds the session."""


@runtime_checkable
class SessionStore(SnapshotReader, SnapshotWriter, Protocol):
    """The least that a store offers."""


@runtime_checkable
class SnapshotMetadataReader(Protocol):
    """Reading rows without their state, at one document each."""

    async def get_snapshot_metadata(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        """As get_snapshot, with `state` None."""

    async def get_latest_snapshot_metadata(self, scope: Scope, session_id: str) -> Snapshot | None:
        """As get_latest_snapshot, with `state` None."""


@runtime_checkable
class SnapshotSubscriber(Protocol):
    """Following a row's status, whichever instance changes it."""

    def on_snapshot_status_change(
        self, scope: Scope, snapshot_id: str
    ) -> AbstractAsyncContextManager[AsyncIterator[SnapshotStatus]]:
        """The present status first, then each other one once (intermediate ones may be merged), ending after a
        terminal one; EXPIRED comes by the clock. A missing row is waited for."""


@runtime_checkable
class TurnStore(Protocol):
    """The turn protocol: claim, heartbeat, settle, abort. Each is one atomic commit."""

    async def claim_turn(self, scope: Scope, claim: Claim) -> Lease | SameSend:
        """The session's turn, or the earlier turn of the same message. SessionNotFoundError, TranscriptStaleError,
        TurnBusyError, ModelStaleError, NotResumableError, MessageIdConflictError, UnavailableError."""

    async def heartbeat(self, leases: Sequence[Lease]) -> Sequence[Beat]:
        """Refreshes all leases in one round trip; one verdict per lease, in order."""

    async def settle_turn(self, lease: Lease, outcome: Outcome) -> Snapshot:
        """Publishes the turn and gives the lease back. LeaseLostError where it was superseded: nothing is."""

    async def abort_turn(self, scope: Scope, snapshot_id: str) -> Abort:
        """Asks the turn's runner to stop, or settles the row where no live runner would. SnapshotNotFoundError."""

    async def abort_session(self, scope: Scope, session_id: str) -> Abort:
        """The same for the session's active turn. SessionNotFoundError, also where there is no turn to abort."""

    def watch_aborts(self, runner: str) -> AbstractAsyncContextManager[AsyncIterator[list[str]]]:
        """Ids of the rows that ask `runner` to stop: those of now first, then more as they come, some repeatedly."""


@runtime_checkable
class SessionDirectory(Protocol):
    """Session records."""

    async def create_session(
        self, scope: Scope, session_id: str | None, new: NewSession, custom: State | None = None
    ) -> Session:
        """A session, or the caller's existing one under the same id. `custom` makes a completed root snapshot."""

    async def get_session(self, scope: Scope, session_id: str) -> Session | None:
        """The session's metadata, made to be polled."""

    async def list_sessions(self, scope: Scope, limit: int, cursor: str | None = None) -> SessionPage:
        """The user's persisted sessions by `(updated_at, id)`, newest first; never reads state."""

    async def update_session(
        self, scope: Scope, session_id: str, *, title: str | None = None, model: str | None = None
    ) -> Session:
        """Renames, also during a turn; changes the model, TurnBusyError during one. SessionNotFoundError."""

    async def get_transcript(self, scope: Scope, session_id: str) -> Transcript | None:
        """The session and the state that its next turn continues from. Whether a turn is active is not told here: it
        would cost a read."""


@runtime_checkable
class TranscriptEditor(Protocol):
    """Changes to a transcript outside of turns. All refuse during a live turn (TurnBusyError) and settle a stale one.
    `expected_tail` is the caller's last message: TranscriptStaleError where it is given and is not the session's."""

    async def truncate(
        self, scope: Scope, session_id: str, message_id: str, expected_tail: str | None = None
    ) -> Session:
        """Rewinds to a message: a user message goes with all after it, a model message stays with its tool messages.
        Custom state and artifacts stay. MessageNotFoundError."""

    async def restore(
        self, scope: Scope, session_id: str, snapshot_id: str, expected_tail: str | None = None
    ) -> Session:
        """Makes an earlier row's whole state the head's again. SnapshotNotFoundError, NotResumableError."""

    async def branch(self, scope: Scope, source_id: str, message_id: str, session_id: str | None = None) -> Session:
        """A new session with the prefix that `truncate` would leave, all message ids regenerated. SessionExistsError
        where `session_id` belongs to another session; the same call again gives the same branch."""

    async def delete_session(self, scope: Scope, session_id: str) -> None:
        """Removes every document of the session; resumable."""

    async def list_snapshots(
        self, scope: Scope, session_id: str, limit: int, cursor: str | None = None
    ) -> SnapshotPage:
        """The tree, oldest first, without state."""


@runtime_checkable
class QueuedTurns(Protocol):
    """Turns that wait in a queue: claimed without a runner, run by whoever adopts them, at most once."""

    async def adopt_turn(self, scope: Scope, snapshot_id: str, runner: str, attempt: str) -> Adopted | Adoption:
        """The lease of a queued turn, or why it is not to be run. A row whose runner died is settled as failed: tools
        have effects, so nothing is run twice."""


@runtime_checkable
class TurnStreams(Protocol):
    """The event logs of running turns, for readers on other instances: written while the turn runs where somebody asks
    for it, else with its end."""

    async def request_segments(self, scope: Scope, snapshot_id: str) -> bool:
        """Asks the turn's runner to write its log from now on. False where nobody runs the turn, yet or any more; True
        also where it is over. SnapshotNotFoundError."""

    def watch_segment_requests(self, runner: str) -> AbstractAsyncContextManager[AsyncIterator[list[str]]]:
        """Ids of the rows whose log `runner` is asked to write, of whatever tenant; some repeatedly."""

    async def write_segments(self, lease: Lease, segments: Sequence[Segment], expires_at: datetime) -> bool:
        """One commit, or as many as their size takes; False where they are not all known to have landed, and may be
        repeated."""

    async def read_segments(self, scope: Scope, snapshot_id: str) -> list[Segment]:
        """All that is kept of a turn's log, in order."""

    def watch_segments(
        self, scope: Scope, snapshot_id: str
    ) -> AbstractAsyncContextManager[AsyncIterator[list[Segment]]]:
        """Segments as they come, those of now first, some repeatedly."""


@runtime_checkable
class RetentionStore(Protocol):
    """What is kept, and for how long."""

    async def get_retention(self, tenant: str) -> RetentionRules:
        """The tenant's rules, or the defaults."""

    async def set_retention(
        self, tenant: str, max_idle_days: int | None, max_count_per_user: int | None
    ) -> RetentionRules:
        """None keeps, 0 switches off; InvalidRequestError for negative numbers."""

    async def trim_sessions(self, scope: Scope) -> int:
        """Deletes the user's persisted sessions beyond the cap, least recently used first; spares running ones."""

    async def sweep(self, limit: int = 500, *, dry_run: bool = False) -> SweepReport:
        """One bounded sweep over all tenants: about `limit` documents deleted at most."""

    async def erase_user(self, scope: Scope, most: int = 500) -> bool:
        """Deletes all that the user has, running turns included, about `most` documents a call: whether it is done."""
