"""The same send twice: one turn, one run of the agent, one answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from functions.agents.base import AgentError, AgentEvent, TextDelta, Turn, text_of
from tests.acceptance.chat_client import ok, send, send_streaming, transcript
from tests.integration.http_app import App, served


class Counting:
    """Speaks when it is let, and counts its runs. Fails for a message that says so."""

    name = "counting"

    def __init__(self) -> None:
        self.runs = 0
        self.may_speak = asyncio.Event()

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        self.runs += 1
        yield TextDelta(f"run {self.runs}, ")
        await self.may_speak.wait()
        if turn.message and text_of(turn.message) == "fail" and self.runs == 1:
            raise AgentError("UNAVAILABLE", "not now")
        yield TextDelta("done")


@pytest.fixture
def agent() -> Counting:
    return Counting()


@pytest.fixture
async def app(agent: Counting) -> AsyncIterator[App]:
    async with served(agent) as app:
        yield app


def first(text: str = "Hello", message_id: str = "m1") -> dict[str, Any]:
    return {"message": {"id": message_id, "role": "user", "content": [{"text": text}]}}


async def test_a_retry_of_a_running_turn_gets_the_same_stream(app: App, agent: Counting) -> None:
    async with app.chat(first()) as one, app.chat(first()) as retry:
        events, again = one.events(), retry.events()
        seen = [await anext(events), await anext(events)]
        repeated = [await anext(again)]
        waiting = asyncio.create_task(send(app.http, first()))
        agent.may_speak.set()
        seen += [event async for event in events]
        repeated += [event async for event in again]
    assert repeated == seen
    assert await waiting == seen[-1].data
    assert agent.runs == 1


async def test_a_retry_of_a_completed_turn_gets_the_same_result(app: App, agent: Counting) -> None:
    agent.may_speak.set()
    original = await send_streaming(app.http, first())
    assert await send(app.http, first()) == original.end
    again = await send_streaming(app.http, first())
    assert (again.events[0], again.end) == (original.events[0], original.end)
    said = "".join(event.data["text"] for event in again.events if event.name == "text-delta")
    assert said == "run 1, done"
    with_session = first() | {"sessionId": original.end["sessionId"]}
    assert await send(app.http, with_session) == original.end
    assert agent.runs == 1


async def test_a_retry_of_a_later_turn_is_recognised_though_its_tail_is_outdated(app: App, agent: Counting) -> None:
    agent.may_speak.set()
    place = await send(app.http, first())
    body = first("and then", "m2") | {"sessionId": place["sessionId"], "lastMessageId": place["lastMessageId"]}
    original = await send(app.http, body)
    following = {"sessionId": place["sessionId"], "lastMessageId": original["lastMessageId"]}
    await send(app.http, first("and after", "m3") | following)
    assert await send(app.http, body) == original
    assert agent.runs == 3


async def test_a_first_message_sent_many_times_at_once_makes_one_session_and_one_run(app: App, agent: Counting) -> None:
    sends = [asyncio.create_task(send(app.http, first())) for _ in range(5)]
    agent.may_speak.set()
    ends = await asyncio.gather(*sends)
    assert all(end == ends[0] for end in ends)
    assert agent.runs == 1
    assert len(ok(await app.http.get("/sessions"))["sessions"]) == 1
    assert len(await transcript(app.http, ends[0]["sessionId"])) == 2


async def test_messages_without_an_id_are_different_sends(app: App, agent: Counting) -> None:
    agent.may_speak.set()
    ends = [await send(app.http, {"message": "Hello"}) for _ in range(2)]
    assert ends[0]["sessionId"] != ends[1]["sessionId"]
    assert agent.runs == 2


async def test_the_same_id_of_another_user_is_another_send(app: App, agent: Counting) -> None:
    agent.may_speak.set()
    own = await send(app.http, first())
    other = ok(await app.http.post("/chat", json=first(), headers={"x-user-id": "another"}))
    assert own["sessionId"] != other["sessionId"]


async def test_an_aborted_turn_answers_its_retry(app: App, agent: Counting) -> None:
    async with app.chat(first()) as one:
        events = one.events()
        start = (await anext(events)).data
        await anext(events)
        ok(await app.http.post("/abort", json={"snapshotId": start["snapshotId"]}))
        end = [event async for event in events][-1].data
    assert (end["status"], await send(app.http, first())) == ("aborted", end)
    assert agent.runs == 1


async def test_a_failed_turn_does_not_answer_but_is_tried_again(app: App, agent: Counting) -> None:
    agent.may_speak.set()
    failed = await send(app.http, first("fail"))
    again = await send(app.http, first("fail"))
    assert (failed["status"], again["status"]) == ("failed", "completed")
    assert (failed["sessionId"], agent.runs) == (again["sessionId"], 2)
    assert (await transcript(app.http, again["sessionId"]))[0]["id"] == "m1"


async def test_a_detached_send_is_told_of_the_turn_that_it_is(app: App, agent: Counting) -> None:
    turns = [ok(await app.http.post("/chat", json=first() | {"detach": True}), 202) for _ in range(2)]
    assert turns[0] == turns[1]
    agent.may_speak.set()
    assert (await send(app.http, first()))["snapshotId"] == turns[0]["snapshotId"]
    assert agent.runs == 1
