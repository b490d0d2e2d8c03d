"""The replay agent: answers as a model once did, from a file of recorded sessions. Needs no model and no network.

The file has one session a line: `{"key", "messages": [{"role", "content": [part]}]}`. A session's recording is the one
that begins with the same user's text. The place in it is the number of messages so far, system messages not counted;
what follows there, up to the next user's message, is the answer.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import cycle, takewhile
from pathlib import Path
from typing import Final, TypeAlias

from functions.agents.base import (
    AgentError,
    AgentEvent,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolRequest,
    ToolResponse,
    Turn,
    is_aborted_within,
    text_of,
)
from store.canonical import Json, parse
from store.errors import InvalidRequestError

Message: TypeAlias = Mapping[str, Json]
Recordings: TypeAlias = Mapping[str, Sequence[Message]]
"""Messages without the system's, by the text of their first user message."""

_PIECES: Final = (1, 7, 3, 20, 2, 40)  # characters; uneven, so that nobody comes to rely on where a model cuts


class ReplayAgent:
    """Replays the sessions of `file`, read once, at the first turn; `delay` is the pause between events in seconds."""

    name = "replay"

    def __init__(self, file: Path, delay: float = 0.0) -> None:
        self._file = file
        self._delay = delay
        self._recordings: Recordings | None = None
        self._reading = asyncio.Lock()

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """AgentError where no recording begins like this session, or where it has no answer at this place."""
        for event in _events(_answer(await self._read(), turn)):
            if await is_aborted_within(turn, self._delay):
                return
            yield event
        yield Finish("stop")

    async def _read(self) -> Recordings:
        async with self._reading:
            if self._recordings is None:  # a failed reading is tried again by the next turn
                self._recordings = await asyncio.to_thread(_read_recordings, self._file)
            return self._recordings


def _read_recordings(file: Path) -> Recordings:
    recordings: dict[str, Sequence[Message]] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise AgentError("FAILED_PRECONDITION", f"The recorded sessions cannot be read: {error.strerror}.") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            messages = _messages(line, number)
            recordings.setdefault(_first_text(messages), messages)
    return recordings


def _messages(line: bytes, number: int) -> Sequence[Message]:
    try:
        messages = parse(line)["messages"]
        spoken = [message for message in messages if message["role"] != "system"]
        _first_text(spoken)
    except (InvalidRequestError, KeyError, TypeError, AttributeError) as error:
        raise AgentError("DATA_LOSS", f"Line {number} of the recorded sessions is no session.") from error
    return spoken


def _first_text(messages: Sequence[Message]) -> str:
    return next((text_of(message) for message in messages if message["role"] == "user"), "")


def _answer(recordings: Recordings, turn: Turn) -> Sequence[Message]:
    spoken = [message for message in turn.history if message["role"] != "system"]
    if turn.message is not None:
        spoken.append(turn.message)
    recording = recordings.get(_first_text(spoken))
    if recording is None:
        raise AgentError("NOT_FOUND", "No recorded session begins with this message.")
    answer = list(takewhile(lambda message: message["role"] != "user", recording[len(spoken) :]))
    if not answer:
        raise AgentError("NOT_FOUND", f"The recorded session has no answer after {len(spoken)} messages.")
    return answer


def _events(messages: Sequence[Message]) -> Iterator[AgentEvent]:
    for message in messages:
        for part in message["content"]:
            yield from _events_of(part)


def _events_of(part: Mapping[str, Json]) -> Iterator[AgentEvent]:
    if "text" in part:
        yield from map(TextDelta, _pieces(part["text"]))
    elif "reasoning" in part:
        yield from map(ReasoningDelta, _pieces(part["reasoning"]))
    elif "toolRequest" in part:
        request = part["toolRequest"]
        yield ToolRequest(request["name"], request["ref"], request["input"])
    elif "toolResponse" in part:
        response = part["toolResponse"]
        yield ToolResponse(response["name"], response["ref"], response["output"])
    else:
        raise AgentError("UNIMPLEMENTED", "The recorded answer has a part that no event can bring.")


def _pieces(text: str) -> Iterator[str]:
    """Cuts between characters; a Python string has no surrogate halves to cut between."""
    start = 0
    for length in cycle(_PIECES):
        if start >= len(text):
            return
        yield text[start : start + length]
        start += length
