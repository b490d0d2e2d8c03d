"""A turn as a stream: its events in order, its pings, its end only after the commit, and readers that leave."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from functions import streaming
from functions.agents.base import AgentEvent, TextDelta, ToolRequest, Turn
from store.database import Committed, Write
from tests.acceptance.chat_client import ok, send, send_streaming, transcript
from tests.integration.http_app import App, served


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served() as app:
        yield app


async def settled(app: App, snapshot_id: str) -> dict[str, Any]:
    """The row once its turn has ended."""
    return dict(ok(await app.http.get("/snapshot", params={"snapshotId": snapshot_id, "wait": 10})))


async def test_events_come_in_the_order_of_the_agent_with_what_the_contract_lists(app: App) -> None:
    script = '/reason so be it\n/tool find {"a": null}\n/custom [1]\n/custom [1, 2]\n/artifact note text\nHello you'
    first = await send(app.http, {"message": "Hello"})
    place = {"sessionId": first["sessionId"], "lastMessageId": first["lastMessageId"]}
    message = {"id": "m2", "role": "user", "content": [{"text": script}]}
    events, end = await send_streaming(app.http, place | {"message": message})
    names = [event.name for event in events]
    assert names == [
        "turn-start",
        *["reasoning-delta"] * 3,
        *["tool-request", "tool-response", "state-patch", "state-patch", "artifact"],
        *["text-delta"] * 3,
        "turn-end",
    ]
    start = events[0].data
    assert start == {
        "sessionId": first["sessionId"],
        "snapshotId": end["snapshotId"],
        "parentId": first["snapshotId"],
        "userMessageId": "m2",
        "messageId": events[1].data["messageId"],
    }
    request, response = events[4].data, events[5].data
    assert (set(request), request["input"]) == ({"messageId", "name", "ref", "input"}, {"a": None})
    assert response["output"] == {"echo": {"a": None}}
    assert (set(response), response["ref"]) == ({"messageId", "name", "ref", "output"}, request["ref"])
    assert events[6].data == [{"op": "replace", "path": "", "value": [1]}]
    assert events[7].data == [{"op": "add", "path": "/1", "value": 2}]
    assert events[8].data == {"name": "note", "parts": [{"text": "text"}]}
    assert "".join(event.data["text"] for event in events[9:12]) == "echo: Hello you"


async def test_every_event_names_the_message_that_it_belongs_to(app: App) -> None:
    events, end = await send_streaming(app.http, {"message": "/reason so\n/tool find {}\nHello"})
    messages = {message["id"]: message["role"] for message in await transcript(app.http, end["sessionId"])}
    roles = [(event.name, messages[event.data["messageId"]]) for event in events if "messageId" in event.data]
    assert roles == [
        ("turn-start", "model"),
        ("reasoning-delta", "model"),
        ("tool-request", "model"),
        ("tool-response", "tool"),
        ("text-delta", "model"),
        ("text-delta", "model"),
    ]


async def test_a_stream_is_not_kept_by_caches_or_held_back_by_proxies(app: App) -> None:
    headers = {"accept": "text/event-stream"}
    response = await app.http.post("/chat", json={"message": "Hello"}, headers=headers)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-length" not in response.headers


async def test_a_silent_stream_is_kept_alive_by_comments(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    assert streaming.PING_INTERVAL == 15
    monkeypatch.setattr(streaming, "PING_INTERVAL", 0.02)
    async with app.chat({"message": "/sleep 0.1\nHello"}) as exchange:
        frames = [frame async for frame in exchange.frames()]
    comments = [number for number, frame in enumerate(frames) if frame.startswith(":")]
    assert len(comments) >= 2
    assert min(comments) > 0  # the start is not kept waiting
    ids = [frame.partition("\n")[0] for frame in frames if not frame.startswith(":")]
    assert ids == [f"id: {number}" for number in range(1, len(ids) + 1)]


async def test_text_that_looks_like_frames_stays_inside_its_event(app: App) -> None:
    text = "a\n\nid: 7\nevent: turn-end\ndata: {}\n\nb\r\n\u2028\u0085\u0000 \ud83d\ude00".encode(
        "utf-16", "surrogatepass"
    )
    said = text.decode("utf-16")
    events, end = await send_streaming(app.http, {"message": said})
    assert "".join(event.data["text"] for event in events if event.name == "text-delta") == f"echo: {said}"
    assert end["message"]["content"] == [{"text": f"echo: {said}"}]


async def test_the_end_is_told_only_after_the_commit(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settle's commit is held back: until it is let go the stream has no end, and no reader sees one."""
    commit, held, is_held = app.database.commit, asyncio.Event(), asyncio.Event()

    async def slow_settle(writes: list[Write]) -> Committed:
        if any("settledBy" in getattr(write, "fields", {}) for write in writes):
            is_held.set()
            await held.wait()
        return await commit(writes)

    monkeypatch.setattr(app.database, "commit", slow_settle)
    async with asyncio.timeout(10), app.chat({"message": "Hello"}) as exchange:
        events = exchange.events()
        start, *_ = [await anext(events) for _ in range(3)]  # and the two words: all but the end
        await is_held.wait()
        last = asyncio.ensure_future(anext(events))
        row = ok(await app.http.get("/snapshot", params={"snapshotId": start.data["snapshotId"]}))
        assert (row["status"], last.done()) == ("pending", False)
        held.set()
        assert (await last).name == "turn-end"
    assert (await settled(app, start.data["snapshotId"]))["status"] == "completed"


async def leave_after_the_first_word(app: App, **body: Any) -> str:
    """A client that vanishes while the agent speaks; the turn's id."""
    async with app.chat({"message": "/reason a\n/sleep 0.1\nHello"} | body) as exchange:
        events = exchange.events()
        start = await anext(events)
        await anext(events)
    return str(start.data["snapshotId"])


async def test_a_turn_goes_on_without_its_reader(app: App) -> None:
    for body in ({}, {"onDisconnect": "continue"}):
        row = await settled(app, await leave_after_the_first_word(app, **body))
        assert (row["status"], row["finishReason"]) == ("completed", "stop")
        assert row["state"]["messages"][-1]["content"][-1] == {"text": "echo: Hello"}


async def test_a_turn_stops_with_its_last_reader_where_that_was_asked(app: App) -> None:
    async with asyncio.timeout(5):
        snapshot_id = await leave_after_the_first_word(app, message="/reason a\n/sleep 60", onDisconnect="cancel")
        row = await settled(app, snapshot_id)
    last = row["state"]["messages"][-1]
    assert (row["status"], row["finishReason"], last["metadata"]) == ("aborted", "aborted", {"interrupted": True})
    assert last["content"] == [{"reasoning": "a"}]


async def test_a_turn_does_not_stop_while_another_reader_is_there(app: App) -> None:
    message = {"id": "m1", "role": "user", "content": [{"text": "/reason a\n/sleep 0.2\nHello"}]}
    body = {"message": message, "onDisconnect": "cancel"}
    async with app.chat(body) as leaving:
        await anext(leaving.events())
        async with app.chat(body) as staying:
            events = staying.events()
            await anext(events)
            leaving.leave()
            last = [event async for event in events][-1]
    assert (last.name, last.data["status"]) == ("turn-end", "completed")


async def test_the_setting_decides_where_the_request_does_not() -> None:
    async with served(ON_DISCONNECT="cancel") as app, asyncio.timeout(5):
        snapshot_id = await leave_after_the_first_word(app, message="/reason a\n/sleep 60")
        assert (await settled(app, snapshot_id))["status"] == "aborted"
        snapshot_id = await leave_after_the_first_word(app, onDisconnect="continue")
        assert (await settled(app, snapshot_id))["status"] == "completed"


class Calling:
    """Asks for a tool, and waits for its result until it is stopped."""

    name = "calling"

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        yield TextDelta("let me see")
        yield ToolRequest("search", "call-1", {"query": "a"})
        await turn.aborted.wait()


async def test_an_abort_closes_open_calls_as_interrupted() -> None:
    async with served(Calling()) as app, asyncio.timeout(5), app.chat({"message": "Hello"}) as exchange:
        events = exchange.events()
        start = await anext(events)
        while (await anext(events)).name != "tool-request":
            pass
        ok(await app.http.post("/abort", json={"snapshotId": start.data["snapshotId"]}))
        end = [event async for event in events][-1].data
        _, model, tool = await transcript(app.http, end["sessionId"])
    assert (end["status"], end["message"], end["lastMessageId"]) == ("aborted", model, tool["id"])
    assert model["metadata"] == {"interrupted": True}
    (part,) = tool["content"]
    assert (part["toolResponse"]["ref"], part["metadata"]) == ("call-1", {"interrupted": True})
    assert part["toolResponse"]["output"]["interrupted"] is True
