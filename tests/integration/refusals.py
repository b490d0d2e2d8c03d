"""Requests that must be refused without a trace, and what is stored before each. Holds no test."""

from typing import Any, NamedTuple

from tests.acceptance.chat_client import ok, send
from tests.integration.http_app import App

JSON = "application/json"


class Place(NamedTuple):
    """What is stored before each bad request: a session with a completed turn, and one that a turn runs in."""

    session_id: str
    snapshot_id: str
    last_message_id: str
    busy_session_id: str
    busy_snapshot_id: str


async def furnished(app: App) -> Place:
    """Stores what a `Place` holds."""
    done = await send(app.http, {"message": "Hello"})
    busy = ok(await app.http.post("/chat", json={"message": "/sleep 60", "detach": True}), 202)
    return Place(done["sessionId"], done["snapshotId"], done["lastMessageId"], busy["sessionId"], busy["snapshotId"])


async def refused(app: App, method: str, path: str, status: int, code: str, **given: Any) -> dict[str, Any]:
    """Asserts the answer, and that nothing was written; gives the answer's body."""
    before = await app.documents()
    response = await app.http.request(method, path, **given)
    body = ok(response, status)
    assert body["code"] == code, body
    assert isinstance(body["message"], str)
    assert "Traceback" not in response.text
    assert await app.documents() == before
    return dict(body)


async def refused_text(app: App, path: str, text: str | bytes, status: int = 400) -> dict[str, Any]:
    code = {400: "invalid_request", 413: "payload_too_large", 415: "unsupported_media_type"}[status]
    return await refused(app, "POST", path, status, code, content=text, headers={"content-type": JSON})
