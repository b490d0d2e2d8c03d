"""The shapes of answers: every route's, as the contract says and as the served description says."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.acceptance.chat_client import ok, send, send_streaming, transcript
from tests.integration.http_app import App, served
from tests.integration.reply_shapes import Shapes

EVERYTHING = """/reason because
/tool search {"query": "a", "page": null}
/custom {"count": 1, "nothing": null}
/artifact report text
spoken"""


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served(MODEL="google-gla:gemini-2.5-flash") as app:
        yield app


@pytest.fixture
async def shapes(app: App) -> Shapes:
    return await Shapes.of(app.http)


async def test_a_turn_that_uses_everything_has_the_described_shapes(app: App, shapes: Shapes) -> None:
    end = await send(app.http, {"message": EVERYTHING})
    shapes.check(end, "TurnEnd")
    session_id = end["sessionId"]
    row = ok(await app.http.get("/snapshot", params={"snapshotId": end["snapshotId"]}))
    shapes.check(row, "Snapshot")
    assert {"status", "finishReason", "model", "state"} <= set(row)
    assert set(row["state"]) == {"messages", "custom", "artifacts"}
    shapes.check(ok(await app.http.get(f"/sessions/{session_id}")), "Session")
    shapes.check(ok(await app.http.get("/sessions")), "SessionPage")
    messages = ok(await app.http.get(f"/sessions/{session_id}/messages", params={"limit": 1}))
    shapes.check(messages, "MessagePage")
    assert set(messages) == {"messages", "nextCursor"}
    tree = ok(await app.http.get(f"/sessions/{session_id}/snapshots"))
    shapes.check(tree, "SnapshotPage")
    assert tree["snapshots"][0]["text"].startswith("/reason because /tool search")


async def test_a_message_lists_its_parts_in_the_order_of_the_agent(app: App) -> None:
    end = await send(app.http, {"message": EVERYTHING})
    user, model, tool, last = await transcript(app.http, end["sessionId"])
    assert user["content"] == [{"text": EVERYTHING}]
    assert [sorted(part) for part in model["content"]] == [["reasoning"], ["toolRequest"]]
    call = model["content"][1]["toolRequest"]
    assert (call["name"], call["input"]) == ("search", {"query": "a", "page": None})
    output = {"echo": {"query": "a", "page": None}}
    assert tool["content"] == [{"toolResponse": {"name": "search", "ref": call["ref"], "output": output}}]
    assert last["content"] == [{"text": "echo: spoken"}]
    assert [message["role"] for message in (user, model, tool, last)] == ["user", "model", "tool", "model"]
    assert end["message"] == last


async def test_a_turn_ends_with_exactly_what_the_contract_lists(app: App) -> None:
    end = await send(app.http, {"message": "Hello"})
    assert set(end) == {"sessionId", "snapshotId", "status", "finishReason", "lastMessageId", "message", "usage"}
    assert (end["status"], end["finishReason"], end["lastMessageId"]) == ("completed", "stop", end["message"]["id"])
    assert end["usage"] == {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}


async def test_a_failed_turn_tells_why_and_leaves_the_transcript(app: App, shapes: Shapes) -> None:
    first = await send(app.http, {"message": "Hello"})
    place = {"sessionId": first["sessionId"], "lastMessageId": first["lastMessageId"]}
    end = await send(app.http, place | {"message": "/fail on purpose"})
    shapes.check(end, "TurnEnd")
    error = {"status": "INTERNAL", "message": "on purpose"}
    assert (end["status"], end["finishReason"], end["error"]) == ("failed", "failed", error)
    assert end["lastMessageId"] == first["lastMessageId"]  # with which the draft can be sent again
    row = ok(await app.http.get("/snapshot", params={"snapshotId": end["snapshotId"]}))
    shapes.check(row, "Snapshot")
    assert (row["status"], row["error"], "state" in row) == ("failed", error, False)
    session = ok(await app.http.get(f"/sessions/{first['sessionId']}"))
    assert (session["headSnapshotId"], session["messageCount"]) == (first["snapshotId"], 2)
    again = await send(app.http, place | {"message": "better"})
    assert again["status"] == "completed"


async def test_a_first_turn_that_failed_leaves_an_empty_session(app: App, shapes: Shapes) -> None:
    end = await send(app.http, {"message": "/fail on purpose"})
    shapes.check(end, "TurnEnd")
    assert "lastMessageId" not in end
    assert await transcript(app.http, end["sessionId"]) == []
    session = ok(await app.http.get(f"/sessions/{end['sessionId']}"))
    shapes.check(session, "Session")
    assert {"headSnapshotId", "lastMessageId", "activeSnapshotId"} & set(session) == set()
    assert (await send(app.http, {"sessionId": end["sessionId"], "message": "better"}))["status"] == "completed"


async def test_nothing_of_an_agents_crash_is_told(app: App) -> None:
    end = await send(app.http, {"message": "/crash the secret"})
    assert end["error"] == {"status": "INTERNAL", "message": "The agent failed."}
    row = (await app.http.get("/snapshot", params={"snapshotId": end["snapshotId"]})).text
    assert "secret" not in row


async def test_a_running_turn_is_seen_everywhere_and_has_no_state_yet(app: App, shapes: Shapes) -> None:
    turn = ok(await app.http.post("/chat", json={"message": "/sleep 60", "detach": True}), 202)
    shapes.check(turn, "Detached")
    assert set(turn) == {"sessionId", "snapshotId", "status"}
    row = ok(await app.http.get("/snapshot", params={"sessionId": turn["sessionId"]}))
    shapes.check(row, "Snapshot")
    assert (row["snapshotId"], row["status"], "state" in row) == (turn["snapshotId"], "pending", False)
    assert {"heartbeatAt", "model"} <= set(row)
    assert {"finishReason", "error", "parentId"} & set(row) == set()
    session = ok(await app.http.get(f"/sessions/{turn['sessionId']}"))
    shapes.check(session, "Session")
    assert (session["isTurnActive"], session["activeSnapshotId"]) == (True, turn["snapshotId"])
    aborted = ok(await app.http.post("/abort", json={"sessionId": turn["sessionId"]}))
    shapes.check(aborted, "Abort")
    assert set(aborted) == {"snapshotId", "previousStatus", "status"}


@pytest.mark.parametrize("message", ["Hello", "/fail on purpose", "/custom 1"])
async def test_the_latest_snapshot_is_the_very_row(app: App, message: str) -> None:
    end = await send(app.http, {"message": message})
    for query in ({}, {"metadataOnly": "true"}):
        by_id = ok(await app.http.get("/snapshot", params={"snapshotId": end["snapshotId"]} | query))
        by_session = ok(await app.http.get("/snapshot", params={"sessionId": end["sessionId"]} | query))
        assert by_session == by_id


async def test_a_metadata_read_lacks_nothing_but_the_state(app: App) -> None:
    end = await send(app.http, {"message": EVERYTHING})
    for selector in ({"snapshotId": end["snapshotId"]}, {"sessionId": end["sessionId"]}):
        whole = ok(await app.http.get("/snapshot", params=selector))
        metadata = ok(await app.http.get("/snapshot", params=selector | {"metadataOnly": "true"}))
        del whole["state"]
        assert metadata == whole


async def test_content_comes_back_as_it_was_sent(app: App) -> None:
    content: list[dict[str, Any]] = [
        {"text": "na\u0000ïve \U0001f600 \u2028", "metadata": {"lang": None}},
        {"media": {"url": "data:text/plain,a", "contentType": "text/plain"}},
        {"data": {"": [[], [[]]], "__x__": -0.0, "a/b": 1.0, "~": True, "constructor": 10**400}},
        {"custom": {"kind": "of another kind"}},
    ]
    message = {"role": "user", "content": content, "metadata": {"draft": False}}
    end = await send(app.http, {"message": message})
    stored = (await app.http.get(f"/sessions/{end['sessionId']}/messages")).json()["messages"][0]
    del stored["id"]
    assert repr(stored) == repr(message)  # as text: 1.0 equals 1 and -0.0 equals 0 to Python


async def test_health_and_readiness(app: App, shapes: Shapes) -> None:
    for path in ("/health", "/healthz", "/ready", "/readyz"):
        answer = ok(await app.http.get(path))
        shapes.check(answer, "Health")
        assert answer == {"status": "ok"}


async def test_json_answers_are_json_and_utf8(app: App) -> None:
    end = await app.http.post("/chat", json={"message": "ü"})
    assert end.headers["content-type"] == "application/json"
    assert "echo: ü" in end.content.decode("utf-8")


async def test_an_unwaited_turn_can_be_waited_for(app: App, shapes: Shapes) -> None:
    turn = ok(await app.http.post("/chat", json={"message": "/sleep 0.05\ndone", "detach": True}), 202)
    async with asyncio.timeout(5):
        for selector in ({"snapshotId": turn["snapshotId"]}, {"sessionId": turn["sessionId"]}):
            row = ok(await app.http.get("/snapshot", params=selector | {"wait": "20"}))
            shapes.check(row, "Snapshot")
            assert (row["status"], row["finishReason"]) == ("completed", "stop")


async def test_detach_answers_at_once_whatever_is_accepted(app: App) -> None:
    headers = {"accept": "text/event-stream"}
    async with asyncio.timeout(5):
        response = await app.http.post("/chat", json={"message": "/sleep 60", "detach": True}, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (202, "application/json")


async def test_a_stream_is_given_only_to_who_accepts_one(app: App) -> None:
    for accept, media in (
        ("text/event-stream", "text/event-stream"),
        ("application/json, text/event-stream;q=0.9", "text/event-stream"),
        ("TEXT/EVENT-STREAM", "text/event-stream"),
        ("*/*", "application/json"),
        ("text/*", "application/json"),
    ):
        response = await app.http.post("/chat", json={"message": "Hello"}, headers={"accept": accept})
        assert response.headers["content-type"].partition(";")[0] == media, accept
    streamed = await send_streaming(app.http, {"message": "Hello"})
    whole = await send(app.http, {"message": "Hello"})
    assert [name for name in streamed.end if name not in whole] == []
