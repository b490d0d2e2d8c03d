"""Changes to a session over HTTP: rename, model, rewind, branch, compact, delete, and its tree."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from store.database import Delete
from tests.acceptance.chat_client import ok, send, text_of, transcript
from tests.contract.engine_turns import ScriptedAgent, SummingAgent
from tests.integration.http_app import App, served
from tests.integration.refusals import refused
from tests.integration.reply_shapes import Shapes

HALF = "\ud800"


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served() as app:
        yield app


async def talk(app: App, *messages: str) -> dict[str, Any]:
    """A session with one turn per message; the last one's end."""
    end: dict[str, Any] = {}
    for message in messages:
        known = {name: end[name] for name in ("sessionId", "lastMessageId") if name in end}
        end = await send(app.http, {"message": {"id": message, "role": "user", "content": [{"text": message}]}} | known)
    return end


async def post(app: App, session_id: str, change: str, status: int = 200, **body: Any) -> Any:
    return ok(await app.http.post(f"/sessions/{session_id}/{change}", json=body), status)


async def session_of(app: App, session_id: str) -> dict[str, Any]:
    return dict(ok(await app.http.get(f"/sessions/{session_id}")))


async def ids(app: App, session_id: str) -> list[str]:
    return [message["id"] for message in await transcript(app.http, session_id)]


async def running(app: App, message: str = "/sleep 60", **body: Any) -> dict[str, Any]:
    """A turn that goes on until the application ends."""
    return dict(ok(await app.http.post("/chat", json={"message": message, "detach": True} | body), 202))


async def test_a_truncate_answers_with_the_session_and_a_restore_takes_it_back(app: App) -> None:
    end = await talk(app, "a", "b")
    session_id, shapes = end["sessionId"], await Shapes.of(app.http)
    before = await ids(app, session_id)
    cut = await post(app, session_id, "truncate", messageId="b", lastMessageId=end["lastMessageId"])
    shapes.check(cut, "Session")
    assert cut == await session_of(app, session_id)
    assert (cut["messageCount"], cut["lastMessageId"]) == (2, before[1])
    assert await ids(app, session_id) == before[:2]
    back = await post(app, session_id, "restore", snapshotId=end["snapshotId"], lastMessageId=before[1])
    shapes.check(back, "Session")
    assert back == await session_of(app, session_id)
    assert await ids(app, session_id) == before


async def test_a_transcript_without_messages_has_no_last_one(app: App) -> None:
    end = await talk(app, "a")
    session = await post(app, end["sessionId"], "truncate", messageId="a")
    assert "lastMessageId" not in session
    assert session["messageCount"] == 0
    assert (await send(app.http, {"sessionId": end["sessionId"], "message": "b"}))["status"] == "completed"


async def test_a_branch_is_a_new_session_that_says_where_it_comes_from(app: App) -> None:
    end = await talk(app, "a", "b")
    source = await transcript(app.http, end["sessionId"])
    body = {"messageId": source[1]["id"], "id": "copy"}
    branch = await post(app, end["sessionId"], "branch", 201, **body)
    (await Shapes.of(app.http)).check(branch, "Session")
    assert branch["branchedFrom"] == {
        "sessionId": end["sessionId"],
        "snapshotId": end["snapshotId"],
        "messageId": source[1]["id"],
    }
    copy = await transcript(app.http, "copy")
    assert [text_of(message) for message in copy] == ["a", "echo: a"]
    assert not {message["id"] for message in copy} & {message["id"] for message in source}
    assert await post(app, end["sessionId"], "branch", 201, **body) == branch
    path = f"/sessions/{end['sessionId']}/branch"
    await refused(app, "POST", path, 409, "session_exists", json={"messageId": "b", "id": "copy"})


async def test_a_compaction_answers_with_its_message_and_another_one_has_nothing_to_do(app: App) -> None:
    end = await talk(app, "a", "b")
    answer = await post(app, end["sessionId"], "compact")
    (await Shapes.of(app.http)).check(answer, "Compaction")
    assert answer["message"]["metadata"] == {"isCompaction": True}
    assert (await transcript(app.http, end["sessionId"]))[-1] == answer["message"]
    path = f"/sessions/{end['sessionId']}/compact"
    await refused(app, "POST", path, 409, "agent_session_already_compact", json={})
    session = await session_of(app, end["sessionId"])
    assert session["lastMessageId"] == answer["message"]["id"]
    stale = {"sessionId": session["id"], "message": "c", "lastMessageId": end["lastMessageId"]}
    await refused(app, "POST", "/chat", 409, "agent_session_stale", json=stale)


async def test_a_caller_cannot_send_a_compaction(app: App) -> None:
    for metadata in ({"isCompaction": True}, {"isCompaction": False}):
        message = {"role": "user", "content": [{"text": "x"}], "metadata": metadata}
        await refused(app, "POST", "/chat", 400, "invalid_request", json={"message": message})


async def test_a_failing_agent_is_told_without_its_secrets() -> None:
    async with served(SummingAgent(RuntimeError("secret"))) as app:
        end = await talk(app, "a")
        response = await app.http.post(f"/sessions/{end['sessionId']}/compact", json={})
        assert ok(response, 500)["code"] == "internal"
        assert "secret" not in response.text
        assert (await session_of(app, end["sessionId"]))["lastMessageId"] == end["lastMessageId"]


async def test_a_compaction_that_is_aborted_is_a_conflict() -> None:
    agent = SummingAgent(asyncio.Event())
    async with served(agent) as app:
        end = await talk(app, "a")
        compacting = asyncio.create_task(app.http.post(f"/sessions/{end['sessionId']}/compact", json={}))
        await agent.asked.wait()
        busy = {"sessionId": end["sessionId"], "message": "b", "lastMessageId": end["lastMessageId"]}
        answer = await refused(app, "POST", "/chat", 409, "agent_session_busy", json=busy)
        abort = ok(await app.http.post("/abort", json={"sessionId": end["sessionId"]}))
        assert abort["snapshotId"] == answer["snapshotId"]
        assert ok(await compacting, 409)["code"] == "agent_session_compaction_conflict"
        row = ok(await app.http.get("/snapshot", params={"snapshotId": abort["snapshotId"]}))
        assert (row["origin"], row["status"], "state" in row) == ("compact", "aborted", False)


async def test_a_deleted_session_is_gone_and_cannot_be_deleted_twice(app: App) -> None:
    """Case 55."""
    end = await talk(app, "a")
    session_id = end["sessionId"]
    response = await app.http.delete(f"/sessions/{session_id}")
    assert (response.status_code, response.content) == (204, b"")
    assert await app.documents() == {}
    await refused(app, "DELETE", f"/sessions/{session_id}", 404, "session_not_found")
    await refused(app, "GET", f"/sessions/{session_id}", 404, "session_not_found")
    query = {"snapshotId": end["snapshotId"]}
    await refused(app, "GET", "/snapshot", 404, "snapshot_not_found", params=query)


async def test_a_live_turn_refuses_every_change_but_a_rename(app: App) -> None:
    """Cases 51 and 56."""
    end = await talk(app, "a")
    session_id = end["sessionId"]
    turn = await running(app, sessionId=session_id, lastMessageId=end["lastMessageId"])
    changes: list[tuple[str, str, Any]] = [
        ("POST", "/truncate", {"messageId": "a"}),
        ("POST", "/restore", {"snapshotId": end["snapshotId"]}),
        ("POST", "/branch", {"messageId": "a"}),
        ("POST", "/compact", {}),
        ("PATCH", "", {"model": "m"}),
        ("PATCH", "", {"title": "Not even this", "model": "m"}),
        ("DELETE", "", None),
    ]
    for method, place, body in changes:
        answer = await refused(app, method, f"/sessions/{session_id}{place}", 409, "agent_session_busy", json=body)
        assert (answer["snapshotId"], answer["retryAfterSeconds"]) == (turn["snapshotId"], 3)
    session = ok(await app.http.patch(f"/sessions/{session_id}", json={"title": " A name "}))
    assert (session["title"], session["isTurnActive"]) == ("A name", True)
    assert session == await session_of(app, session_id)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"title": None},
        {"title": None, "model": "m"},
        {"model": None},
        {"title": ""},
        {"title": " \n"},
        {"title": "x" * 101},
        {"title": 5},
        {"title": HALF},
        {"model": ""},
        {"title": "x", "more": 1},
        [],
    ],
)
async def test_a_change_that_is_none_is_refused(app: App, body: Any) -> None:
    """Case 57."""
    end = await talk(app, "a")
    text = {"content": json.dumps(body), "headers": {"content-type": "application/json"}}
    await refused(app, "PATCH", f"/sessions/{end['sessionId']}", 400, "invalid_request", **text)


async def test_a_title_is_trimmed_before_it_is_measured(app: App) -> None:
    end = await talk(app, "a")
    title = f"  {'x' * 100}\t"
    session = ok(await app.http.patch(f"/sessions/{end['sessionId']}", json={"title": title}))
    assert session["title"] == "x" * 100


async def test_what_is_missing_is_told_by_its_kind(app: App) -> None:
    """Cases 13, 49 and 50."""
    end = await talk(app, "a")
    other = await talk(app, "b")
    path = f"/sessions/{end['sessionId']}"
    for change in ("truncate", "branch"):
        for message_id in ("nothing", "b"):
            body = {"messageId": message_id}
            await refused(app, "POST", f"{path}/{change}", 404, "message_not_found", json=body)
    for snapshot_id in ("nothing", other["snapshotId"]):
        body = {"snapshotId": snapshot_id}
        await refused(app, "POST", f"{path}/restore", 404, "snapshot_not_found", json=body)
    bodies = {
        "truncate": {"messageId": "a"},
        "branch": {"messageId": "a"},
        "compact": {},
        "restore": {"snapshotId": "x"},
    }
    for change, given in bodies.items():
        await refused(app, "POST", f"/sessions/nothing/{change}", 404, "session_not_found", json=given)
        headers = {"x-user-id": "bob"}
        await refused(app, "POST", f"{path}/{change}", 404, "session_not_found", json=given, headers=headers)
    await refused(app, "GET", "/sessions/nothing/snapshots", 404, "session_not_found")


async def test_a_failed_turns_row_cannot_be_restored(app: App) -> None:
    end = await talk(app, "a", "/fail x")
    assert end["status"] == "failed"
    body = {"snapshotId": end["snapshotId"]}
    await refused(app, "POST", f"/sessions/{end['sessionId']}/restore", 409, "not_resumable", json=body)


async def test_another_tail_is_stale_and_told_the_present_one(app: App) -> None:
    end = await talk(app, "a", "b")
    path = f"/sessions/{end['sessionId']}"
    for change, body in (("truncate", {"messageId": "a"}), ("restore", {"snapshotId": end["snapshotId"]})):
        answer = await refused(
            app, "POST", f"{path}/{change}", 409, "agent_session_stale", json=body | {"lastMessageId": "a"}
        )
        assert answer["lastMessageId"] == end["lastMessageId"]


@pytest.mark.parametrize(
    ("change", "body"),
    [
        ("truncate", {}),
        ("truncate", {"messageId": ""}),
        ("truncate", {"messageId": "a", "lastMessageId": None}),
        ("truncate", {"messageId": ["a"]}),
        ("restore", {}),
        ("restore", {"snapshotId": "a/b"}),
        ("restore", {"snapshotId": ".", "more": 1}),
        ("branch", {"messageId": "a", "id": "__x__"}),
        ("branch", {"id": "x"}),
        ("compact", {"instructions": " "}),
        ("compact", {"instructions": "x" * 4001}),
        ("compact", {"messageId": "a"}),
    ],
)
async def test_a_change_of_the_wrong_shape_is_refused(app: App, change: str, body: Any) -> None:
    end = await talk(app, "a")
    await refused(app, "POST", f"/sessions/{end['sessionId']}/{change}", 400, "invalid_request", json=body)


async def test_the_tree_tells_every_row_with_the_text_of_its_message(app: App) -> None:
    end = await talk(app, "a", "b")
    session_id, shapes = end["sessionId"], await Shapes.of(app.http)
    await post(app, session_id, "truncate", messageId="b")
    first = ok(await app.http.get(f"/sessions/{session_id}/snapshots", params={"limit": 2}))
    second = ok(
        await app.http.get(f"/sessions/{session_id}/snapshots", params={"limit": 2, "cursor": first["nextCursor"]})
    )
    for page in (first, second):
        shapes.check(page, "SnapshotPage")
    assert "nextCursor" not in second
    rows = first["snapshots"] + second["snapshots"]
    assert [(row["origin"], row["status"], row.get("text")) for row in rows] == [
        ("turn", "completed", "a"),
        ("turn", "completed", "b"),
        ("truncate", "completed", None),
    ]
    assert [row.get("parentId") for row in rows] == [None, rows[0]["snapshotId"], rows[1]["snapshotId"]]
    assert [row.get("finishReason") for row in rows] == ["stop", "stop", None]


async def test_a_session_that_is_deleted_under_its_turn_is_not_made_anew() -> None:
    """Case 26: the turn's reader is told; here the owner has been silent for too long, so that the delete is let in."""
    go_on = asyncio.Event()
    async with served(ScriptedAgent([go_on])) as app:
        async with app.chat({"message": "a"}) as exchange:
            events = exchange.events()
            start = await anext(events)
            await _erase(app, start.data["sessionId"])
            go_on.set()
            last = [event async for event in events][-1]
        assert (last.name, last.data["code"]) == ("error", "agent_session_lease_lost")
        assert await app.documents() == {}


async def _erase(app: App, session_id: str) -> None:
    """What a delete does to a session whose lease is stale."""
    await app.database.commit([Delete(path) for path in await app.documents()])
    assert (await app.http.get(f"/sessions/{session_id}")).status_code == 404


@pytest.mark.parametrize(("limit", "count"), [("0", 4), ("5", 5)], ids=["off", "on"])
async def test_long_transcripts_are_summed_up_by_themselves_only_where_it_is_set(limit: str, count: int) -> None:
    async with served(COMPACT_AT_TOKENS=limit) as app:
        end = await talk(app, "a long question of more than five words", "b")
        assert len(await ids(app, end["sessionId"])) == count
