"""The echo agent: repeats what it is told, and does on command what agents do. For tests and demonstrations; needs no
model and no network, and the same turn always gives the same events.

A message is answered with `echo: ` and its text, streamed word by word. Where its first line is a command, every line
is one step of a script; a line that is no command is echoed. A script that says nothing itself ends with `echo: done`.

    /reason TEXT            reasons
    /tool NAME JSON         calls a tool, which answers {"echo": JSON}
    /interrupt NAME JSON    asks the caller to answer a tool request, and ends the turn
    /custom JSON            replaces the custom state
    /artifact NAME TEXT     adds an artifact
    /sleep SECONDS          waits, stops at once when aborted
    /stubborn SECONDS       waits and ignores the abort signal
    /fail TEXT              fails the turn with this message
    /crash TEXT             raises an exception of no agreed type
    /finish REASON          ends the turn with this finish reason

JSON may be left out where it is the last argument: null. A resumed turn repeats the responses it was given; a tool
request to run again is answered like /tool.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, get_args

from functions.agents.base import (
    AddArtifact,
    AgentError,
    AgentEvent,
    Finish,
    FinishReason,
    ReasoningDelta,
    SetCustom,
    TextDelta,
    ToolRequest,
    ToolResponse,
    Turn,
    Usage,
    is_aborted_within,
    text_of,
)
from store.canonical import Json, parse
from store.errors import InvalidRequestError

_WORD: Final = re.compile(r"\s*\S+\s*|\s+")
_LONGEST_PAUSE: Final = 3600.0

Act: TypeAlias = Callable[[Turn, str, str], Awaitable[Sequence[AgentEvent]]]
"""(turn, argument, fresh tool reference) → events."""


class Step(NamedTuple):
    """One line of a script."""

    act: Act
    argument: str


class EchoAgent:
    """Answers with what it is told; `delay` is the pause between two words, in seconds."""

    name = "echo"

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """Ends early, without usage or reason, once the turn is aborted. Usage counts words."""
        spoken = 0
        for number, step in enumerate(_script(turn), 1):
            if turn.aborted.is_set():
                return
            for event in await step.act(turn, step.argument, f"{turn.snapshot_id}-{number}"):
                is_word = isinstance(event, TextDelta)
                if await is_aborted_within(turn, self._delay if is_word and spoken else 0):
                    return
                yield event
                if isinstance(event, Finish):
                    return
                spoken += is_word
        heard = len(text_of(turn.message).split()) if turn.message else 0
        yield Usage(heard, spoken, heard + spoken)
        yield Finish("stop")

    async def compact(self, messages: Sequence[dict[str, Json]], model: str | None) -> str:
        """The same transcript always gives the same checkpoint: what the user said, how often the agent answered."""
        said = [text_of(message) for message in messages if message["role"] == "user"]
        answers = sum(message["role"] == "model" for message in messages)
        objectives = "\n".join(f"- {text}" for text in said if text)
        return (
            f"<checkpoint>\n<objectives>\n{objectives}\n</objectives>\n"
            f"<completed_work>\n- {answers} answers were given.\n</completed_work>\n</checkpoint>"
        )


def _script(turn: Turn) -> Iterator[Step]:
    if turn.message is None:
        yield Step(_answer, "")
        return
    text = text_of(turn.message)
    if _command(text) is None:
        yield Step(_say, f"echo: {text}")
        return
    has_spoken = False
    for line in filter(str.strip, text.split("\n")):
        command = _command(line)
        if command is not None:
            yield Step(COMMANDS[command], line[len(command) + 1 :].strip())
        else:
            yield Step(_say, f"\necho: {line}" if has_spoken else f"echo: {line}")
            has_spoken = True
    if not has_spoken:
        yield Step(_say, "echo: done")


async def _say(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    return [TextDelta(word) for word in _WORD.findall(argument)]


async def _answer(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    resume = turn.resume or {}
    again = [part["toolRequest"] for part in resume.get("restart", [])]
    given = [part["toolResponse"]["output"] for part in resume.get("respond", [])]
    said = " ".join(json.dumps(output, ensure_ascii=False) for output in given) or "resumed"
    responses = [ToolResponse(request["name"], request["ref"], {"echo": request["input"]}) for request in again]
    return [*responses, *await _say(turn, f"echo: {said}", ref)]


async def _reason(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    return [ReasoningDelta(word) for word in _WORD.findall(argument)]


async def _tool(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    name, value = _named_json("/tool", argument)
    return [ToolRequest(name, ref, value), ToolResponse(name, ref, {"echo": value})]


async def _interrupt(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    name, value = _named_json("/interrupt", argument)
    return [ToolRequest(name, ref, value, interrupt=True), Finish("interrupted")]


async def _custom(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    return [SetCustom(_json("/custom", argument))]


async def _artifact(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    name, _, text = argument.partition(" ")
    return [AddArtifact(_required("/artifact", name), [{"text": text}])]


async def _sleep(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    await is_aborted_within(turn, _seconds("/sleep", argument))
    return ()


async def _stubborn(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    await asyncio.sleep(_seconds("/stubborn", argument))
    return ()


async def _fail(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    raise AgentError("INTERNAL", argument or "The echo agent was told to fail.")


async def _crash(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    raise RuntimeError(argument)


async def _finish(turn: Turn, argument: str, ref: str) -> Sequence[AgentEvent]:
    for reason in get_args(FinishReason):
        if reason == argument:
            return [Finish(reason)]
    raise _misused("/finish")


COMMANDS: Final[dict[str, Act]] = {
    "reason": _reason,
    "tool": _tool,
    "interrupt": _interrupt,
    "custom": _custom,
    "artifact": _artifact,
    "sleep": _sleep,
    "stubborn": _stubborn,
    "fail": _fail,
    "crash": _crash,
    "finish": _finish,
}
"""What a line does that begins with a slash and one of these names."""


def _command(line: str) -> str | None:
    first = line.split(maxsplit=1)[0] if line.startswith("/") else ""
    return first[1:] if first[1:] in COMMANDS else None


def _named_json(command: str, argument: str) -> tuple[str, Json]:
    name, _, text = argument.partition(" ")
    return _required(command, name), _json(command, text)


def _required(command: str, name: str) -> str:
    if not name:
        raise _misused(command)
    return name


def _json(command: str, text: str) -> Json:
    try:
        return parse(text) if text.strip() else None
    except InvalidRequestError as error:
        raise _misused(command) from error


def _seconds(command: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise _misused(command) from error
    if not 0 <= seconds <= _LONGEST_PAUSE:
        raise _misused(command)
    return seconds


def _misused(command: str) -> AgentError:
    return AgentError("INVALID_ARGUMENT", f"{command} was given an argument that it does not take.")
