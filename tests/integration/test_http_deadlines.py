"""Requests that stay open as long as one may: told so, in each dialect's own way, and nothing of the turn is lost."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.types import Message

from functions.agents.base import AgentEvent, TextDelta, Turn
from functions.handlers import chat
from functions.streaming import EventStream
from functions.wiring import application
from tests.acceptance.chat_client import STREAM, ServerEvent, events_of, ok
from tests.genkit.specification import events_of as genkit_events_of
from tests.integration.http_app import App, served
from tests.properties.virtual_loop import run_virtually

SHORT = {"STREAM_MAX": "0.25"}
HELLO = {"role": "user", "content": [{"text": "Hello"}]}
EACH_READER = pytest.mark.parametrize("headers", [{"accept": STREAM}, {}], ids=["a stream", "a wait"])


class Held:
    """Says a word, and another one once it may."""

    name = "echo"

    def __init__(self, *, keeps_state: bool = True) -> None:
        self.may_go_on = asyncio.Event()
        self.was_stopped = asyncio.Event()
        self.keeps_state = keeps_state

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        yield TextDelta("one ")
        going, stopping = (asyncio.create_task(event.wait()) for event in (self.may_go_on, turn.aborted))
        await asyncio.wait((going, stopping), return_when=asyncio.FIRST_COMPLETED)
        going.cancel()
        stopping.cancel()
        if turn.aborted.is_set():
            self.was_stopped.set()
            return
        yield TextDelta("two")


async def read(http: httpx.AsyncClient, method: str, path: str, **given: Any) -> list[ServerEvent]:
    async with http.stream(method, path, headers={"accept": STREAM} | given.pop("headers", {}), **given) as response:
        return [event async for event in events_of(response)]


async def settled(app: App, snapshot_id: str) -> dict[str, Any]:
    return dict(ok(await app.http.get("/snapshot", params={"snapshotId": snapshot_id, "wait": 10})))


async def test_a_stream_ends_with_an_error_and_goes_on_behind_its_last_event() -> None:
    agent = Held()
    async with served(agent, STREAM_MAX="0.6") as app:
        first = await read(app.http, "POST", "/chat", json={"message": "Hello"})
        assert [event.name for event in first] == ["turn-start", "text-delta", "error"]
        start, word, over = first
        ids = {"sessionId": start.data["sessionId"], "snapshotId": start.data["snapshotId"]}
        assert (over.id, over.data) == (word.id, ids | {"code": "deadline_exceeded", "message": over.data["message"]})
        assert "Re-attach" in over.data["message"]
        again = {"last-event-id": str(over.id)}
        second = await read(app.http, "GET", f"/chat/{ids['snapshotId']}", headers=again)
        assert [(event.id, event.name) for event in second] == [(over.id, "error")]
        agent.may_go_on.set()
        third = await read(app.http, "GET", f"/chat/{ids['snapshotId']}", headers=again)
        assert [(event.id, event.name) for event in third] == [(3, "text-delta"), (4, "turn-end")]
        assert third[-1].data["message"]["content"] == [{"text": "one two"}]


async def test_one_that_follows_a_turn_of_another_instance_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Held()
    async with served(agent, **SHORT) as app:
        turn = ok(await app.http.post("/chat", json={"message": "Hello"}), 504)
        monkeypatch.setattr(application(app.settings).engine, "running", lambda _scope, _snapshot_id: None)
        told = await read(app.http, "GET", f"/chat/{turn['snapshotId']}")
        assert (told[-1].name, told[-1].data["code"]) == ("error", "deadline_exceeded")
        last_id = told[-1].id
        assert last_id == max((event.id for event in told[:-1]), default=0)
        agent.may_go_on.set()
        await settled(app, turn["snapshotId"])
        rest = await read(app.http, "GET", f"/chat/{turn['snapshotId']}", headers={"last-event-id": str(last_id)})
        assert [event.id for event in rest] == list(range(last_id + 1, last_id + 1 + len(rest)))
        assert rest[-1].name == "turn-end"


async def test_one_that_waits_is_told_with_504_what_to_go_on_with() -> None:
    agent = Held()
    async with served(agent, **SHORT) as app:
        told = ok(await app.http.post("/chat", json={"message": "Hello"}), 504)
        assert (told["code"], set(told)) == ("deadline_exceeded", {"code", "message", "sessionId", "snapshotId"})
        assert ok(await app.http.get(f"/chat/{told['snapshotId']}"), 504)["snapshotId"] == told["snapshotId"]
        agent.may_go_on.set()
        await settled(app, told["snapshotId"])
        assert ok(await app.http.get(f"/chat/{told['snapshotId']}"))["status"] == "completed"


@EACH_READER
async def test_whoever_resends_meanwhile_has_a_time_of_their_own(headers: dict[str, str]) -> None:
    agent = Held()
    async with served(agent, **SHORT) as app:
        body = {"message": HELLO | {"id": "m1"}}
        told = ok(await app.http.post("/chat", json=body), 504)
        assert "deadline_exceeded" in (await app.http.post("/chat", json=body, headers=headers)).text
        agent.may_go_on.set()
        await settled(app, told["snapshotId"])
        answer = await app.http.post("/chat", json=body, headers=headers)
        assert answer.status_code == 200
        assert '"status":"completed"' in answer.text


@EACH_READER
async def test_a_turn_that_ends_in_time_is_told_to_its_end(headers: dict[str, str]) -> None:
    async with served(STREAM_MAX="5") as app:
        answer = await app.http.post("/chat", json={"message": "/sleep 0.2"}, headers=headers)
        assert answer.status_code == 200
        assert "completed" in answer.text
        assert "deadline_exceeded" not in answer.text


@EACH_READER
@pytest.mark.parametrize(("policy", "status"), [("continue", "completed"), ("cancel", "aborted")])
async def test_the_turn_goes_on_as_its_caller_has_asked(headers: dict[str, str], policy: str, status: str) -> None:
    agent = Held()
    async with served(agent, **SHORT) as app, asyncio.timeout(10):
        body = {"message": "Hello", "onDisconnect": policy}
        answer = await app.http.post("/chat", json=body, headers=headers)
        assert "deadline_exceeded" in answer.text
        (session,) = ok(await app.http.get("/sessions"))["sessions"]
        latest = ok(await app.http.get("/snapshot", params={"sessionId": session["id"], "metadataOnly": "true"}))
        if policy == "continue":
            assert latest["status"] == "pending"
            agent.may_go_on.set()
        row = await settled(app, latest["snapshotId"])
        assert (row["status"], agent.was_stopped.is_set()) == (status, policy == "cancel")


@EACH_READER
async def test_genkits_clients_are_told_in_their_own_shape(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Held()
    monkeypatch.setattr("functions.wiring.load_agent", lambda _settings: agent)
    async with served(None, **SHORT) as app:
        call = {"data": {"message": HELLO}, "init": {"sessionId": "mine"}}
        answer = await app.http.post("/agents/echo", json=call, headers=headers)
        if headers:
            assert answer.status_code == 200
            *_, last = genkit_events_of(answer.content)
            error = last["error"]
        else:
            error = ok(answer, 504)
        assert (error["status"], error["details"]["sessionId"]) == ("DEADLINE_EXCEEDED", "mine")
        agent.may_go_on.set()
        call = {"data": {"snapshotId": error["details"]["snapshotId"]}}
        found = ok(await app.http.post("/agents/echo/waitForSnapshot", json=call))["result"]
        assert (found["status"], found["sessionId"]) == ("completed", "mine")


@EACH_READER
async def test_a_turn_that_nothing_keeps_ends_with_its_only_reader(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Held(keeps_state=False)
    monkeypatch.setattr("functions.wiring.load_agent", lambda _settings: agent)
    async with served(None, **SHORT) as app, asyncio.timeout(10):
        answer = await app.http.post("/agents/echo", json={"data": {"message": HELLO}}, headers=headers)
        assert "DEADLINE_EXCEEDED" in answer.text
        assert "snapshotId" not in answer.text
        await agent.was_stopped.wait()


def test_a_reader_that_takes_nothing_is_cut_off() -> None:
    """Its buffers are full, so that not even the error gets through to it."""
    left = asyncio.Event()

    async def frames() -> AsyncGenerator[bytes, None]:
        try:
            yield b"data: 1\n\n"
        finally:
            left.set()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Message:
        return await asyncio.Event().wait() and {}

    async def cut_after() -> float:
        await EventStream(frames(), longest=7.0)({"type": "http"}, receive, send)
        return asyncio.get_running_loop().time()

    assert run_virtually(cut_after()) == 7.0
    assert left.is_set()


@EACH_READER
async def test_every_stream_has_such_an_end(headers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    longest: list[float | None] = []
    made = EventStream.__init__

    def recording(self: EventStream, *args: Any, **given: Any) -> None:
        longest.append(given.get("longest"))
        made(self, *args, **given)

    monkeypatch.setattr(EventStream, "__init__", recording)
    async with served(STREAM_MAX="9") as app:
        for path, body in (("/chat", {"message": "Hello"}), ("/agents/echo", {"data": {"message": HELLO}})):
            assert (await app.http.post(path, json=body, headers=headers)).status_code == 200
    assert longest == ([9 + chat._LAST_WORDS] * 2 if headers else [])
