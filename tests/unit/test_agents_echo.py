"""The echo agent."""

import asyncio

import pytest

from functions.agents import echo
from functions.agents.base import (
    AddArtifact,
    AgentError,
    Finish,
    ReasoningDelta,
    SetCustom,
    TextDelta,
    ToolRequest,
    ToolResponse,
    Usage,
)
from functions.agents.echo import COMMANDS, EchoAgent
from tests.unit.agent_turns import events_of, said, turn_of

ECHO = EchoAgent()


async def test_an_answer_repeats_the_message_word_by_word() -> None:
    assert await events_of(ECHO, turn_of("Hello  big world")) == [
        TextDelta("echo: "),
        TextDelta("Hello  "),
        TextDelta("big "),
        TextDelta("world"),
        Usage(3, 4, 7),
        Finish("stop"),
    ]


@pytest.mark.parametrize("text", ["", " \n\n x", "/unknown thing", "a\n/tool x", "/", "\u2028 🦊 \r\n"])
async def test_a_message_that_begins_with_no_command_comes_back_whole(text: str) -> None:
    assert said(await events_of(ECHO, turn_of(text))) == f"echo: {text}"


async def test_an_aborted_turn_ends_without_a_reason() -> None:
    turn = turn_of("one two three")
    events = ECHO.run(turn)
    assert await anext(events) == TextDelta("echo: ")
    turn.aborted.set()
    assert [event async for event in events] == []
    assert await events_of(ECHO, turn_of("x", aborted=True)) == []


async def test_the_pause_between_words_ends_at_once_when_the_turn_is_aborted() -> None:
    turn = turn_of("one two")
    events = EchoAgent(delay=3600).run(turn)
    await anext(events)
    asyncio.get_running_loop().call_soon(turn.aborted.set)
    assert [event async for event in events] == []


async def test_a_script_does_one_line_after_the_other() -> None:
    script = '/reason Let me see\n/tool find {"q": [1]}\nfound it\n/custom {"n": null}\n/artifact note two words\nbye'
    assert (await events_of(ECHO, turn_of(script)))[:-2] == [
        *map(ReasoningDelta, ("Let ", "me ", "see")),
        ToolRequest("find", "snap-2", {"q": [1]}),
        ToolResponse("find", "snap-2", {"echo": {"q": [1]}}),
        *map(TextDelta, ("echo: ", "found ", "it")),
        SetCustom({"n": None}),
        AddArtifact("note", [{"text": "two words"}]),
        *map(TextDelta, ("\necho: ", "bye")),
    ]


async def test_a_script_that_says_nothing_says_done() -> None:
    assert said(await events_of(ECHO, turn_of("/tool find"))) == "echo: done"


async def test_an_interrupting_request_ends_the_turn() -> None:
    assert await events_of(ECHO, turn_of("/interrupt ask 5\nnever")) == [
        ToolRequest("ask", "snap-1", 5, interrupt=True),
        Finish("interrupted"),
    ]


async def test_a_resumed_turn_answers_with_what_it_was_given() -> None:
    given = {
        "restart": [{"toolRequest": {"name": "find", "ref": "1", "input": 2}}],
        "respond": [{"toolResponse": {"name": "ask", "ref": "2", "output": {"ok": True}}}],
    }
    events = await events_of(ECHO, turn_of(None, resume=given))
    assert events[0] == ToolResponse("find", "1", {"echo": 2})
    assert said(events) == 'echo: {"ok": true}'


async def test_failing_on_command_keeps_what_was_said_before() -> None:
    events = ECHO.run(turn_of("/reason hm\nfirst\n/fail out of luck"))
    assert [await anext(events) for _ in range(3)] == [ReasoningDelta("hm"), TextDelta("echo: "), TextDelta("first")]
    with pytest.raises(AgentError) as caught:
        await anext(events)
    assert (caught.value.status, caught.value.message) == ("INTERNAL", "out of luck")


async def test_crashing_on_command_raises_what_no_one_agreed_on() -> None:
    with pytest.raises(RuntimeError, match="secret"):
        await events_of(ECHO, turn_of("/crash secret"))


async def test_a_turn_can_end_for_a_given_reason() -> None:
    assert await events_of(ECHO, turn_of("/finish length")) == [Finish("length")]


@pytest.mark.parametrize(
    "line",
    [
        "/tool",
        "/tool a {",
        "/custom NaN",
        "/sleep soon",
        "/sleep -1",
        "/sleep nan",
        "/stubborn inf",
        "/finish",
        "/artifact",
    ],
)
async def test_a_wrong_argument_fails_the_turn_by_name(line: str) -> None:
    with pytest.raises(AgentError, match=line.split()[0]) as caught:
        await events_of(ECHO, turn_of(line))
    assert caught.value.status == "INVALID_ARGUMENT"


async def test_sleeping_stops_at_once_when_the_turn_is_aborted() -> None:
    turn = turn_of("/sleep 3600")
    asyncio.get_running_loop().call_soon(turn.aborted.set)
    assert await events_of(ECHO, turn) == []


async def test_a_stubborn_agent_ignores_the_abort_signal_until_it_is_cancelled() -> None:
    turn = turn_of("/stubborn 3600")
    answering = asyncio.create_task(events_of(ECHO, turn))
    await asyncio.sleep(0)  # it is in its wait now
    turn.aborted.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not answering.done()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering


async def test_two_turns_at_once_do_not_meet() -> None:
    turns = [turn_of(f"/tool t {number}\nword {number}") for number in range(5)]
    answers = await asyncio.gather(*(events_of(ECHO, turn) for turn in turns))
    assert [said(answer) for answer in answers] == [f"echo: word {number}" for number in range(5)]


def test_every_command_is_documented() -> None:
    assert all(f"    /{name} " in (echo.__doc__ or "") for name in COMMANDS)
