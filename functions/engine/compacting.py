"""A compaction on its own: claims the session like a turn, asks for the summary, and settles it as the new head."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from functions.agents.base import Agent
from functions.engine.compaction import compacted, compaction_message, summary_until
from functions.engine.ending import error_of
from store.contract import TurnStore
from store.errors import (
    CompactionConflictError,
    InvalidRequestError,
    LeaseLostError,
    StateTooLargeError,
    StoreError,
)
from store.models import FinishReason, Lease, Outcome, SnapshotStatus

_LOG = logging.getLogger("firesession.compacting")


class CompactionFailedError(StoreError):
    """The agent gave no summary; the transcript is as it was."""

    code = "internal"


class Compaction:
    """One compaction under its lease. CompactionConflictError where it was stopped or superseded, StateTooLargeError
    where its summary does not fit, CompactionFailedError where there is none."""

    def __init__(self, lease: Lease, agent: Agent, store: TurnStore, mint: Callable[[], str]) -> None:
        self.lease = lease
        self._agent = agent
        self._store = store
        self._mint = mint
        self._stopped = asyncio.Event()

    def request_stop(self) -> None:
        """Gives up; nothing of a compaction is worth keeping half-way."""
        self._stopped.set()

    def hurry(self) -> None:
        """The process is about to end."""
        self._stopped.set()

    def lose(self) -> None:
        """The lease is gone."""
        self._stopped.set()

    async def run(
        self, leave_heartbeats: Callable[[Lease], Awaitable[None]], instructions: str | None
    ) -> dict[str, Any]:
        """The message that was stored."""
        try:
            text = await summary_until(self._stopped, self._agent, self.lease, instructions)
        except Exception as failure:  # whatever an agent's own summary raises
            await leave_heartbeats(self.lease)
            return await self._fail(failure)
        await leave_heartbeats(self.lease)
        if text is None:
            await self._store_end(Outcome(SnapshotStatus.ABORTED, FinishReason.ABORTED.value))
            raise CompactionConflictError
        return await self._publish(text)

    async def _publish(self, text: str) -> dict[str, Any]:
        message = compaction_message(text, self._mint)
        try:
            state = compacted(self.lease.state, message, self._mint)
            stored = await self._store_end(Outcome(SnapshotStatus.COMPLETED, FinishReason.STOP.value, state))
        except (InvalidRequestError, StateTooLargeError) as refusal:  # of the summary, before anything was sent
            return await self._fail(refusal)
        if stored is not SnapshotStatus.COMPLETED:
            raise CompactionConflictError
        return message

    async def _fail(self, failure: BaseException) -> NoReturn:
        _LOG.error("the compaction %s failed", self.lease.snapshot_id, exc_info=failure)
        error = error_of(failure)
        stored = await self._store_end(Outcome(SnapshotStatus.FAILED, FinishReason.FAILED.value, error=error))
        if stored is SnapshotStatus.ABORTED:
            raise CompactionConflictError
        if isinstance(failure, StateTooLargeError):
            raise failure
        raise CompactionFailedError(f"The transcript could not be summed up: {error['message']}")

    async def _store_end(self, outcome: Outcome) -> SnapshotStatus:
        """Settles; a compaction that an abort meets on its way becomes an aborted row without a state."""
        stopped = Outcome(SnapshotStatus.ABORTED, FinishReason.ABORTED.value)
        kept = Outcome(outcome.status, outcome.finish_reason, outcome.state, outcome.error, interrupted=lambda: stopped)
        try:
            return (await self._store.settle_turn(self.lease, kept)).status
        except LeaseLostError as error:
            raise CompactionConflictError from error
