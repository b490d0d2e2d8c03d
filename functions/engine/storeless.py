"""Turns of agents that keep no state here: the client brings it and takes it away. Nothing is stored."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from store.models import Lease, Outcome, Scope, Snapshot
from store.state import State


class NoStore:
    """What a running turn needs of a store, without one."""

    @staticmethod
    def lease(scope: Scope, state: State, mint: Callable[[], str]) -> Lease:
        """A lease of a session that exists for this turn only."""
        return Lease(
            scope=scope,
            session_id=mint(),
            snapshot_id=mint(),
            attempt=mint(),
            parent_id=None,
            state=state,
            model=None,
            created_at=datetime.now(UTC),
            version=None,
            ground=None,
        )

    async def settle_turn(self, lease: Lease, outcome: Outcome) -> Snapshot:
        """The turn's record, which nobody keeps."""
        snapshot = Snapshot(
            session_id=lease.session_id,
            snapshot_id=lease.snapshot_id,
            origin=lease.origin,
            status=outcome.status,
            state=outcome.state,
            finish_reason=outcome.finish_reason,
            error=outcome.error,
            usage=outcome.usage,
            created_at=lease.created_at,
        )
        return replace(snapshot, updated_at=datetime.now(UTC))
