"""Genkit's own session interface over any store of ours, for `define_agent(store=...)`. Needs the extra `genkit`.

Owns the translation only: Genkit's snapshots and errors to ours and back. Differs from Genkit's own stores, on purpose:
the state of a settled snapshot is final; a live detached turn holds its session, so that another turn's save is refused
(FAILED_PRECONDITION) instead of lost; and a pending snapshot whose heartbeats have stopped reads as expired.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, cast

from genkit import GenkitError
from genkit.exp.agent import SessionSnapshot, SnapshotStatus

from store import contract, models
from store.errors import (
    ConflictError,
    DataLossError,
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    StateTooLargeError,
    StoreError,
    UnavailableError,
)
from store.models import Scope, Snapshot
from store.state import State

ScopeOf: TypeAlias = Callable[[dict[str, Any] | None], Scope]
"""From the request's context (its authentication, for one) to who is asking. Raise to refuse."""

_STATUSES: tuple[tuple[type[StoreError], str], ...] = (
    (InvalidRequestError, "INVALID_ARGUMENT"),
    (StateTooLargeError, "RESOURCE_EXHAUSTED"),
    (NotFoundError, "NOT_FOUND"),
    (ConflictError, "FAILED_PRECONDITION"),
    (DataLossError, "DATA_LOSS"),
    (UnavailableError, "UNAVAILABLE"),
    (DeadlineExceededError, "DEADLINE_EXCEEDED"),
)
_AFTER_EXPIRY = 1.0  # seconds between looks at a snapshot whose owner may yet beat again


class FollowedStore(contract.SessionStore, contract.SnapshotSubscriber, Protocol):
    """What the adapter needs of a store."""


class GenkitSessionStore:
    """Implements Genkit's `SessionStore` and `SnapshotSubscriber`. `scope` is one for all, or made from the context."""

    def __init__(self, store: FollowedStore, scope: Scope | ScopeOf) -> None:
        self._store = store
        self._scope_of: ScopeOf = scope if callable(scope) else lambda _context: scope

    async def get_snapshot(
        self,
        *,
        snapshot_id: str | None = None,
        session_id: str | None = None,
        context: dict[str, Any] | None = None,
    ) -> Any:
        """The snapshot, or the session's latest; None where there is none."""
        if (snapshot_id is None) == (session_id is None):
            raise GenkitError(status="INVALID_ARGUMENT", message="Give either snapshot_id or session_id.")
        scope = self._scope_of(context)
        try:
            if snapshot_id is not None:
                found = await self._store.get_snapshot(scope, snapshot_id)
            else:
                found = await self._store.get_latest_snapshot(scope, str(session_id))
        except StoreError as error:
            raise _translated(error) from error
        return None if found is None else _to_genkit(found)

    async def save_snapshot(
        self, snapshot_id: str, fn: Callable[[Any], Any], *, context: dict[str, Any] | None = None
    ) -> Any:
        """An atomic read-modify-write; None where `fn` gave None."""

        def change(existing: Snapshot | None) -> Snapshot | None:
            given = fn(None if existing is None else _to_genkit(existing))
            if given is None or not isinstance(given, SessionSnapshot):
                return cast("Snapshot | None", given)  # the store refuses what is no snapshot, coroutines included
            return _from_genkit(given, existing)

        try:
            saved = await self._store.save_snapshot(self._scope_of(context), snapshot_id, change)
        except StoreError as error:
            raise _translated(error) from error
        return None if saved is None else _to_genkit(saved)

    async def on_snapshot_status_change(
        self, snapshot_id: str, *, context: dict[str, Any] | None = None
    ) -> "StatusStream":
        """The present status and each further one; ends behind a final one, or with `aclose()`."""
        return StatusStream(self._store, self._scope_of(context), snapshot_id)


class StatusStream:
    """The statuses of one snapshot as Genkit follows them: expiry is no status that is stored, and is left out."""

    def __init__(self, store: FollowedStore, scope: Scope, snapshot_id: str) -> None:
        self._statuses = _statuses(store, scope, snapshot_id)
        self._upcoming: asyncio.Future[Any] | None = None
        self._is_closed = False

    def __aiter__(self) -> "StatusStream":
        return self

    async def __anext__(self) -> Any:
        if self._has_ended():
            raise StopAsyncIteration
        # In a task of its own, so that `aclose` can end a wait that another task is in.
        self._upcoming = asyncio.ensure_future(anext(self._statuses, None))
        try:
            status = await self._upcoming
        except asyncio.CancelledError:
            if not self._has_ended():
                raise
            status = None
        if status is None:
            await self.aclose()
            raise StopAsyncIteration
        return SnapshotStatus(status.value)

    def _has_ended(self) -> bool:
        return self._is_closed

    async def aclose(self) -> None:
        """Stops following."""
        self._is_closed = True
        upcoming, self._upcoming = self._upcoming, None
        if upcoming is not None and not upcoming.done():
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        await self._statuses.aclose()


async def _statuses(store: FollowedStore, scope: Scope, snapshot_id: str) -> Any:
    last: models.SnapshotStatus | None = None
    while True:
        async with AsyncExitStack() as stack:
            statuses: AsyncIterator[models.SnapshotStatus]
            statuses = await stack.enter_async_context(store.on_snapshot_status_change(scope, snapshot_id))
            async for status in statuses:
                if status is models.SnapshotStatus.EXPIRED:
                    break
                if status is not last:
                    last = status
                    yield status
            else:
                return
        await asyncio.sleep(_AFTER_EXPIRY)


def _translated(error: StoreError) -> Exception:
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), "INTERNAL")
    translated: Exception = GenkitError(status=status, message=error.message, details=error.details or None)
    return translated


def _to_genkit(snapshot: Snapshot) -> Any:
    fields: dict[str, Any] = {
        "snapshotId": snapshot.snapshot_id,
        "sessionId": snapshot.session_id,
        "parentId": snapshot.parent_id,
        "createdAt": _text(snapshot.created_at),
        "updatedAt": _text(snapshot.updated_at),
        "heartbeatAt": _text(snapshot.heartbeat_at),
        "status": snapshot.status.value,
        "finishReason": snapshot.finish_reason,
        "error": None if snapshot.error is None else dict(snapshot.error),
        "state": None if snapshot.state is None else snapshot.state.value(),
    }
    return SessionSnapshot.model_validate({name: value for name, value in fields.items() if value is not None})


def _from_genkit(given: Any, existing: Snapshot | None) -> Snapshot:
    # Fields that were never set are left out, those that were set to None inside a state are kept.
    fields = given.model_dump(by_alias=True, exclude_unset=True, mode="python")
    state = None if given.state is None else State.of(_plain(fields["state"]))
    session_id = given.session_id or (given.state.session_id if given.state else None)
    if not session_id and existing is not None:
        session_id = existing.session_id
    return Snapshot(
        session_id=session_id or "",
        parent_id=given.parent_id or None,
        status=models.SnapshotStatus(given.status) if given.status else models.SnapshotStatus.COMPLETED,
        state=state,
        finish_reason=str(given.finish_reason) if given.finish_reason else None,
        error=None if given.error is None else _plain(fields["error"]),
        created_at=_time(given.created_at, "createdAt"),
        updated_at=_time(given.updated_at, "updatedAt"),
        heartbeat_at=_time(given.heartbeat_at, "heartbeatAt"),
    )


def _plain(value: Any) -> Any:
    """The value with enumerations as their texts, which JSON does not know."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value.value) if isinstance(value, StrEnum) else value


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _time(text: str | None, name: str) -> datetime | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequestError(f"{name} is no time.") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)
