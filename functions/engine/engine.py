"""The turns of one instance: starts them, stops them, and finds those that a caller may attach to."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from functions.agents.base import Agent
from functions.engine.admission import Admission
from functions.engine.compacting import Compaction
from functions.engine.compaction import require_compactable
from functions.engine.heart import Heart
from functions.engine.limits import EngineLimits
from functions.engine.listener import Listener
from functions.engine.queue import QUEUE_SECONDS, TurnQueue
from functions.engine.recording import MakeRecorder
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from functions.engine.storeless import NoStore
from functions.engine.tasks import Tasks
from functions.logs import about, coded
from functions.telemetry import Span, Telemetry, fail_span
from store.contract import QueuedTurns, RetentionStore, TurnStore, TurnStreams
from store.errors import StoreError, UnavailableError
from store.ids import mint_id
from store.models import Adoption, Beat, Claim, Lease, NewSession, Origin, SameSend, Scope
from store.rules.history import require_room
from store.state import State

_Result = TypeVar("_Result")
_LOG = logging.getLogger("firesession.engine")


class EngineStore(TurnStore, QueuedTurns, RetentionStore, TurnStreams, Protocol):
    """What an engine needs of a store."""


class Engine:
    """One per worker and event loop. `runner` is the instance's id, under which aborts find it."""

    def __init__(
        self,
        store: EngineStore,
        agent: Agent,
        limits: EngineLimits,
        *,
        make_recorder: MakeRecorder | None = None,
        queue: TurnQueue | None = None,
        telemetry: Telemetry | None = None,
        mint: Callable[[], str] = mint_id,
    ) -> None:
        self.runner = mint()
        self._store = store
        self._agent = agent
        self._limits = limits
        self._mint = mint
        self._make_recorder = make_recorder
        self._queue = queue
        self._telemetry = telemetry or Telemetry()
        self._is_draining = False
        self._closing = asyncio.Event()
        self._working: dict[str, RunningTurn | Compaction] = {}
        self._tasks = Tasks()
        self._starting: dict[str, bool] = {}  # minted ids whose claim is under way, and whether an abort overtook it
        self._followed: set[str] = set()  # turns that another instance wants to follow
        self._admission = Admission(limits, lambda: (work.lease for work in self._working.values()))
        self._heart = Heart(store, limits.heartbeat_interval, self._on_beat)
        self._listeners = [Listener("abort", store.watch_aborts, self.runner, self._on_abort)]
        if make_recorder is not None:
            self._listeners.append(Listener("follower", store.watch_segment_requests, self.runner, self._on_follower))

    @property
    def keeps_logs(self) -> bool:
        """Whether turns can be followed from other instances while they run."""
        return self._make_recorder is not None

    def running(self, scope: Scope, snapshot_id: str) -> RunningTurn | None:
        """The caller's turn of that id, where it runs here."""
        work = self._working.get(snapshot_id)
        return work if isinstance(work, RunningTurn) and work.lease.scope == scope else None

    async def start(self, request: TurnRequest) -> RunningTurn | SameSend:
        """Claims the turn and runs it; errors of the claim come through, and nothing was written then.

        A caller that goes away while the claim is under way leaves a turn that runs, not one that nobody runs."""
        task = asyncio.create_task(self._start(request))
        self._tasks.keep(task)
        return await asyncio.shield(task)

    async def _start(self, request: TurnRequest) -> RunningTurn | SameSend:
        models = models_of(request.agent or self._agent)
        lease = await self._claim(request.scope, request.claim(self._mint(), self._mint(), self.runner, models))
        return lease if isinstance(lease, SameSend) else self._run(request, lease)

    def start_without_store(self, request: TurnRequest, state: State) -> RunningTurn:
        """Runs a turn on a state that the caller keeps itself. TooManyMessagesError, and what `TurnRequest.accept`
        raises."""
        self._require_room(request.scope, None)
        require_room(state, self._limits.max_messages)
        request.accept(state)
        nowhere = NoStore()
        lease = nowhere.lease(request.scope, state, self._mint)
        turn = RunningTurn(request, lease, request.agent or self._agent, nowhere, self._limits, self._mint)
        self._admission.enter(request.scope)
        self._working[lease.snapshot_id] = turn
        self._tasks.keep(asyncio.create_task(self._live(turn), name=f"firesession-turn-{lease.snapshot_id}"))
        return turn

    async def start_detached(self, request: TurnRequest) -> tuple[str, str]:
        """Starts the turn for nobody in particular, here or through the queue: session and snapshot."""
        turn = await (self.start(request) if self._queue is None else self._enqueue(request, self._queue))
        if isinstance(turn, RunningTurn):
            return turn.lease.session_id, turn.lease.snapshot_id
        return turn.session_id, turn.snapshot_id

    async def _enqueue(self, request: TurnRequest, queue: TurnQueue) -> Lease | SameSend:
        """Enqueues first, then claims: a claim without its task would be a turn that nobody comes to run."""
        self._require_room(request.scope, None)
        snapshot_id = self._mint()
        claim = request.claim(snapshot_id, self._mint(), None, models_of(self._agent))
        await queue.enqueue(request.scope, snapshot_id)
        try:
            turn = await self._store.claim_turn(request.scope, replace(claim, queue_seconds=QUEUE_SECONDS))
        except UnavailableError:
            raise  # the claim may have landed after all, and need its task
        except StoreError:
            await queue.forget(snapshot_id)
            raise
        self._count(turn)
        if isinstance(turn, SameSend):
            await queue.forget(snapshot_id)
        elif turn.is_new_session:
            self._tasks.keep(asyncio.create_task(self.trim_sessions(request.scope)))
        return turn

    async def run_queued(self, scope: Scope, snapshot_id: str) -> Adoption | None:
        """Runs a turn that was enqueued, to its end; else says why it is not to be run."""
        self._require_room(scope, None)
        task = asyncio.create_task(self._adopt(scope, snapshot_id))
        self._tasks.keep(task)
        turn = await asyncio.shield(task)
        if isinstance(turn, Adoption):
            return turn
        async for _ in turn.broadcast.read():
            pass
        return None

    async def _adopt(self, scope: Scope, snapshot_id: str) -> RunningTurn | Adoption:
        """As `_claim` does: an abort can overtake the adoption's answer too."""
        if snapshot_id in self._starting or snapshot_id in self._working:
            return Adoption.RUNNING
        self._take_place(scope, snapshot_id)
        try:
            adopted = await self._store.adopt_turn(scope, snapshot_id, self.runner, self._mint())
        except BaseException:
            self._give_place_back(scope, snapshot_id)
            raise
        finally:
            overtaken = self._starting.pop(snapshot_id)
        if isinstance(adopted, Adoption):
            self._give_place_back(scope, snapshot_id)
            return adopted
        adopted.lease.is_aborting = adopted.lease.is_aborting or overtaken
        return self._run(TurnRequest(scope, adopted.message, adopted.resume), adopted.lease)

    async def compact(self, scope: Scope, session_id: str, instructions: str | None) -> dict[str, Any]:
        """Sums the session's transcript up, under the session's lease, and gives the stored message.
        AlreadyCompactError, CompactionConflictError, and what a claim raises."""
        task = asyncio.create_task(self._compact(scope, session_id, instructions))
        self._tasks.keep(task)
        return await asyncio.shield(task)

    async def _compact(self, scope: Scope, session_id: str, instructions: str | None) -> dict[str, Any]:
        claim = Claim(
            snapshot_id=self._mint(),
            attempt=self._mint(),
            session=NewSession(self._agent.name),
            session_id=session_id,
            check_tail=False,
            runner=self.runner,
            origin=Origin.COMPACT,
            models=models_of(self._agent),
            accept=require_compactable,
        )
        lease = await self._claim(scope, claim)
        assert isinstance(lease, Lease)  # a compaction has no message by which it could be sent twice
        compaction = Compaction(lease, self._agent, self._store, self._mint)
        self._join(compaction)
        try:
            return await compaction.run(self._heart.leave, instructions)
        finally:
            await self._part(compaction)

    async def _claim(self, scope: Scope, claim: Claim) -> Lease | SameSend:
        """Claims with the id registered beforehand, since an abort can overtake the claim's answer. Takes a place in
        the limits, which a lease keeps until `_part`."""
        self._require_room(scope, claim.message_id)
        self._take_place(scope, claim.snapshot_id)
        try:
            lease = await self._store.claim_turn(scope, claim)
        except BaseException:
            self._give_place_back(scope, claim.snapshot_id)
            raise
        finally:
            overtaken = self._starting.pop(claim.snapshot_id)
        if isinstance(lease, SameSend):
            self._give_place_back(scope, claim.snapshot_id)
        else:
            lease.is_aborting = lease.is_aborting or overtaken
        self._count(lease)
        return lease

    def _take_place(self, scope: Scope, snapshot_id: str) -> None:
        for listener in self._listeners:
            listener.start()
        self._admission.enter(scope)
        self._starting[snapshot_id] = False

    def _give_place_back(self, scope: Scope, snapshot_id: str) -> None:
        self._admission.leave(scope)
        self._followed.discard(snapshot_id)

    def _count(self, turn: Lease | SameSend) -> None:
        """What a claim was answered with."""
        if isinstance(turn, SameSend):
            self._telemetry.sent_again()
        elif turn.took_over:
            self._telemetry.expired()

    def _run(self, request: TurnRequest, lease: Lease) -> RunningTurn:
        agent = request.agent or self._agent
        turn = RunningTurn(request, lease, agent, self._store, self._limits, self._mint, self._make_recorder)
        self._join(turn)
        if lease.snapshot_id in self._followed:
            turn.record()
        task = asyncio.create_task(self._live(turn), name=f"firesession-turn-{lease.snapshot_id}")
        self._tasks.keep(task)
        return turn

    async def _live(self, turn: RunningTurn) -> None:
        ids = {"session": turn.lease.session_id, "snapshot": turn.lease.snapshot_id}
        about(**ids)
        try:
            with self._telemetry.span("turn", ids) as span:
                await turn.run(self._heart.leave)
                self._tell_end(turn, span)
        finally:
            await self._part(turn)
        if turn.lease.is_new_session:
            await self.trim_sessions(turn.lease.scope)

    def _tell_end(self, turn: RunningTurn, span: Span) -> None:
        """To those who watch the service; its readers know already."""
        if turn.settled is None:
            self._telemetry.turn_failed_to_end(turn.error)
            fail_span(span, StoreError.code if turn.error is None else turn.error.code)
            return
        status, state = turn.settled.status.value, turn.settled.state
        self._telemetry.turn_ended(status, state.size if state else None)
        span.set_attribute("status", status)
        _LOG.info("the turn ended: %s", status)

    async def trim_sessions(self, scope: Scope) -> None:
        """The cap on a user's sessions, checked where one was made; the sweep makes up for what fails here."""
        try:
            await self._store.trim_sessions(scope)
        except StoreError as error:
            _LOG.warning("the sessions of a user were not trimmed: %s", error.code, extra=coded(error))

    def _join(self, work: RunningTurn | Compaction) -> None:
        self._working[work.lease.snapshot_id] = work
        self._heart.join(work.lease)
        if work.lease.is_aborting:
            work.request_stop()

    async def _part(self, work: RunningTurn | Compaction) -> None:
        await self._heart.leave(work.lease)
        del self._working[work.lease.snapshot_id]
        self._give_place_back(work.lease.scope, work.lease.snapshot_id)

    def _require_room(self, scope: Scope, message_id: str | None) -> None:
        """RateLimitedError; UnavailableError while the instance shuts down."""
        if self._is_draining:
            raise UnavailableError("This instance is shutting down.", retryAfterSeconds=1)
        self._admission.require_room(scope, message_id)

    def _on_beat(self, lease: Lease, beat: Beat) -> None:
        turn = self._working.get(lease.snapshot_id)
        if turn is None or turn.lease is not lease:
            return
        if beat is Beat.LOST:
            turn.lose()
        else:
            turn.request_stop()

    def _on_abort(self, snapshot_id: str) -> None:
        if snapshot_id in self._starting:
            self._starting[snapshot_id] = True
        turn = self._working.get(snapshot_id)
        if turn is not None:
            turn.request_stop()

    def _on_follower(self, snapshot_id: str) -> None:
        turn = self._working.get(snapshot_id)
        if snapshot_id in self._starting or turn is not None:
            self._followed.add(snapshot_id)
        if isinstance(turn, RunningTurn):
            turn.record()

    async def drain(self, grace: float) -> None:
        """Takes no new turns, gives those that run `grace` seconds, then stores what they have produced."""
        self._is_draining = True
        await self._tasks.finish(grace)
        await self.close()

    async def until_closing(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """What the work gives; UnavailableError where the instance ends before. For what only waits for others: it
        would hold the process up."""
        working = asyncio.create_task(work)
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait((working, closing), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise UnavailableError("This instance is shutting down.", retryAfterSeconds=1)
            return working.result()
        finally:
            working.cancel()
            closing.cancel()
            await asyncio.gather(working, closing, return_exceptions=True)

    async def close(self) -> None:
        """Stops all turns, those too whose claim is under way, waits for their ends, and frees listeners and heart."""
        self._closing.set()
        while left := self._tasks.unfinished():
            for work in self._working.values():
                work.hurry()
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        for listener in self._listeners:
            await listener.close()
        await self._heart.close()


def models_of(agent: Agent) -> frozenset[str] | None:
    """The models that the agent says it can use; None where it does not say."""
    models = getattr(agent, "models", None)
    return None if models is None else frozenset(models)
