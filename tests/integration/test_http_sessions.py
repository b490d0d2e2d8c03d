"""Sessions over HTTP: made, made again, listed page by page; transcripts page by page."""

import base64
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.chat_client import ok, send, text_of, transcript
from tests.integration.http_app import App, served
from tests.integration.refusals import refused
from tests.integration.reply_shapes import Shapes


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served() as app:
        yield app


async def make(app: App, user: str = "local", **body: Any) -> dict[str, Any]:
    return dict(ok(await app.http.post("/sessions", json=body, headers={"x-user-id": user}), 201))


async def pages(app: App, limit: int) -> list[list[str]]:
    """The ids of the caller's sessions, page by page."""
    found: list[list[str]] = []
    query: dict[str, Any] = {"limit": limit}
    while True:
        page = ok(await app.http.get("/sessions", params=query))
        found.append([session["id"] for session in page["sessions"]])
        if "nextCursor" not in page:
            return found
        query["cursor"] = page["nextCursor"]


async def test_a_session_is_made_with_what_was_asked_for(app: App) -> None:
    session = await make(app, id="own", title="  Trip to Rome ", model="a:model")
    (await Shapes.of(app.http)).check(session, "Session")
    times = {session.pop("createdAt"), session.pop("updatedAt")}
    assert len(times) == 1
    assert session == {
        "id": "own",
        "title": "Trip to Rome",
        "agent": "echo",
        "model": "a:model",
        "temporary": False,
        "isTurnActive": False,
        "messageCount": 0,
    }


async def test_an_empty_body_makes_a_session_too(app: App) -> None:
    made = [ok(await app.http.post("/sessions", content=body), 201) for body in ("", "{}")]
    assert made[0]["id"] != made[1]["id"]
    assert made[0]["title"] == ""


async def test_the_same_id_again_is_the_same_session(app: App) -> None:
    made = await make(app, id="own", title="Mine")
    before = await app.documents()
    assert await make(app, id="own", title="Another title", custom={"a": 1}) == made
    assert await app.documents() == before


async def test_an_id_of_somebody_else_is_as_free_as_any(app: App) -> None:
    theirs = await make(app, user="another", id="own", title="theirs")
    own = await make(app, id="own", custom={}, title="mine")
    assert (own["id"], own["title"]) == ("own", "mine")
    assert ok(await app.http.get("/sessions/own")) == own
    assert ok(await app.http.get("/sessions/own", headers={"x-user-id": "another"})) == theirs
    end = await send(app.http, {"sessionId": "own", "message": "Hello"})
    assert end["sessionId"] == "own"
    assert ok(await app.http.get("/sessions/own", headers={"x-user-id": "another"})) == theirs


@pytest.mark.parametrize("custom", [{"count": 1, "a/b": {"": None}}, None, [], 0, "text"])
async def test_custom_state_is_there_from_the_start_and_stays(app: App, custom: Any) -> None:
    session = await make(app, id="own", custom=custom)
    row = ok(await app.http.get("/snapshot", params={"sessionId": "own"}))
    (await Shapes.of(app.http)).check(row, "Snapshot")
    assert (row["status"], row["state"]) == ("completed", {"messages": [], "custom": custom})
    assert session["headSnapshotId"] == row["snapshotId"]
    end = await send(app.http, {"sessionId": "own", "message": "Hello"})
    row = ok(await app.http.get("/snapshot", params={"snapshotId": end["snapshotId"]}))
    assert (row["parentId"], row["state"]["custom"]) == (session["headSnapshotId"], custom)


async def test_a_session_without_custom_state_has_no_snapshot(app: App) -> None:
    await make(app, id="own")
    assert (await app.http.get("/snapshot", params={"sessionId": "own"})).status_code == 404
    assert ok(await app.http.get("/sessions/own/messages")) == {"messages": []}


async def test_a_temporary_session_is_not_listed_and_says_when_it_ends(app: App) -> None:
    session = await make(app, id="own", temporary=True)
    created, expires = (datetime.fromisoformat(session[name]) for name in ("createdAt", "expiresAt"))
    assert abs(expires - created - timedelta(hours=24)) < timedelta(seconds=1)
    end = await send(app.http, {"sessionId": "own", "message": "Hello"})
    assert (session["temporary"], end["status"]) == (True, "completed")
    assert ok(await app.http.get("/sessions")) == {"sessions": []}
    assert ok(await app.http.get("/sessions/own"))["expiresAt"] == session["expiresAt"]  # a turn does not move it


async def test_a_temporary_session_that_is_over_is_not_found() -> None:
    async with served(TEMPORARY_AGENT_SESSION_TIME_TO_LIVE_HOURS="0.000000001") as app:
        ok(await app.http.post("/sessions", json={"id": "own", "temporary": True}), 201)
        await refused(app, "GET", "/sessions/own", 404, "session_not_found")
        await refused(app, "POST", "/chat", 404, "session_not_found", json={"sessionId": "own", "message": "Hello"})
        again = await refused(app, "POST", "/sessions", 404, "session_not_found", json={"id": "own"})
        assert again["message"] == "There is no session 'own'."
        said = {"message": {"role": "user", "content": [{"text": "Hello"}]}}
        turn = await app.http.post("/agents/echo", json={"data": said, "init": {"sessionId": "own"}})
        assert ok(turn)["result"] == {
            "sessionId": "own",
            "finishReason": "failed",
            "error": {"status": "NOT_FOUND", "message": "There is no session 'own'."},
        }


async def test_without_a_time_to_live_a_temporary_session_stays_and_is_not_listed() -> None:
    async with served(TEMPORARY_AGENT_SESSION_TIME_TO_LIVE_HOURS="0") as app:
        session = await make(app, id="own", temporary=True, custom=1)
        assert (session["temporary"], "expiresAt" in session) == (True, False)
        end = await send(app.http, {"sessionId": "own", "message": "Hello"})
        assert (end["status"], end["sessionId"]) == ("completed", "own")
        branch = await app.http.post("/sessions/own/branch", json={"messageId": end["lastMessageId"], "id": "branch"})
        assert (ok(branch, 201)["temporary"], "expiresAt" in branch.json()) == (True, False)
        assert ok(await app.http.get("/sessions")) == {"sessions": []}
        assert not any("firesessionExpireAt" in document.fields for document in (await app.documents()).values())
        assert ok(await app.http.post("/sweep?now=1", json={}))["deleted"] == 0
        ok(await app.http.get("/sessions/own"))


async def test_lists_are_of_the_caller_alone_and_newest_first(app: App) -> None:
    for name in ("a", "b", "c"):
        await make(app, id=name)
    await make(app, user="another", id="d")
    assert await pages(app, 20) == [["c", "b", "a"]]
    await send(app.http, {"sessionId": "a", "message": "Hello"})
    assert await pages(app, 20) == [["a", "c", "b"]]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 100])
async def test_pages_have_every_session_once(app: App, limit: int) -> None:
    names = [f"session-{number}" for number in range(7)]
    for name in names:
        await make(app, id=name)
    found = await pages(app, limit)
    assert [name for page in found for name in page] == names[::-1]
    assert all(len(page) == limit for page in found[:-1])


async def test_a_session_that_moves_up_meanwhile_is_not_lost_for_the_others(app: App) -> None:
    for name in ("a", "b", "c"):
        await make(app, id=name)
    page = ok(await app.http.get("/sessions", params={"limit": 1}))
    await send(app.http, {"sessionId": "a", "message": "Hello"})
    query = {"limit": 5, "cursor": page["nextCursor"]}
    assert [session["id"] for session in ok(await app.http.get("/sessions", params=query))["sessions"]] == ["b"]


async def test_twenty_sessions_are_listed_where_no_limit_is_given(app: App) -> None:
    for number in range(21):
        await make(app, id=f"session-{number}")
    assert len(ok(await app.http.get("/sessions"))["sessions"]) == 20


async def test_a_session_is_named_by_its_first_message_where_nobody_named_it(app: App) -> None:
    unnamed = await send(app.http, {"message": "  Where   is\nmy bag? "})
    assert ok(await app.http.get(f"/sessions/{unnamed['sessionId']}"))["title"] == "Where is my bag?"
    await make(app, id="own", title="Mine")
    await send(app.http, {"sessionId": "own", "message": "Hello"})
    assert ok(await app.http.get("/sessions/own"))["title"] == "Mine"


async def test_a_transcript_is_read_page_by_page_while_it_grows(app: App) -> None:
    end = await send(app.http, {"message": "turn 0"})
    for number in range(1, 6):
        place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
        end = await send(app.http, place | {"message": f"turn {number}"})
    said = [f"{prefix}turn {number}" for number in range(6) for prefix in ("", "echo: ")]
    for limit in (1, 5, 11, 12, 13, 1000):
        assert [text_of(message) for message in await transcript(app.http, end["sessionId"], limit)] == said
    whole = ok(await app.http.get(f"/sessions/{end['sessionId']}/messages"))
    assert (len(whole["messages"]), "nextCursor" in whole) == (12, False)
    first = ok(await app.http.get(f"/sessions/{end['sessionId']}/messages", params={"limit": 12}))
    assert "nextCursor" not in first  # the last page knows that it is the last
    place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
    page = ok(await app.http.get(f"/sessions/{end['sessionId']}/messages", params={"limit": 10}))
    await send(app.http, place | {"message": "turn 6"})
    query = {"limit": 10, "cursor": page["nextCursor"]}
    rest = ok(await app.http.get(f"/sessions/{end['sessionId']}/messages", params=query))
    texts = [text_of(message) for message in rest["messages"]]
    assert texts == [*said[10:], "turn 6", "echo: turn 6"]


async def test_a_cursor_behind_the_end_gives_an_empty_page(app: App) -> None:
    end = await send(app.http, {"message": "Hello"})
    cursor = base64.urlsafe_b64encode(b"99").decode().rstrip("=")
    path = f"/sessions/{end['sessionId']}/messages"
    assert ok(await app.http.get(path, params={"cursor": cursor})) == {"messages": []}


async def test_a_poll_changes_nothing(app: App) -> None:
    end = await send(app.http, {"message": "Hello"})
    before = await app.documents()
    for path in (f"/sessions/{end['sessionId']}", "/sessions", f"/snapshot?sessionId={end['sessionId']}", "/ready"):
        ok(await app.http.get(path))
    assert await app.documents() == before
