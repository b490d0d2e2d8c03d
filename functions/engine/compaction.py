"""Summing a transcript up: when that is possible, who is asked, and what is stored of the answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from functions.agents.base import Agent, AgentError, TextDelta, Turn
from store.canonical import Json
from store.errors import AlreadyCompactError
from store.ids import mint_id
from store.models import Lease
from store.rules.history import is_compaction, messages_of, role_of, since_compaction, visible_history
from store.rules.transcripts import with_calls_closed
from store.state import Raw, State

_MESSAGE_DEPTH = 3
CHARACTERS_PER_TOKEN = 4

PROMPT: Final = """\
Write a checkpoint of the conversation above, so that it can go on from the checkpoint alone. Do not answer the \
conversation. Where it begins with an earlier checkpoint, carry on what still holds. Keep identifiers, names, numbers, \
addresses and commands exactly. Answer with this XML and nothing else; leave out elements that would be empty:
<checkpoint>
  <objectives>what the user wants</objectives>
  <constraints>limits and preferences to keep to</constraints>
  <decisions>what was decided, and why</decisions>
  <completed_work>what is done, with its results</completed_work>
  <blockers>what stands in the way</blockers>
  <next_steps>what to do next</next_steps>
</checkpoint>"""


def require_compactable(state: State) -> None:
    """AlreadyCompactError unless a complete turn stands behind the newest compaction."""
    messages = messages_of(state)
    last = messages[-1].value() if messages else None
    if role_of(last) not in ("model", "tool") or is_compaction(last):
        raise AlreadyCompactError


def is_due(lease: Lease, at_tokens: int) -> bool:
    """Whether the transcript is long enough for a compaction by itself: by the last turn's tokens, else by length."""
    if at_tokens <= 0:
        return False
    try:
        require_compactable(lease.state)
    except AlreadyCompactError:
        return False
    return _tokens(lease) > at_tokens


def _tokens(lease: Lease) -> int:
    usage = lease.parent_usage or {}
    counted = usage.get("totalTokens") or usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
    if counted:
        return counted
    return sum(len(raw.text.decode()) for raw in since_compaction(messages_of(lease.state))) // CHARACTERS_PER_TOKEN


async def summary_until(
    aborted: asyncio.Event, agent: Agent, lease: Lease, instructions: str | None = None
) -> str | None:
    """`summarise`; None as soon as `aborted` is set. An agent that ignores its cancellation then is left behind:
    nothing of a summary is worth waiting for."""
    summing = asyncio.create_task(summarise(agent, lease, aborted, instructions))
    summing.add_done_callback(lambda task: task.cancelled() or task.exception())  # one left behind may fail unheard
    stopping = asyncio.create_task(aborted.wait())
    try:
        await asyncio.wait((summing, stopping), return_when=asyncio.FIRST_COMPLETED)
        return summing.result() if summing.done() and not summing.cancelled() else None
    finally:
        stopping.cancel()
        summing.cancel()


async def summarise(agent: Agent, lease: Lease, aborted: asyncio.Event, instructions: str | None = None) -> str:
    """The agent's own summary, else its answer to PROMPT. AgentError where it has none to give."""
    history = closed_history(lease.state)
    own: Callable[[Sequence[Json], str | None], Awaitable[str]] | None = getattr(agent, "compact", None)
    if own is not None:
        text = await own(history, lease.model)
    else:
        text = await _asked(agent, _turn(lease, history, aborted, instructions))
    if not isinstance(text, str) or not text.strip():
        raise AgentError("INTERNAL", "The agent gave no summary.")
    return text


def closed_history(state: State) -> list[Json]:
    """What the agent is shown, with what closes the tool requests that still wait."""
    return visible_history(state.with_messages(with_calls_closed(messages_of(state), mint_id)))


def _turn(lease: Lease, history: list[Json], aborted: asyncio.Event, instructions: str | None) -> Turn:
    text = PROMPT if instructions is None else f"{PROMPT}\nMind in particular: {instructions}"
    return Turn(
        scope=lease.scope,
        session_id=lease.session_id,
        snapshot_id=lease.snapshot_id,
        parent_snapshot_id=lease.parent_id,
        model=lease.model,
        history=history,
        message={"id": mint_id(), "role": "user", "content": [{"text": text}]},
        resume=None,
        custom=lease.state.get("custom"),
        artifacts=lease.state.get("artifacts") or [],
        aborted=aborted,
        workspace=None,
    )


async def _asked(agent: Agent, turn: Turn) -> str:
    return "".join([event.text async for event in agent.run(turn) if isinstance(event, TextDelta)])


def compaction_message(text: str, mint: Callable[[], str]) -> dict[str, Any]:
    """The message that stands for everything before it."""
    return {"id": mint(), "role": "user", "content": [{"text": text}], "metadata": {"isCompaction": True}}


def compacted(state: State, message: dict[str, Any], mint: Callable[[], str]) -> State:
    """The state with the compaction at its end; everything before stays in the transcript."""
    closed = with_calls_closed(messages_of(state), mint)
    return state.with_messages([*closed, Raw.of(message, _MESSAGE_DEPTH)])
