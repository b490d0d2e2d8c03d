"""One turn from its claim to its end: the agent in a task of its own, decoupled from whoever reads the events."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import replace
from typing import Protocol

from functions.agents.base import Agent, Turn
from functions.dialects.native import ERROR, TURN_START
from functions.engine.assembly import Assembly, Event
from functions.engine.broadcast import Broadcast
from functions.engine.compaction import compaction_message, is_due, summary_until
from functions.engine.ending import INTERNAL, error_of, last_model_message, turn_end
from functions.engine.limits import EngineLimits
from functions.engine.recording import MakeRecorder
from functions.engine.requests import TurnRequest
from functions.engine.titling import Titling
from functions.logs import coded
from store.canonical import Json, dump
from store.errors import StateTooLargeError, StoreError
from store.models import FinishReason, Lease, Outcome, Snapshot, SnapshotStatus
from store.rules.history import last_message_id, visible_history

_LOG = logging.getLogger("firesession.turns")
_HURRIED_GRACE = 0.5  # seconds


class SettlingStore(Protocol):
    """What a turn that runs needs of a store."""

    async def settle_turn(self, lease: Lease, outcome: Outcome) -> Snapshot:
        """Publishes the turn and gives the lease back."""


class RunningTurn:
    """A claimed turn. `run` is its whole life; it ends with the lease given back, or known to be lost."""

    def __init__(
        self,
        request: TurnRequest,
        lease: Lease,
        agent: Agent,
        store: SettlingStore,
        limits: EngineLimits,
        mint: Callable[[], str],
        make_recorder: MakeRecorder | None = None,
    ) -> None:
        self.lease = lease
        self.broadcast = Broadcast(self._on_abandoned)
        self.settled: Snapshot | None = None
        self.error: StoreError | None = None  # why it could not be settled, where that is known
        self._recorder = make_recorder(lease, self.broadcast) if make_recorder is not None else None
        self._request = request
        self._agent = agent
        self._store = store
        self._limits = limits
        self._grace = limits.abort_grace
        self._mint = mint
        self._message_id = mint()
        self._given = request.given(lease.state, mint)
        self._brought = self._given[:-1] if request.message is not None else self._given
        self._assembly = Assembly(lease.state, self._given, self._message_id, mint)
        self._aborted = asyncio.Event()
        self._lost = asyncio.Event()
        self._is_done_producing = False

    def request_stop(self) -> None:
        """The turn shall end now; what was produced is kept."""
        self._aborted.set()

    def hurry(self) -> None:
        """As `request_stop`, with hardly any patience: the process is about to end."""
        self._grace = min(self._grace, _HURRIED_GRACE)
        self._aborted.set()

    def record(self) -> None:
        """Another instance wants to follow the turn."""
        if self._recorder is not None:
            self._recorder.start()

    def lose(self) -> None:
        """The lease is gone: stop working, nothing of the turn can be published."""
        self._lost.set()
        self._aborted.set()

    def _on_abandoned(self) -> None:
        if self._request.cancels_on_disconnect:
            self.request_stop()

    async def run(self, leave_heartbeats: Callable[[Lease], Awaitable[None]]) -> None:
        """Never raises: how the turn ended is the last event."""
        try:
            self.broadcast.publish(self._start_event())
            outcome = await self._titled()
            await leave_heartbeats(self.lease)
            if self._recorder is not None:
                await self._recorder.stop()
            self.settled = await self._settle(self._closed(outcome))
            self.broadcast.publish(self._end_event(self.settled))
        except StoreError as error:
            self.error = error
            _LOG.warning("turn %s was not settled: %s", self.lease.snapshot_id, error.code, extra=coded(error))
            self.broadcast.publish(Event(ERROR, {"code": error.code, "message": error.message}))
        except Exception:
            _LOG.exception("turn %s failed", self.lease.snapshot_id)
            self.broadcast.publish(Event(ERROR, {"code": "internal", "message": "The turn could not be ended."}))
        finally:
            if self._recorder is not None:
                await self._recorder.stop()
            self.broadcast.close()

    def _start_event(self) -> Event:
        data: dict[str, Json] = {"sessionId": self.lease.session_id, "snapshotId": self.lease.snapshot_id}
        if self.lease.parent_id is not None:
            data["parentId"] = self.lease.parent_id
        if self._request.message is not None:
            data["userMessageId"] = self._request.message["id"]
        return Event(TURN_START, data | {"messageId": self._message_id})

    def _end_event(self, settled: Snapshot) -> Event:
        return turn_end(settled, last_model_message(settled), last_message_id(self.lease.state))

    def _closed(self, outcome: Outcome) -> Outcome:
        """The outcome with the end of the event log, also for the case that an abort turns it into another one."""
        if self._recorder is None:
            return outcome
        other = outcome.interrupted
        return replace(
            outcome,
            segments=self._recorder.closing(self._end_event(self._snapshot_of(outcome))),
            segments_expire_at=self._recorder.expires_at,
            segments_were_requested=self._recorder.was_asked,
            interrupted=None if other is None else lambda: self._closed(other()),
        )

    def _snapshot_of(self, outcome: Outcome) -> Snapshot:
        """What the row will say of the turn, as far as its last event tells it."""
        return Snapshot(
            session_id=self.lease.session_id,
            snapshot_id=self.lease.snapshot_id,
            status=outcome.status,
            state=outcome.state,
            finish_reason=outcome.finish_reason,
            error=outcome.error,
            usage=outcome.usage,
            message_id=self.lease.message_id,
            last_message_id=last_message_id(outcome.state),
        )

    async def _titled(self) -> Outcome:
        titling = Titling(self._agent, self.lease, self._request.message, self._turn)
        try:
            return await titling.applied_to(await self._produce(), self._aborted)
        finally:
            titling.stop()

    async def _produce(self) -> Outcome:
        """Runs the agent to its end, or until it is stopped, and says how that was."""
        if self.lease.is_aborting:
            self._aborted.set()
        working = asyncio.create_task(self._consume())
        stopping = asyncio.create_task(self._aborted.wait())
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            await self._stop(working)
        self._is_done_producing = True
        if self._aborted.is_set():
            return self._interrupted()
        return self._outcome_of(working)

    async def _stop(self, working: "asyncio.Task[None]") -> None:
        """Gives the agent its grace, then cancels it; one that ignores even that is left behind, its events unheard."""
        if not self._lost.is_set():
            await asyncio.wait((working,), timeout=self._grace)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,), timeout=self._grace)
        if not working.done():
            _LOG.error("the agent of turn %s ignores its cancellation", self.lease.snapshot_id)

    async def _consume(self) -> None:
        turn = self._turn()
        # An answer belongs to the exchange that it goes on with, which no summary may part from it.
        if self._request.message is not None and is_due(self.lease, self._limits.compact_at_tokens):
            turn = await self._compacted(turn)
            if self._aborted.is_set():
                return
        async for event in self._agent.run(turn):
            if self._is_done_producing:
                return
            for seen in self._assembly.add(event):
                dump(seen.data)  # what JSON cannot hold fails the turn here, before a reader meets it
                self.broadcast.publish(seen)

    def _turn(self) -> Turn:
        lease, request = self.lease, self._request
        return Turn(
            scope=lease.scope,
            session_id=lease.session_id,
            snapshot_id=lease.snapshot_id,
            parent_snapshot_id=lease.parent_id,
            model=lease.model,
            history=[*visible_history(lease.state), *deepcopy(self._brought)],
            message=deepcopy(request.message),
            resume=deepcopy(request.resume),
            custom=lease.state.get("custom"),
            artifacts=lease.state.get("artifacts") or [],
            aborted=self._aborted,
            workspace=None,
        )

    async def _compacted(self, turn: Turn) -> Turn:
        """The turn behind a fresh compaction. One that fails costs the user nothing: the turn goes on without."""
        try:
            text = await summary_until(self._aborted, self._agent, self.lease)
            if text is None:
                return turn
            message = compaction_message(text, self._mint)
            dump(message)
        except Exception:  # whatever an agent's own summary raises
            _LOG.exception("turn %s goes on without its compaction", self.lease.snapshot_id)
            return turn
        self._assembly.insert_compaction(message)
        return replace(turn, history=[deepcopy(message)])

    def _outcome_of(self, working: "asyncio.Task[None]") -> Outcome:
        failure = working.exception()
        if failure is not None:
            return self._failed(failure)
        assembly = self._assembly
        reason = FinishReason.INTERRUPTED.value if assembly.interrupts else assembly.finish_reason
        try:
            state = assembly.finished()
        except StoreError as error:
            return self._failed(error)
        return Outcome(
            status=SnapshotStatus.COMPLETED,
            finish_reason=reason or FinishReason.STOP.value,
            state=state,
            usage=assembly.usage,
            event_count=self.broadcast.count + 1,
            interrupted=self._interrupted,
        )

    def _interrupted(self) -> Outcome:
        """What is stored of a turn that was asked to stop. Nothing, where what it produced is outside of JSON."""
        try:
            state = self._assembly.interrupted()
        except StoreError:
            state = None
        return Outcome(
            status=SnapshotStatus.ABORTED,
            finish_reason=FinishReason.ABORTED.value,
            state=state,
            usage=self._assembly.usage,
            event_count=self.broadcast.count + 1,
        )

    def _failed(self, failure: BaseException) -> Outcome:
        error = error_of(failure)
        if error["status"] == INTERNAL:
            told = {"code": INTERNAL}
            _LOG.error("the agent failed in turn %s", self.lease.snapshot_id, exc_info=failure, extra=told)
        return Outcome(
            status=SnapshotStatus.FAILED,
            finish_reason=FinishReason.FAILED.value,
            error=error,
            event_count=self.broadcast.count + 1,
            interrupted=self._interrupted,
        )

    async def _settle(self, outcome: Outcome) -> Snapshot:
        try:
            return await self._store.settle_turn(self.lease, outcome)
        except StateTooLargeError as error:
            return await self._store.settle_turn(self.lease, self._closed(self._failed(error)))
