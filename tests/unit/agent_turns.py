"""Turns for tests of agents, and what an agent answers to them. Holds no test."""

import asyncio
from typing import Any

from functions.agents.base import Agent, AgentEvent, TextDelta, Turn
from store.models import Scope


def turn_of(
    message: str | dict[str, Any] | None,
    *,
    history: list[dict[str, Any]] | None = None,
    resume: dict[str, Any] | None = None,
    aborted: bool = False,
) -> Turn:
    """A turn that answers `message`; `aborted` says whether it is so from the start."""
    signal = asyncio.Event()
    if aborted:
        signal.set()
    return Turn(
        scope=Scope("tenant", "user"),
        session_id="session",
        snapshot_id="snap",
        parent_snapshot_id=None,
        model=None,
        history=history or [],
        message={"role": "user", "content": [{"text": message}]} if isinstance(message, str) else message,
        resume=resume,
        custom=None,
        artifacts=[],
        aborted=signal,
        workspace=None,
    )


async def events_of(agent: Agent, turn: Turn) -> list[AgentEvent]:
    """Everything that the agent answers."""
    return [event async for event in agent.run(turn)]


def said(events: list[AgentEvent]) -> str:
    """The text of the answer."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))
