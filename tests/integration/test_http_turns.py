"""Where a turn continues from: siblings by snapshot, answers to tool requests, a message instead of them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.acceptance.chat_client import ok, send, send_streaming, text_of, transcript
from tests.integration.http_app import App, served
from tests.integration.refusals import refused


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served() as app:
        yield app


def after(end: dict[str, Any]) -> dict[str, Any]:
    """The place behind a turn, as the next one names it."""
    return {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}


async def texts(app: App, session_id: str) -> list[str]:
    return [text_of(message) for message in await transcript(app.http, session_id)]


async def test_a_turn_from_an_earlier_snapshot_becomes_a_sibling_and_the_head(app: App) -> None:
    root = await send(app.http, {"message": "root"})
    left = await send(app.http, after(root) | {"message": "left"})
    right = await send_streaming(app.http, after(root) | {"message": "right", "snapshotId": root["snapshotId"]})
    assert right.events[0].data["parentId"] == root["snapshotId"]
    assert await texts(app, root["sessionId"]) == ["root", "echo: root", "right", "echo: right"]
    session = ok(await app.http.get(f"/sessions/{root['sessionId']}"))
    assert (session["headSnapshotId"], session["messageCount"]) == (right.end["snapshotId"], 4)
    former = ok(await app.http.get("/snapshot", params={"snapshotId": left["snapshotId"]}))
    assert text_of(former["state"]["messages"][-1]) == "echo: left"
    back = await send(app.http, after(left) | {"message": "again", "snapshotId": left["snapshotId"]})
    assert await texts(app, root["sessionId"]) == ["root", "echo: root", "left", "echo: left", "again", "echo: again"]
    assert back["status"] == "completed"


async def test_the_tail_that_counts_is_the_named_snapshots(app: App) -> None:
    root = await send(app.http, {"message": "root"})
    left = await send(app.http, after(root) | {"message": "left"})
    body = after(left) | {"message": "right", "snapshotId": root["snapshotId"]}
    stale = await refused(app, "POST", "/chat", 409, "agent_session_stale", json=body)
    assert stale["lastMessageId"] == root["lastMessageId"]


async def test_a_snapshot_of_another_session_is_not_found(app: App) -> None:
    one, other = await send(app.http, {"message": "one"}), await send(app.http, {"message": "other"})
    body = after(one) | {"message": "a", "snapshotId": other["snapshotId"]}
    await refused(app, "POST", "/chat", 404, "snapshot_not_found", json=body)


async def test_a_snapshot_names_its_session(app: App) -> None:
    root = await send(app.http, {"message": "root"})
    body = {"snapshotId": root["snapshotId"], "lastMessageId": root["lastMessageId"], "message": "a"}
    end = await send(app.http, body)
    assert (end["sessionId"], end["status"]) == (root["sessionId"], "completed")
    await refused(app, "POST", "/chat", 404, "snapshot_not_found", json=body | {"snapshotId": "missing"})


async def test_an_aborted_turn_can_be_continued_from_later(app: App) -> None:
    root = await send(app.http, {"message": "root"})
    turn = ok(await app.http.post("/chat", json=after(root) | {"message": "/sleep 60", "detach": True}), 202)
    ok(await app.http.post("/abort", json={"snapshotId": turn["snapshotId"]}))
    row = ok(await app.http.get("/snapshot", params={"snapshotId": turn["snapshotId"], "wait": 5}))
    tail = row["state"]["messages"][-1]["id"]
    other = await send(app.http, after(root) | {"message": "other", "snapshotId": root["snapshotId"]})
    assert other["status"] == "completed"
    body = {"sessionId": root["sessionId"], "snapshotId": turn["snapshotId"], "lastMessageId": tail}
    assert (await send(app.http, body | {"message": "on"}))["status"] == "completed"


async def interrupted(app: App) -> tuple[dict[str, Any], dict[str, Any]]:
    """A turn that ended with a question to its caller, and the question."""
    end = await send(app.http, {"message": '/interrupt approve {"amount": 3}'})
    return end, end["message"]["content"][-1]["toolRequest"]


async def test_a_tool_request_interrupts_the_turn(app: App) -> None:
    end, request = await interrupted(app)
    assert (end["status"], end["finishReason"]) == ("completed", "interrupted")
    assert (request["name"], request["input"]) == ("approve", {"amount": 3})
    assert end["message"]["content"][-1]["metadata"] == {"interrupt": True}


async def test_an_answer_resumes_the_turn(app: App) -> None:
    end, request = await interrupted(app)
    response = {"name": "approve", "ref": request["ref"], "output": {"approved": None}}
    resume = {"respond": [{"toolResponse": response, "metadata": {"by": "me"}}]}
    events, resumed = await send_streaming(app.http, after(end) | {"resume": resume})
    assert "userMessageId" not in events[0].data
    assert (resumed["status"], text_of(resumed["message"])) == ("completed", 'echo: {"approved": null}')
    messages = await transcript(app.http, end["sessionId"])
    assert [message["role"] for message in messages] == ["user", "model", "tool", "model"]
    assert messages[2]["content"] == resume["respond"]


async def test_a_request_can_be_run_again(app: App) -> None:
    end, request = await interrupted(app)
    resumed = await send(app.http, after(end) | {"resume": {"restart": [{"toolRequest": request}]}})
    assert resumed["status"] == "completed"
    responses = [part for message in await transcript(app.http, end["sessionId"]) for part in message["content"]]
    answered = [part["toolResponse"] for part in responses if "toolResponse" in part]
    assert answered == [{"name": "approve", "ref": request["ref"], "output": {"echo": {"amount": 3}}}]


async def test_an_answer_that_does_not_fit_the_question_is_refused(app: App) -> None:
    end, request = await interrupted(app)
    response = {"name": "approve", "ref": request["ref"], "output": 1}
    for resume in (
        {"respond": [{"toolResponse": response | {"ref": "another"}}]},
        {"respond": [{"toolResponse": response | {"name": "another"}}]},
        {"respond": [{"toolResponse": response}, {"toolResponse": response}]},
        {"respond": [{"toolResponse": response}], "restart": [{"toolRequest": request}]},
        {"restart": [{"toolRequest": request | {"input": {"amount": 30}}}]},
    ):
        await refused(app, "POST", "/chat", 400, "invalid_request", json=after(end) | {"resume": resume})


async def test_a_message_instead_of_an_answer_closes_the_question(app: App) -> None:
    end, request = await interrupted(app)
    following = await send(app.http, after(end) | {"message": "never mind"})
    assert following["status"] == "completed"
    messages = await transcript(app.http, end["sessionId"])
    assert [message["role"] for message in messages] == ["user", "model", "tool", "user", "model"]
    (closing,) = messages[2]["content"]
    assert (closing["toolResponse"]["ref"], closing["metadata"]) == (request["ref"], {"interrupted": True})
    resume = {"respond": [{"toolResponse": {"name": "approve", "ref": request["ref"], "output": 1}}]}
    await refused(app, "POST", "/chat", 400, "invalid_request", json=after(following) | {"resume": resume})


async def test_a_session_made_before_takes_its_first_turn_without_a_tail(app: App) -> None:
    session = ok(await app.http.post("/sessions", json={"id": "own", "title": "Mine"}), 201)
    end = await send(app.http, {"sessionId": session["id"], "message": "Hello"})
    assert end["sessionId"] == "own"
    session = ok(await app.http.get("/sessions/own"))
    assert (session["title"], session["messageCount"]) == ("Mine", 2)
