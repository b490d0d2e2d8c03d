"""Turns through an engine: agents that answer as they are told, and what became of a turn. Holds no test."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from functions.agents.base import Agent, AgentEvent, Finish, TextDelta, ToolRequest, Turn
from functions.engine.engine import Engine
from functions.engine.limits import EngineLimits
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from store.canonical import Json
from store.documents.store import DocumentStore
from store.ids import mint_id
from store.models import NewSession, Scope, Snapshot
from tests.contract.turns import ANN

Answer = Sequence[AgentEvent | Exception | asyncio.Event]
"""What an agent does in one turn: events are given out, exceptions raised, and set events waited for."""

ASK = ToolRequest("ask", "r1", {"q": 1}, interrupt=True)
ASK_AGAIN = ToolRequest("ask", "r2", [2], interrupt=True)


class ScriptedAgent:
    """Gives its answers one turn after the other, then "ok" for ever; `turns` are those that it was given."""

    name = "scripted"

    def __init__(self, *answers: Answer) -> None:
        self.turns: list[Turn] = []
        self._answers = list(answers)

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """The next answer."""
        self.turns.append(turn)
        for step in self._answers.pop(0) if self._answers else [TextDelta("ok")]:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
            else:
                yield step


class SummingAgent(ScriptedAgent):
    """Has a hook of its own for compactions, which gives `summaries` one after the other, raises those that are
    exceptions, and waits for those that are events; `summed` is what it was shown, and `asked` is set by then."""

    def __init__(self, *summaries: object, answers: Sequence[Answer] = ()) -> None:
        super().__init__(*answers)
        self.summed: list[list[Json]] = []
        self.asked = asyncio.Event()
        self._summaries = list(summaries)

    async def compact(self, messages: Sequence[dict[str, Json]], model: str | None) -> str:
        """The next summary."""
        self.summed.append(list(messages))
        self.asked.set()
        summary: Any = self._summaries.pop(0)
        if isinstance(summary, Exception):
            raise summary
        if isinstance(summary, asyncio.Event):
            await summary.wait()
            return "waited"
        return summary  # type: ignore[no-any-return]  # a hook may give anything


@asynccontextmanager
async def engine_on(store: DocumentStore, agent: Agent, **limits: Any) -> AsyncIterator[Engine]:
    """An engine that is closed at the end."""
    given = {"heartbeat_interval": 15.0, "abort_grace": 0.2, "turns_per_instance": 20, "turns_per_user": 20, **limits}
    engine = Engine(store, agent, EngineLimits(**given))
    try:
        yield engine
    finally:
        await engine.close()


def request_of(
    session: str | None = None,
    text: str | None = "Hello",
    *,
    tail: str | None = None,
    resume: dict[str, Json] | None = None,
    scope: Scope = ANN,
    **fields: Any,
) -> TurnRequest:
    """A turn as a caller asks for it: a message of one text, or a resume."""
    message: dict[str, Json] | None = None
    if resume is None:
        message = {"id": mint_id(), "role": "user", "content": [{"text": text}]}
    new = NewSession("scripted")
    return TurnRequest(scope, message, resume, session_id=session, last_message_id=tail, new_session=new, **fields)


async def finished(engine: Engine, request: TurnRequest) -> RunningTurn:
    """The turn at its end."""
    turn = await engine.start(request)
    assert isinstance(turn, RunningTurn)
    async for _ in turn.broadcast.read():
        pass
    return turn


async def said(
    engine: Engine, store: DocumentStore, session: str | None = None, text: str = "Hello", **fields: Any
) -> Snapshot:
    """One whole turn on whatever the transcript ends with: its settled row."""
    found = None if session is None else await store.get_session(ANN, session)
    tail = found.last_message_id if found else None
    turn = await finished(engine, request_of(session, text, tail=tail, **fields))
    assert turn.settled is not None, turn.broadcast.events[-1]
    return turn.settled


def interrupting(*requests: ToolRequest) -> list[AgentEvent]:
    """The answer of an agent that asks somebody for something."""
    return [*requests, Finish("interrupted")]


def heard(turn: Turn) -> list[str]:
    """The texts of a turn's history."""
    return ["".join(part.get("text", "") for part in message["content"]) for message in turn.history]


def calls_without_response(history: Sequence[dict[str, Json]]) -> list[Json]:
    """The refs of an agent's history that are not one request followed by one response. Knows no rule of ours."""
    waiting: list[Json] = []
    odd: list[Json] = []
    for message in history:
        for part in message["content"]:
            if "toolRequest" in part:
                waiting.append(part["toolRequest"]["ref"])
            elif "toolResponse" in part:
                ref = part["toolResponse"]["ref"]
                (waiting.remove if ref in waiting else odd.append)(ref)
    return waiting + odd
