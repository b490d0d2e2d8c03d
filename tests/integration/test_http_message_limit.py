"""How many messages a session may have: a turn that would go on from so many is refused, whoever asks and however, at
the cost of looking."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from functions.agents.base import AgentEvent, TextDelta, Turn
from tests.acceptance.chat_client import STREAM, ok, send
from tests.genkit.specification import events_of
from tests.integration.http_app import App, served

LIMIT = 4
HELLO = {"role": "user", "content": [{"text": "Hello"}]}
EACH_READER = pytest.mark.parametrize("headers", [{"accept": STREAM}, {}], ids=["a stream", "a wait"])


async def session_of(app: App, messages: int, last: str = "Hello") -> dict[str, Any]:
    """How the last turn ended of a session with so many messages, two a turn."""
    end: dict[str, Any] = {}
    for number in range(2, messages + 1, 2):
        place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]} if end else {}
        end = await send(app.http, place | {"message": last if number == messages else "Hello"})
    assert ok(await app.http.get(f"/sessions/{end['sessionId']}"))["messageCount"] == messages
    return end


def continuing(end: dict[str, Any], **body: Any) -> dict[str, Any]:
    place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
    return place | ({} if "resume" in body else {"message": "Again"}) | body


def answering(end: dict[str, Any]) -> dict[str, Any]:
    call = next(part["toolRequest"] for part in end["message"]["content"] if "toolRequest" in part)
    return {"respond": [{"toolResponse": {"name": call["name"], "ref": call["ref"], "output": 1}}]}


async def ways(app: App, end: dict[str, Any]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Every way in which a turn can go on from there."""
    yield "/chat", continuing(end)
    yield "/chat", continuing(end, detach=True)
    yield "/chat", continuing(end, resume=answering(end))
    yield "/chat", continuing(end, snapshotId=end["snapshotId"])
    yield "/chat", continuing(end, message=HELLO | {"id": "new"})
    yield f"/sessions/{end['sessionId']}/compact", {}


async def test_a_session_with_one_message_less_takes_its_turn_whole() -> None:
    async with served(None, MAX_MESSAGES=str(LIMIT + 1)) as app:
        end = await session_of(app, LIMIT)
        after = await send(app.http, continuing(end))
        assert ok(await app.http.get(f"/sessions/{end['sessionId']}"))["messageCount"] == LIMIT + 2
        refused = ok(await app.http.post("/chat", json=continuing(after)), 413)
        assert refused == {
            "code": "payload_too_large",
            "message": f"The transcript has as many messages as it may have: {LIMIT + 1}.",
            "limit": LIMIT + 1,
        }


async def test_a_full_session_takes_no_turn_in_any_way_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(None, MAX_MESSAGES=str(LIMIT)) as app:
        end = await session_of(app, LIMIT, last="/interrupt ask 1")
        before, reads = await app.documents(), 0
        get = app.database.get

        async def counted(*args: Any, **given: Any) -> Any:
            nonlocal reads
            reads += 1
            return await get(*args, **given)

        monkeypatch.setattr(app.database, "get", counted)
        async for path, body in ways(app, end):
            reads = 0
            refused = ok(await app.http.post(path, json=body), 413)
            assert (refused["code"], refused["limit"]) == ("payload_too_large", LIMIT), body
            assert reads <= (2 if "snapshotId" in body else 1), body  # the session, and the row that is named
            assert await app.documents() == before, body
        assert not ok(await app.http.get(f"/sessions/{end['sessionId']}"))["isTurnActive"]


async def test_a_full_session_still_answers_a_send_that_it_has_had() -> None:
    async with served(None, MAX_MESSAGES="2") as app:
        body = {"message": HELLO | {"id": "m1"}}
        first = await send(app.http, body)
        assert (await send(app.http, body))["snapshotId"] == first["snapshotId"]


async def test_what_makes_room_is_taken() -> None:
    async with served(None, MAX_MESSAGES=str(LIMIT)) as app:
        end = await session_of(app, LIMIT)
        first = ok(await app.http.get(f"/sessions/{end['sessionId']}/messages"))["messages"][1]
        path = f"/sessions/{end['sessionId']}"
        branched = ok(await app.http.post(f"{path}/branch", json={"messageId": first["id"]}), 201)
        truncated = ok(await app.http.post(f"{path}/truncate", json={"messageId": first["id"]}))
        for session in (branched, truncated):
            place = {"sessionId": session["id"], "lastMessageId": session["lastMessageId"]}
            assert (await send(app.http, place | {"message": "Again"}))["status"] == "completed"


@EACH_READER
async def test_genkits_clients_are_refused_in_their_own_way(headers: dict[str, str]) -> None:
    async with served(None, MAX_MESSAGES="2") as app:
        call = {"data": {"message": HELLO}, "init": {"sessionId": "mine"}}
        done = ok(await app.http.post("/agents/echo", json=call))["result"]
        before = await app.documents()
        for init in ({"sessionId": "mine"}, {"snapshotId": done["snapshotId"]}):
            answer = await app.http.post("/agents/echo", json=call | {"init": init}, headers=headers)
            result = events_of(answer.content)[-1]["result"] if headers else answer.json()["result"]
            error = result["error"]
            assert (error["status"], error["details"]) == ("RESOURCE_EXHAUSTED", {"limit": 2})
        assert await app.documents() == before


class KeepsNothing:
    """Its clients keep their state."""

    name = "echo"
    keeps_state = False

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        yield TextDelta(f"saw {len(turn.history)}")


async def test_a_transcript_that_a_client_brings_along_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.wiring.load_agent", lambda _settings: KeepsNothing())
    async with served(None, MAX_MESSAGES=str(LIMIT)) as app:
        for count, reason in ((LIMIT - 1, "stop"), (LIMIT, "failed")):
            call = {"data": {"message": HELLO}, "init": {"state": {"messages": [HELLO] * count}}}
            result = ok(await app.http.post("/agents/echo", json=call))["result"]
            assert result["finishReason"] == reason
        assert result["error"]["details"] == {"limit": LIMIT}
