"""The echo agent for a server that something is to happen to: it notes every run, and the server is struck at a moment
that a test has chosen.

Holds no test. A server loads it by its settings: `AGENT` names it, `RUNS_FILE` takes a line for every run of the agent,
and `FATE_FILE` holds, when it is there, a moment and the signal that the whole server gets at it, once. Moments are
those of the agent, and before and after each kind of write of a turn, told by what is written.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from functions.agents.base import AgentEvent, TextDelta, ToolRequest, Turn
from functions.agents.echo import EchoAgent
from store.database import Create, Kind, Write
from store.firestore.database import FirestoreDatabase

_ON_ITS_WAY = 0.05  # seconds that an event is given to reach its readers

T = TypeVar("T")
Send: TypeAlias = Callable[[FirestoreDatabase, Sequence[Write]], Coroutine[Any, Any, T]]


class FatedAgent:
    """Made once, in a process that serves nothing but a test: it puts itself around the database's writes."""

    name = "echo"

    def __init__(self) -> None:
        self._echo = EchoAgent()
        FirestoreDatabase.commit = _struck(  # type: ignore[method-assign, assignment]  # the seam that a test has here
            FirestoreDatabase.commit, _kind_of
        )
        FirestoreDatabase.write_each = _struck(  # type: ignore[method-assign, assignment]  # as above
            FirestoreDatabase.write_each, lambda writes: "beat"
        )

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """As the echo agent's, with moments between its events."""
        _note(turn)
        await _reach("agent start")
        async for event in self._echo.run(turn):
            yield event
            if isinstance(event, TextDelta):
                await _reach("between texts")
            if isinstance(event, ToolRequest):
                await _reach("inside a tool call")
        await _reach("agent end")


def _note(turn: Turn) -> None:
    with open(os.environ["RUNS_FILE"], "a", encoding="utf-8") as runs:  # appending a short line is atomic
        runs.write(f"{turn.session_id} {turn.snapshot_id}\n")


async def _reach(moment: str) -> None:
    if _is_fated(moment):
        await asyncio.sleep(_ON_ITS_WAY)
        _strike(moment)


def _is_fated(moment: str) -> bool:
    fate = Path(os.environ.get("FATE_FILE", ""))
    return fate.is_file() and fate.read_text(encoding="utf-8").startswith(f"{moment}:")


def _strike(moment: str) -> None:
    if _is_fated(moment):
        fate = Path(os.environ["FATE_FILE"])
        name = fate.read_text(encoding="utf-8").partition(":")[2]
        fate.unlink()
        os.killpg(os.getpgrp(), signal.Signals[name])  # the server's own group: it was started in a session of its own


def _struck(send: Send[T], kind_of: Callable[[Sequence[Write]], str]) -> Send[T]:
    @wraps(send)
    async def sent(self: FirestoreDatabase, writes: Sequence[Write]) -> T:
        kind = kind_of(writes)
        _strike(f"before {kind}")
        answer = await send(self, writes)
        _strike(f"after {kind}")
        return answer

    return sent


def _kind_of(writes: Sequence[Write]) -> str:
    if any(isinstance(write, Create) and write.path.kind is Kind.SNAPSHOTS for write in writes):
        return "claim"
    if any(isinstance(write, Create) and write.path.kind is Kind.STREAMS for write in writes):
        return "segment"
    fields = [getattr(write, "fields", {}) for write in writes]
    return "settle" if any("settledBy" in given for given in fields) else "another write"
