"""The turns of one instance: starts them, stops them, and finds those that a caller may attach to."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from functions.agents.base import Agent
from functions.engine.heart import Heart
from functions.engine.listener import AbortListener
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from store.contract import TurnStore
from store.ids import mint_id
from store.models import Beat, Lease, SameSend, Scope


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Seconds and counts that an engine keeps to."""

    heartbeat_interval: float
    abort_grace: float
    turns_per_instance: int
    turns_per_user: int


class TooManyTurnsError(Exception):
    """The instance, or the user on it, runs as many turns as it may. Becomes a 429 at the edge."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Engine:
    """One per worker and event loop. `runner` is the instance's id, under which aborts find it."""

    def __init__(self, store: TurnStore, agent: Agent, limits: EngineLimits, mint: Callable[[], str] = mint_id) -> None:
        self.runner = mint()
        self._store = store
        self._agent = agent
        self._limits = limits
        self._mint = mint
        self._turns: dict[str, RunningTurn] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting: dict[str, bool] = {}  # minted ids whose claim is under way, and whether an abort overtook it
        self._users: Counter[Scope] = Counter()
        self._heart = Heart(store, limits.heartbeat_interval, self._on_beat)
        self._listener = AbortListener(store, self.runner, self._on_abort)

    def running(self, scope: Scope, snapshot_id: str) -> RunningTurn | None:
        """The caller's turn of that id, where it runs here."""
        turn = self._turns.get(snapshot_id)
        return turn if turn is not None and turn.lease.scope == scope else None

    async def start(self, request: TurnRequest) -> RunningTurn | SameSend:
        """Claims the turn and runs it; errors of the claim come through, and nothing was written then.

        A caller that goes away while the claim is under way leaves a turn that runs, not one that nobody runs."""
        self._require_room(request.scope)
        self._listener.start()
        return await asyncio.shield(asyncio.create_task(self._claim_and_run(request)))

    async def _claim_and_run(self, request: TurnRequest) -> RunningTurn | SameSend:
        snapshot_id, attempt = self._mint(), self._mint()
        claim = request.claim(snapshot_id, attempt, self.runner)
        self._users[request.scope] += 1
        self._starting[snapshot_id] = False
        try:
            lease = await self._store.claim_turn(request.scope, claim)
        except BaseException:
            self._leave(request.scope)
            raise
        finally:
            overtaken = self._starting.pop(snapshot_id)
        if isinstance(lease, SameSend):
            self._leave(request.scope)
            return lease
        lease.is_aborting = lease.is_aborting or overtaken
        return self._run(request, lease)

    def _run(self, request: TurnRequest, lease: Lease) -> RunningTurn:
        turn = RunningTurn(request, lease, self._agent, self._store, self._limits.abort_grace, self._mint)
        self._turns[lease.snapshot_id] = turn
        self._heart.join(lease)
        task = asyncio.create_task(self._live(turn), name=f"firesession-turn-{lease.snapshot_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return turn

    async def _live(self, turn: RunningTurn) -> None:
        try:
            await turn.run(self._heart.leave)
        finally:
            await self._heart.leave(turn.lease)
            del self._turns[turn.lease.snapshot_id]
            self._leave(turn.lease.scope)

    def _leave(self, scope: Scope) -> None:
        self._users[scope] -= 1
        if self._users[scope] <= 0:
            del self._users[scope]

    def _require_room(self, scope: Scope) -> None:
        if self._users.total() >= self._limits.turns_per_instance:
            raise TooManyTurnsError("This instance runs as many turns as it may.")
        if self._users[scope] >= self._limits.turns_per_user:
            raise TooManyTurnsError("You run as many turns at once as you may.")

    def _on_beat(self, lease: Lease, beat: Beat) -> None:
        turn = self._turns.get(lease.snapshot_id)
        if turn is None or turn.lease is not lease:
            return
        if beat is Beat.LOST:
            turn.lose()
        else:
            turn.request_stop()

    def _on_abort(self, snapshot_id: str) -> None:
        if snapshot_id in self._starting:
            self._starting[snapshot_id] = True
        turn = self._turns.get(snapshot_id)
        if turn is not None:
            turn.request_stop()

    async def close(self) -> None:
        """Stops all turns, waits for their ends, and frees listener and heart."""
        for turn in self._turns.values():
            turn.request_stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.close()
        await self._heart.close()
