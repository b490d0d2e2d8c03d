"""The store: the contract's methods over one database. Each is a line; what they do lies in the modules beside."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from store.documents import (
    aborts,
    adoptions,
    branches,
    conversions,
    deletions,
    directory,
    heartbeats,
    pruning,
    reading,
    retention,
    rewinds,
    saves,
    settles,
    streams,
    sweeping,
    tree,
    watching,
)
from store.documents.shelf import Shelf
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


class DocumentStore:
    """Implements every protocol of `store.contract`; its docstrings hold. The backends subclass it for their
    constructors. Belongs to the event loop that first used it."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    @property
    def shelf(self) -> Shelf:
        """The database with its options, for other stores on the same documents."""
        return self._shelf

    async def get_snapshot(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        return await reading.get_snapshot(self._shelf, scope, snapshot_id)

    async def get_latest_snapshot(self, scope: Scope, session_id: str) -> Snapshot | None:
        return await reading.get_latest_snapshot(self._shelf, scope, session_id)

    async def get_snapshot_metadata(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        return await reading.get_snapshot_metadata(self._shelf, scope, snapshot_id)

    async def get_latest_snapshot_metadata(self, scope: Scope, session_id: str) -> Snapshot | None:
        return await reading.get_latest_snapshot_metadata(self._shelf, scope, session_id)

    async def save_snapshot(self, scope: Scope, snapshot_id: str | None, change: Change) -> Snapshot | None:
        saved = await saves.save_snapshot(self._shelf, scope, snapshot_id, change)
        if saved is not None and saved.state is not None:
            await pruning.prune_chain(self._shelf, scope, saved.session_id, saved.snapshot_id)
        return saved

    def on_snapshot_status_change(
        self, scope: Scope, snapshot_id: str
    ) -> AbstractAsyncContextManager[AsyncIterator[SnapshotStatus]]:
        return watching.follow_status(self._shelf, scope, snapshot_id)

    async def claim_turn(self, scope: Scope, claim: Claim) -> Lease | SameSend:
        return await conversions.claim_converted(self._shelf, scope, claim)

    async def heartbeat(self, leases: Sequence[Lease]) -> Sequence[Beat]:
        return await heartbeats.beat(self._shelf, leases)

    async def settle_turn(self, lease: Lease, outcome: Outcome) -> Snapshot:
        settled = await settles.settle_turn(self._shelf, lease, outcome)
        if settled.state is not None:
            await pruning.prune_chain(self._shelf, lease.scope, settled.session_id, settled.snapshot_id)
        return settled

    async def adopt_turn(self, scope: Scope, snapshot_id: str, runner: str, attempt: str) -> Adopted | Adoption:
        return await adoptions.adopt_turn(self._shelf, scope, snapshot_id, runner, attempt)

    async def request_segments(self, scope: Scope, snapshot_id: str) -> bool:
        return await streams.request_segments(self._shelf, scope, snapshot_id)

    def watch_segment_requests(self, runner: str) -> AbstractAsyncContextManager[AsyncIterator[list[str]]]:
        return streams.watch_segment_requests(self._shelf, runner)

    async def write_segments(self, lease: Lease, segments: Sequence[Segment], expires_at: datetime) -> bool:
        return await streams.write_segments(self._shelf, lease, segments, expires_at)

    async def read_segments(self, scope: Scope, snapshot_id: str) -> list[Segment]:
        return await streams.read_segments(self._shelf, scope, snapshot_id)

    def watch_segments(
        self, scope: Scope, snapshot_id: str
    ) -> AbstractAsyncContextManager[AsyncIterator[list[Segment]]]:
        return streams.watch_segments(self._shelf, scope, snapshot_id)

    async def abort_turn(self, scope: Scope, snapshot_id: str) -> Abort:
        return await aborts.abort_turn(self._shelf, scope, snapshot_id)

    async def abort_session(self, scope: Scope, session_id: str) -> Abort:
        return await aborts.abort_session(self._shelf, scope, session_id)

    def watch_aborts(self, runner: str) -> AbstractAsyncContextManager[AsyncIterator[list[str]]]:
        return aborts.watch_aborts(self._shelf, runner)

    async def create_session(
        self, scope: Scope, session_id: str | None, new: NewSession, custom: State | None = None
    ) -> Session:
        return await directory.create_session(self._shelf, scope, session_id, new, custom)

    async def get_session(self, scope: Scope, session_id: str) -> Session | None:
        return await reading.get_session(self._shelf, scope, session_id)

    async def list_sessions(self, scope: Scope, limit: int, cursor: str | None = None) -> SessionPage:
        return await directory.list_sessions(self._shelf, scope, limit, cursor)

    async def update_session(
        self, scope: Scope, session_id: str, *, title: str | None = None, model: str | None = None
    ) -> Session:
        return await directory.update_session(self._shelf, scope, session_id, title=title, model=model)

    async def truncate(
        self, scope: Scope, session_id: str, message_id: str, expected_tail: str | None = None
    ) -> Session:
        session = await rewinds.truncate(self._shelf, scope, session_id, message_id, expected_tail)
        await pruning.prune_chain(self._shelf, scope, session_id, session.head_snapshot_id)
        return session

    async def restore(
        self, scope: Scope, session_id: str, snapshot_id: str, expected_tail: str | None = None
    ) -> Session:
        session = await rewinds.restore(self._shelf, scope, session_id, snapshot_id, expected_tail)
        await pruning.prune_chain(self._shelf, scope, session_id, session.head_snapshot_id)
        return session

    async def branch(self, scope: Scope, source_id: str, message_id: str, session_id: str | None = None) -> Session:
        return await branches.branch(self._shelf, scope, source_id, message_id, session_id)

    async def delete_session(self, scope: Scope, session_id: str) -> None:
        await deletions.delete_session(self._shelf, scope, session_id)

    async def list_snapshots(
        self, scope: Scope, session_id: str, limit: int, cursor: str | None = None
    ) -> SnapshotPage:
        return await tree.list_snapshots(self._shelf, scope, session_id, limit, cursor)

    async def get_transcript(self, scope: Scope, session_id: str) -> Transcript | None:
        return await reading.get_transcript(self._shelf, scope, session_id)

    async def get_retention(self, tenant: str) -> RetentionRules:
        return await retention.get_retention(self._shelf, tenant)

    async def set_retention(
        self, tenant: str, max_idle_days: int | None, max_count_per_user: int | None
    ) -> RetentionRules:
        return await retention.set_retention(self._shelf, tenant, max_idle_days, max_count_per_user)

    async def trim_sessions(self, scope: Scope) -> int:
        return await retention.trim_sessions(self._shelf, scope)

    async def sweep(self, limit: int = 500, *, dry_run: bool = False) -> SweepReport:
        return await sweeping.sweep(self._shelf, limit, dry_run=dry_run)

    async def erase_user(self, scope: Scope, most: int = 500) -> bool:
        return await retention.erase_user(self._shelf, scope, most)

    async def close(self) -> None:
        """Ends listeners and frees connections."""
        await self._shelf.database.close()
