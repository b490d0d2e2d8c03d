"""What an agent is: the protocol, the turn it is given, and the events it answers with. Imports no agent.

One agent object serves all turns at once, so whatever belongs to a turn is in `Turn`, and `run` keeps nothing on the
object. Raising fails the turn: `AgentError` with its status and message, anything else as an internal error. Ending
after a tool request with `interrupt=True` settles the turn as interrupted; the next turn's `resume` answers it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from store.canonical import Json

if TYPE_CHECKING:
    from store.models import Scope

FinishReason: TypeAlias = Literal["stop", "length", "blocked", "interrupted", "other", "unknown", "aborted", "failed"]
ErrorStatus: TypeAlias = Literal[
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, as its agent sees it. The values are the agent's own copies; changing them changes nothing stored."""

    scope: "Scope"
    session_id: str
    snapshot_id: str
    parent_snapshot_id: str | None
    model: str | None
    history: Sequence[dict[str, Json]]
    """The messages before this turn, from the newest compaction on, oldest first."""
    message: dict[str, Json] | None
    """The user's message; None where `resume` is given."""
    resume: dict[str, Json] | None
    """`{respond?: [part], restart?: [part]}`; None where `message` is given."""
    custom: Json
    artifacts: Sequence[dict[str, Json]]
    aborted: asyncio.Event
    """Set when the turn shall stop. An agent that goes on regardless is cancelled after a grace."""
    workspace: object | None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the model's text, cut anywhere."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next piece of the model's reasoning, cut anywhere."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A message of the model that is given as a whole: kept as it is, and told at the turn's end, not piece by piece.
    A tool request in it whose part has `metadata.interrupt` is one that the caller has to answer."""

    content: list[dict[str, Json]]


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A call that the model asks for; with `interrupt` one that the caller has to answer."""

    name: str
    ref: str
    input: Json
    interrupt: bool = False


@dataclass(frozen=True, slots=True)
class ToolResponse:
    """The result of the call with the same `ref`."""

    name: str
    ref: str
    output: Json


@dataclass(frozen=True, slots=True)
class SetCustom:
    """Replaces the session's custom state."""

    value: Json


@dataclass(frozen=True, slots=True)
class AddArtifact:
    """Adds an artifact, or replaces the one of the same name."""

    name: str
    parts: list[dict[str, Json]]
    metadata: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the turn; None where unknown. The last one of a turn counts."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """Why the model stopped. Optional; `stop` is assumed."""

    reason: FinishReason


AgentEvent: TypeAlias = (
    TextDelta | ReasoningDelta | ModelMessage | ToolRequest | ToolResponse | SetCustom | AddArtifact | Usage | Finish
)


class AgentError(Exception):
    """Fails the turn. Status, message and details are stored and shown to the caller: name no secrets."""

    def __init__(self, status: ErrorStatus, message: str, details: Json = None) -> None:
        super().__init__(message)
        self.status: Final = status
        self.message: Final = message
        self.details: Final = details


class Agent(Protocol):
    """Answers turns."""

    @property
    def name(self) -> str:
        """The agent's name, stored with its sessions."""

    def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """The turn's events, in order; usually an asynchronous generator."""


def text_of(message: Mapping[str, Json]) -> str:
    """The text parts of a message, joined."""
    return "".join(part["text"] for part in message["content"] if isinstance(part.get("text"), str))


async def is_aborted_within(turn: Turn, seconds: float) -> bool:
    """Waits `seconds`, or until the turn is aborted; whether it is. With 0 only lets other tasks run."""
    if seconds <= 0:
        await asyncio.sleep(0)
    else:
        try:
            await asyncio.wait_for(turn.aborted.wait(), seconds)
        except TimeoutError:
            return False
    return turn.aborted.is_set()
