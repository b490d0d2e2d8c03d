"""The replay agent, on a small recording and on the real ones."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from functions.agents.base import (
    AgentError,
    AgentEvent,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolRequest,
    ToolResponse,
)
from functions.agents.replay import ReplayAgent
from tests.unit.agent_turns import events_of, said, turn_of

AIRLINE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "airline_sessions.jsonl"

CALL = {"name": "find", "ref": "1", "input": {"q": 1}}
RESULT = {"name": "find", "ref": "1", "output": [1]}
RECORDING: list[dict[str, Any]] = [
    {"role": "system", "content": [{"text": "Be nice."}]},
    {"role": "user", "content": [{"text": "Hi"}]},
    {"role": "model", "content": [{"text": "Hello 🦊, what is it?"}]},
    {"role": "user", "content": [{"text": "Find it"}]},
    {"role": "model", "content": [{"reasoning": "hm"}, {"text": "Wait."}, {"toolRequest": CALL}]},
    {"role": "tool", "content": [{"toolResponse": RESULT}]},
    {"role": "model", "content": [{"text": "Found."}]},
    {"role": "user", "content": [{"text": "Bye"}]},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "sessions.jsonl"
    file.write_text(json.dumps({"key": "a", "messages": RECORDING}) + "\n\n", encoding="utf-8")
    return file


def rebuilt(events: list[AgentEvent]) -> list[dict[str, Any]]:
    """The messages that events stand for: responses form a tool message, what follows them a new model message."""
    messages: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, Finish):
            continue
        role = "tool" if isinstance(event, ToolResponse) else "model"
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": []})
        add(messages[-1]["content"], event)
    return messages


def add(content: list[dict[str, Any]], event: AgentEvent) -> None:
    match event:
        case TextDelta(text):
            if not content or "text" not in content[-1]:
                content.append({"text": ""})
            content[-1]["text"] += text
        case ReasoningDelta(text):
            if not content or "reasoning" not in content[-1]:
                content.append({"reasoning": ""})
            content[-1]["reasoning"] += text
        case ToolRequest(name, ref, value):
            content.append({"toolRequest": {"name": name, "ref": ref, "input": value}})
        case ToolResponse(name, ref, value):
            content.append({"toolResponse": {"name": name, "ref": ref, "output": value}})


async def test_the_first_answer_is_found_by_the_message_and_comes_in_pieces(file: Path) -> None:
    events = await events_of(ReplayAgent(file), turn_of("Hi"))
    assert said(events) == "Hello 🦊, what is it?"
    assert sum(isinstance(event, TextDelta) for event in events) > 3
    assert events[-1] == Finish("stop")


async def test_a_later_answer_is_found_by_the_number_of_messages(file: Path) -> None:
    events = await events_of(ReplayAgent(file), turn_of("Find it", history=RECORDING[:3]))
    assert rebuilt(events) == RECORDING[4:7]
    without_system = await events_of(ReplayAgent(file), turn_of("Find it", history=RECORDING[1:3]))
    assert without_system == events


@pytest.mark.parametrize(
    ("text", "history", "reason"),
    [
        ("Who are you?", [], "No recorded session begins with this message"),
        ("Bye", RECORDING[:7], "no answer after 7 messages"),
        ("Hi", RECORDING[1:2], "no answer after 2 messages"),
        ("Again", RECORDING, "no answer after 8 messages"),
    ],
)
async def test_what_was_not_recorded_fails_the_turn(file: Path, text: str, history: Any, reason: str) -> None:
    with pytest.raises(AgentError, match=reason) as caught:
        await events_of(ReplayAgent(file), turn_of(text, history=history))
    assert caught.value.status == "NOT_FOUND"


async def test_an_aborted_turn_stops_between_two_pieces(file: Path) -> None:
    turn = turn_of("Hi")
    events = ReplayAgent(file).run(turn)
    await anext(events)
    turn.aborted.set()
    assert [event async for event in events] == []


def test_the_file_is_read_once_and_again_only_after_a_failure(file: Path) -> None:
    agent = ReplayAgent(file)
    text = file.read_bytes()
    file.unlink()
    with asyncio.Runner() as runner:
        with pytest.raises(AgentError, match="cannot be read"):
            runner.run(events_of(agent, turn_of("Hi")))
        file.write_bytes(text)
        assert said(runner.run(events_of(agent, turn_of("Hi"))))
        file.unlink()
        assert said(runner.run(events_of(agent, turn_of("Hi"))))


@pytest.mark.parametrize("line", ["{", "[]", '{"messages": [{}]}', '{"messages": [{"role": "user", "content": [5]}]}'])
def test_a_damaged_line_is_named(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as end:
        end.write(line)
    with pytest.raises(AgentError, match="Line 3") as caught:
        asyncio.run(events_of(ReplayAgent(file), turn_of("Hi")))
    assert caught.value.status == "DATA_LOSS"


@pytest.fixture
def airline_sessions() -> list[list[dict[str, Any]]]:
    if not AIRLINE.is_file():
        pytest.skip("the recorded sessions are not beside this repository (../shared/data)")
    return [json.loads(line)["messages"] for line in AIRLINE.read_bytes().splitlines()]


async def test_every_recorded_session_can_be_replayed_to_its_last_answer(
    airline_sessions: list[list[dict[str, Any]]],
) -> None:
    agent, answers = ReplayAgent(AIRLINE), 0
    for messages in airline_sessions:
        users = [place for place, message in enumerate(messages) if message["role"] == "user"]
        for place, following in pairwise([*users, len(messages)]):
            if following > place + 1:
                events = await events_of(agent, turn_of(messages[place], history=messages[:place]))
                assert rebuilt(events) == messages[place + 1 : following]
                answers += 1
    assert answers > 300
