"""Whatever happens to a conversation: what an agent is shown never has a call without its result, or the reverse."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from functions.agents.base import AgentEvent, TextDelta, ToolRequest, ToolResponse, Turn
from functions.engine.engine import Engine
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from store.canonical import Json
from store.errors import AlreadyCompactError
from store.memory.store import MemoryStore
from store.rules.history import messages_of, open_requests
from tests.contract.engine_turns import calls_without_response, engine_on, request_of
from tests.contract.turns import ANN


@dataclass(frozen=True)
class Exchange:
    """A turn: what the agent does step by step, and how it ends ("well", "failed", "stopped"). A call's ref is one of
    four, so that refs come again. `answers` makes it a resume: for each open call whether it is answered, or else run
    again."""

    steps: tuple[tuple[str, int], ...]
    end: str = "well"
    answers: tuple[bool, ...] | None = None


@dataclass(frozen=True)
class Change:
    """Something done to the transcript; `place` picks the message or the row."""

    kind: str
    place: int = 0


class Doer:
    """Does what `exchange` says. It tells only what was asked: by itself, or by whoever restarts a call."""

    name = "doer"

    def __init__(self) -> None:
        self.exchange = Exchange(())
        self.turns: list[Turn] = []
        self.waits = asyncio.Event()

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """The steps, then the end."""
        self.turns.append(turn)
        asked = [part["toolRequest"]["ref"] for part in (turn.resume or {}).get("restart", [])]
        for event in _events(self.exchange.steps, asked):
            yield event
        if self.exchange.end == "failed":
            raise RuntimeError("down")
        if self.exchange.end == "stopped":
            self.waits.set()
            await turn.aborted.wait()

    async def compact(self, messages: Sequence[dict[str, Json]], model: str | None) -> str:
        """Whole pairs are shown here too."""
        assert calls_without_response(messages) == []
        return "summary"


def _events(steps: Sequence[tuple[str, int]], asked: list[Json]) -> Iterator[AgentEvent]:
    for kind, number in steps:
        ref = f"r{number}"
        if kind == "say":
            yield TextDelta("so")
        elif kind != "tell":
            asked.append(ref)
            yield ToolRequest("look", ref, number, interrupt=kind == "interrupt")
        elif ref in asked:
            asked.remove(ref)
            yield ToolResponse("look", ref, number)


@dataclass
class World:
    """One session, and the rows that it could be restored to."""

    store: MemoryStore
    agent: Doer
    engine: Engine
    session_id: str | None = None
    rows: list[str] = field(default_factory=list)

    async def messages(self) -> list[Any]:
        """The transcript."""
        transcript = None if self.session_id is None else await self.store.get_transcript(ANN, self.session_id)
        return [raw.value() for raw in messages_of(transcript.state if transcript else None)]

    async def do(self, step: Exchange | Change) -> None:
        """One step; the agent's view is compared after each turn."""
        if isinstance(step, Change):
            await self._change(step)
            return
        resume = await self._resume(step.answers)
        messages = await self.messages()
        request = request_of(self.session_id, tail=messages[-1]["id"] if messages else None, resume=resume)
        before = len(self.agent.turns)
        await self._run(step, request)
        restarted = [part["toolRequest"]["ref"] for part in (resume or {}).get("restart", [])]
        for turn in self.agent.turns[before:]:
            assert sorted(calls_without_response(turn.history)) == sorted(restarted)

    async def _resume(self, answers: tuple[bool, ...] | None) -> dict[str, Any] | None:
        if answers is None or self.session_id is None:
            return None
        transcript = await self.store.get_transcript(ANN, self.session_id)
        requests = open_requests(messages_of(transcript.state if transcript else None))
        waiting = {request["ref"]: request for request in reversed(requests)}
        chosen = list(zip(waiting.values(), answers, strict=False))
        respond = [{"toolResponse": {"name": "look", "ref": call["ref"], "output": 1}} for call, told in chosen if told]
        restart = [{"toolRequest": call} for call, told in chosen if not told]
        return {name: parts for name, parts in (("respond", respond), ("restart", restart)) if parts} or None

    async def _run(self, exchange: Exchange, request: TurnRequest) -> None:
        self.agent.exchange = exchange
        self.agent.waits.clear()
        running = await self.engine.start(request)
        assert isinstance(running, RunningTurn)
        if exchange.end == "stopped":
            await self.agent.waits.wait()
            running.request_stop()
        async for _ in running.broadcast.read():
            pass
        assert running.settled is not None
        self.session_id = running.settled.session_id
        if running.settled.state is not None:
            self.rows.append(running.settled.snapshot_id)

    async def _change(self, change: Change) -> None:
        messages = await self.messages()
        if self.session_id is None or not messages:
            return
        message_id = messages[change.place % len(messages)]["id"]
        if change.kind == "truncate":
            await self.store.truncate(ANN, self.session_id, message_id)
        elif change.kind == "branch":
            session = await self.store.branch(ANN, self.session_id, message_id)
            self.session_id, self.rows = session.id, [session.head_snapshot_id or ""]
        elif change.kind == "restore":
            await self.store.restore(ANN, self.session_id, self.rows[change.place % len(self.rows)])
        else:
            await self._compact(self.session_id)

    async def _compact(self, session_id: str) -> None:
        try:
            await self.engine.compact(ANN, session_id, None)
        except AlreadyCompactError:
            return


async def play(steps: Sequence[Exchange | Change], compact_at_tokens: int) -> None:
    """All steps, and one more message at the end."""
    store, agent = MemoryStore(), Doer()
    async with engine_on(store, agent, compact_at_tokens=compact_at_tokens, abort_grace=1.0) as engine:
        world = World(store, agent, engine)
        for step in [*steps, Exchange(())]:
            await world.do(step)
        messages = await world.messages()
        assert len({message["id"] for message in messages}) == len(messages)


STEPS = st.tuples(st.sampled_from(["ask", "interrupt", "tell", "tell", "say"]), st.integers(0, 3))
EXCHANGES = st.builds(
    Exchange,
    st.lists(STEPS, max_size=6).map(tuple),
    st.sampled_from(["well", "well", "failed", "stopped"]),
    st.none() | st.lists(st.booleans(), min_size=1, max_size=3).map(tuple),
)
CHANGES = st.builds(Change, st.sampled_from(["truncate", "branch", "compact", "restore"]), st.integers(0, 30))

ASKS = Exchange((("ask", 1), ("interrupt", 2), ("tell", 1)))
RESTARTS = Exchange((("say", 0),), "stopped", (False,))


@settings(max_examples=60, deadline=None)
@given(st.lists(EXCHANGES | EXCHANGES | CHANGES, max_size=8), st.sampled_from([0, 20]))
@example([ASKS, RESTARTS], 0)
@example([ASKS, Exchange((("say", 0),), "well", (False,)), Change("compact")], 0)
@example([Exchange((("interrupt", 1), ("ask", 2), ("tell", 2), ("say", 0)))], 20)
@example([ASKS, Exchange(())], 1)
@example([ASKS, Change("branch", 1)], 0)
def test_an_agent_is_never_shown_half_a_call(steps: list[Exchange | Change], compact_at_tokens: int) -> None:
    asyncio.run(play(steps, compact_at_tokens))
