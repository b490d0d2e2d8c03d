"""A compaction on its own: claims the session like a turn, asks for the summary, and settles it as the new head."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from functions.agents.base import Agent
from functions.engine.compaction import compacted, compaction_message, summarise
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
    """One compaction under its lease. CompactionConflictError where it was stopped or superseded."""

    def __init__(
        self, lease: Lease, agent: Agent, store: TurnStore, mint: Callable[[], str], abort_grace: float
    ) -> None:
        self.lease = lease
        self._agent = agent
        self._store = store
        self._mint = mint
        self._grace = abort_grace
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
        working = asyncio.create_task(summarise(self._agent, self.lease, self._stopped, instructions))
        stopping = asyncio.create_task(self._stopped.wait())
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._stopped.is_set():
            working.cancel()
            await asyncio.wait((working,), timeout=self._grace)  # an agent that ignores even that is left behind
        await leave_heartbeats(self.lease)
        return await self._settle(working)

    async def _settle(self, working: "asyncio.Task[str]") -> dict[str, Any]:
        if not working.done() or working.cancelled():
            await self._store_end(Outcome(SnapshotStatus.ABORTED, FinishReason.ABORTED.value))
            raise CompactionConflictError
        failure = working.exception()
        if failure is not None:
            return await self._fail(failure)
        message = compaction_message(working.result(), self._mint)
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
        raise CompactionFailedError(f"The transcript could not be summed up: {error['message']}")

    async def _store_end(self, outcome: Outcome) -> SnapshotStatus:
        """Settles; a compaction that an abort meets on its way becomes an aborted row without a state."""
        stopped = Outcome(SnapshotStatus.ABORTED, FinishReason.ABORTED.value)
        kept = Outcome(outcome.status, outcome.finish_reason, outcome.state, outcome.error, interrupted=lambda: stopped)
        try:
            return (await self._store.settle_turn(self.lease, kept)).status
        except LeaseLostError as error:
            raise CompactionConflictError from error
