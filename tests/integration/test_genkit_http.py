"""Genkit's agent protocol at its edges: refusals, ids, streams that always end, and what other users see of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from functions.agents.base import AgentEvent, TextDelta, Turn
from store.models import Scope
from tests.acceptance.chat_client import STREAM, ok, send, transcript
from tests.genkit.specification import events_of
from tests.integration.http_app import App, served

ECHO = "/agents/echo"
ANN = Scope("local", "local")


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served() as app:
        yield app


def said(text: str, **metadata: Any) -> dict[str, Any]:
    """A message as Genkit's clients send it."""
    message: dict[str, Any] = {"role": "user", "content": [{"text": text}]}
    return {"message": message | ({"metadata": metadata} if metadata else {})}


async def post(
    app: App, data: Any, init: Any = None, *, route: str = "", user: str = "local", agent: str = ECHO
) -> Any:
    """The answer's status and JSON."""
    body = {"data": data} | ({} if init is None else {"init": init})
    response = await app.http.post(agent + route, json=body, headers={"x-user-id": user})
    return response.status_code, response.json()


async def run(app: App, text: str, init: Any = None, user: str = "local") -> dict[str, Any]:
    """The result of a turn that was answered as one JSON object."""
    status, answer = await post(app, said(text), init, user=user)
    assert (status, list(answer)) == (200, ["result"])
    result: dict[str, Any] = answer["result"]
    return result


async def stream(app: App, data: Any, init: Any = None) -> list[Any]:
    """The events of a streamed turn."""
    response = await app.http.post(ECHO, json={"data": data, "init": init or {}}, headers={"accept": STREAM})
    assert response.status_code == 200
    return events_of(response.content)


async def test_a_turn_answers_with_its_message_and_ids(app: App) -> None:
    result = await run(app, "hi")
    message = result.pop("message")
    assert set(result) == {"sessionId", "snapshotId", "finishReason"}
    assert (message["role"], message["content"]) == ("model", [{"text": "echo: hi"}])
    assert set(message) == {"role", "content", "metadata"}


async def test_a_stream_may_be_asked_for_in_the_query(app: App) -> None:
    response = await app.http.post(f"{ECHO}?stream=true", json={"data": said("a b")})
    *chunks, end = events_of(response.content)
    assert [list(chunk["message"]) for chunk in chunks[:-1]] == [["modelChunk"]] * (len(chunks) - 1)
    assert chunks[-1]["message"]["turnEnd"] == {"snapshotId": end["result"]["snapshotId"], "finishReason": "stop"}


async def test_every_message_of_a_turn_has_its_own_index(app: App) -> None:
    events = await stream(app, said("/tool look {}\nafter"))
    chunks = [event["message"]["modelChunk"] for event in events if "modelChunk" in event.get("message", {})]
    seen = [(chunk["role"], chunk["index"]) for chunk in chunks]
    assert list(dict.fromkeys(seen)) == [("model", 0), ("tool", 1), ("model", 2)]


@pytest.mark.parametrize(
    ("data", "init", "code", "status"),
    [
        ({}, None, 400, "INVALID_ARGUMENT"),
        ({"detach": True}, None, 400, "INVALID_ARGUMENT"),
        ({"message": {"role": "model", "content": [{"text": "x"}]}}, None, 400, "INVALID_ARGUMENT"),
        ({"message": {"role": "user", "content": []}}, None, 400, "INVALID_ARGUMENT"),
        (said("x", isCompaction=True), None, 400, "INVALID_ARGUMENT"),
        (said("x"), {"sessionId": "a/b"}, 400, "INVALID_ARGUMENT"),
        (said("x"), {"snapshotId": "."}, 400, "INVALID_ARGUMENT"),
        (said("x"), {"state": {}}, 400, "FAILED_PRECONDITION"),
    ],
)
async def test_a_refusal_is_flat_json_with_its_http_status_and_writes_nothing(
    app: App, data: Any, init: Any, code: int, status: str
) -> None:
    answered, answer = await post(app, data, init)
    assert (answered, answer["status"], set(answer)) == (code, status, {"status", "message"})
    assert await app.documents() == {}


async def test_a_refusal_on_a_stream_is_its_last_event(app: App) -> None:
    [event] = await stream(app, {})
    assert event["error"]["status"] == "INVALID_ARGUMENT"


async def test_an_unknown_agent_is_not_found(app: App) -> None:
    for route in ("", "/getSnapshot", "/abort", "/waitForSnapshot"):
        data = said("x") if route == "" else {"snapshotId": "x"}
        status, answer = await post(app, data, route=route, agent="/agents/nobody")
        assert (status, answer["status"]) == (404, "NOT_FOUND")


async def test_a_missing_snapshot_to_go_on_with_is_a_failed_turn(app: App) -> None:
    result = (await post(app, said("x"), {"snapshotId": "nowhere"}))[1]["result"]
    assert (result["finishReason"], result["error"]["status"]) == ("failed", "NOT_FOUND")
    assert await app.documents() == {}


async def test_a_snapshot_of_another_session_is_refused(app: App) -> None:
    first = await run(app, "one")
    status, answer = await post(app, said("x"), {"snapshotId": first["snapshotId"], "sessionId": "other"})
    assert (status, answer["status"]) == (400, "INVALID_ARGUMENT")
    assert "does not belong to session" in answer["message"]


async def test_a_failed_turn_names_the_snapshot_to_go_on_from(app: App) -> None:
    good = await run(app, "fine")
    failed = await run(app, "/fail now", {"snapshotId": good["snapshotId"]})
    assert (failed["finishReason"], failed["snapshotId"]) == ("failed", good["snapshotId"])
    assert failed["error"] == {"status": "INTERNAL", "message": "now"}
    assert "message" not in failed
    first = await run(app, "/fail now")
    assert "snapshotId" not in first


async def test_a_running_turn_makes_the_next_one_a_failed_one(app: App) -> None:
    init = {"sessionId": "mine"}
    detached = (await post(app, said("/sleep 5") | {"detach": True}, init))[1]["result"]
    busy = await run(app, "now", init)
    assert (busy["finishReason"], busy["error"]["status"]) == ("failed", "ABORTED")
    assert busy["error"]["details"]["snapshotId"] == detached["snapshotId"]


async def test_users_choose_the_same_id_without_meeting(app: App) -> None:
    for user in ("ann", "bob"):
        result = await run(app, f"I am {user}", {"sessionId": "chat"}, user)
        assert result["sessionId"] == "chat"
    for user in ("ann", "bob"):
        found = (await post(app, {"sessionId": "chat"}, route="/getSnapshot", user=user))[1]["result"]
        assert found["sessionId"] == found["state"]["sessionId"] == "chat"
        assert found["state"]["messages"][0]["content"] == [{"text": f"I am {user}"}]
    status, answer = await post(app, {"sessionId": "chat"}, route="/getSnapshot", user="eve")
    assert (status, answer["status"]) == (404, "NOT_FOUND")


async def test_a_session_is_the_same_one_for_the_native_client(app: App) -> None:
    native = await send(app.http, {"message": "native"})
    result = await run(app, "genkit", {"sessionId": native["sessionId"]})
    assert result["sessionId"] == native["sessionId"]
    messages = await transcript(app.http, native["sessionId"])
    assert [message["role"] for message in messages] == ["user", "model", "user", "model"]
    assert messages[-1]["id"] == result["message"]["metadata"]["id"]
    chosen = await run(app, "one", {"sessionId": "chosen"})
    assert chosen["sessionId"] == "chosen"
    assert len(await transcript(app.http, "chosen")) == 2


async def test_a_refused_first_turn_names_the_session_that_its_client_chose() -> None:
    async with served(MAX_TURNS_PER_USER="1") as app:
        ok(await app.http.post("/chat", json={"message": "/sleep 60", "detach": True}), 202)
        refused = (await post(app, said("hi"), {"sessionId": "chosen"}))[1]["result"]
        assert (refused["finishReason"], refused["sessionId"]) == ("failed", "chosen")
        assert (await app.http.get("/sessions/chosen")).status_code == 404


async def test_an_id_in_the_metadata_is_the_messages_and_is_refused_twice(app: App) -> None:
    first = (await post(app, said("hi", id="m-1")))[1]["result"]
    native = await transcript(app.http, first["sessionId"])
    assert native[0] == {"id": "m-1", "role": "user", "content": [{"text": "hi"}]}
    again = (await post(app, said("hi", id="m-1"), {"snapshotId": first["snapshotId"]}))[1]["result"]
    assert (again["finishReason"], again["error"]["status"]) == ("failed", "ALREADY_EXISTS")


async def test_a_snapshot_is_read_with_or_without_its_state(app: App) -> None:
    result = await run(app, "hi")
    full = (await post(app, {"snapshotId": result["snapshotId"]}, route="/getSnapshot"))[1]["result"]
    assert set(full) == {"snapshotId", "sessionId", "createdAt", "updatedAt", "status", "finishReason", "state"}
    assert full["createdAt"].endswith("Z")
    data = {"snapshotId": result["snapshotId"], "metadataOnly": True}
    bare = (await post(app, data, route="/getSnapshot"))[1]["result"]
    assert bare == {name: value for name, value in full.items() if name != "state"}
    status, answer = await post(app, {}, route="/getSnapshot")
    assert (status, answer["status"]) == (400, "INVALID_ARGUMENT")


async def test_waiting_answers_once_the_turn_has_ended(app: App) -> None:
    detached = (await post(app, said("/sleep 0.1\nlater") | {"detach": True}))[1]["result"]
    assert detached["finishReason"] == "detached"
    data = {"snapshotId": detached["snapshotId"]}
    found = (await post(app, data, route="/waitForSnapshot"))[1]["result"]
    assert (found["status"], found["state"]["messages"][-1]["content"]) == ("completed", [{"text": "echo: later"}])
    status, answer = await post(app, {"snapshotId": "nowhere"}, route="/waitForSnapshot")
    assert (status, answer["status"]) == (404, "NOT_FOUND")


async def test_an_abort_answers_once_the_turn_has_stopped(app: App) -> None:
    detached = (await post(app, said("/sleep 30") | {"detach": True}))[1]["result"]
    data = {"snapshotId": detached["snapshotId"]}
    assert (await post(app, data, route="/abort"))[1] == {"result": data | {"status": "pending"}}
    found = (await post(app, data, route="/getSnapshot"))[1]["result"]
    assert (found["status"], found["finishReason"]) == ("aborted", "aborted")
    assert (await post(app, {"snapshotId": "nowhere"}, route="/abort"))[1] == {"result": {"snapshotId": "nowhere"}}


class KeepsNothing:
    """Answers with the number of messages that it was shown; its clients keep their state."""

    name = "echo"
    keeps_state = False

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        await asyncio.sleep(0)
        yield TextDelta(f"saw {len(turn.history)}")


@pytest.fixture
async def storeless(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setattr("functions.wiring.load_agent", lambda _settings: KeepsNothing())
    async with served() as app:
        yield app


async def test_a_client_that_keeps_its_state_gets_it_back_and_nothing_is_stored(storeless: App) -> None:
    first = await run(storeless, "one")
    assert "snapshotId" not in first
    second = await run(storeless, "two", {"state": first["state"]})
    assert [message["content"][0]["text"] for message in second["state"]["messages"]] == [
        "one",
        "saw 0",
        "two",
        "saw 2",
    ]
    assert second["sessionId"] == second["state"]["sessionId"] == first["sessionId"]
    assert await storeless.documents() == {}


@pytest.mark.parametrize(
    ("data", "init", "status"),
    [
        (said("x"), {"sessionId": "s"}, "FAILED_PRECONDITION"),
        (said("x"), {"snapshotId": "s"}, "FAILED_PRECONDITION"),
        (said("x") | {"detach": True}, {}, "FAILED_PRECONDITION"),
        (said("x"), {"state": {"messages": {}}}, "INVALID_ARGUMENT"),
        (said("x"), {"state": {"messages": [1]}}, "INVALID_ARGUMENT"),
        (said("x"), {"state": {"sessionId": 1}}, "INVALID_ARGUMENT"),
    ],
)
async def test_what_needs_a_store_is_refused_without_one(storeless: App, data: Any, init: Any, status: str) -> None:
    answered, answer = await post(storeless, data, init)
    assert (answered, answer["status"]) == (400, status)
    answered, answer = await post(storeless, {"snapshotId": "x"}, route="/getSnapshot")
    assert (answered, answer["status"]) == (400, "FAILED_PRECONDITION")


async def test_a_body_that_is_no_json_is_refused_as_all_others_are(app: App) -> None:
    response = await app.http.post(ECHO, content=b"{", headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["status"]) == (400, "INVALID_ARGUMENT")
    assert isinstance(response, httpx.Response)
    assert "Traceback" not in json.dumps(response.json())
    assert ok(await app.http.get("/health")) is not None
