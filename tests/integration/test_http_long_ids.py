"""Session ids as long as they may be, wherever a client chooses one: they are stored, listed and answered whole, and
one byte more is refused. What is stored is longer still, for its user stands behind it."""

from collections.abc import AsyncIterator
from pathlib import Path as Directory
from typing import Any
from urllib.parse import quote

import pytest

from store.ids import MAX_ID_BYTES
from tests.acceptance.chat_client import ok, send
from tests.integration.http_app import App, served
from tests.integration.refusals import refused


def longest(letter: str) -> str:
    """The longest id that begins with that letter again and again."""
    size = len(letter.encode())
    return letter * (MAX_ID_BYTES // size) + "x" * (MAX_ID_BYTES % size)


LETTERS = ("x", "é", "€", "😀", '"')  # of one to four bytes, and one that JSON writes with two
PLACES = [("memory", letter) for letter in LETTERS] + [("file", "é"), ("firestore", "x"), ("firestore", "é")]
USER = {"x-tenant-id": "acme", "x-user-id": "ada"}
SAID = {"message": {"role": "user", "content": [{"text": "Hello"}]}}


@pytest.fixture
async def app(store: str, tmp_path: Directory, emulator_host: str, project_id: str) -> AsyncIterator[App]:
    firestore = {"FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    settings = {"memory": {}, "file": {"STORE_PATH": str(tmp_path)}, "firestore": firestore}[store]
    async with served(None, STORE=store, **settings) as app:
        app.http.headers.update(USER)
        yield app


async def listed(app: App) -> list[str]:
    """The ids of the caller's sessions, page by page."""
    ids: list[str] = []
    query: dict[str, Any] = {"limit": 1}
    while True:
        page = ok(await app.http.get("/sessions", params=query))
        ids += [session["id"] for session in page["sessions"]]
        if "nextCursor" not in page:
            return ids
        query["cursor"] = page["nextCursor"]


def in_a_path(session_id: str) -> str:
    return f"/sessions/{quote(session_id, safe='')}"


@pytest.mark.parametrize(("store", "letter"), PLACES)
async def test_the_longest_id_is_good_everywhere(app: App, letter: str) -> None:
    own = longest(letter)
    made = ok(await app.http.post("/sessions", json={"id": own}), 201)
    assert made["id"] == own
    end = await send(app.http, {"sessionId": own, "message": "Hello"})
    assert end["sessionId"] == own
    assert ok(await app.http.get(in_a_path(own)))["id"] == own
    assert len(ok(await app.http.get(f"{in_a_path(own)}/snapshots"))["snapshots"]) == 1
    short = ok(await app.http.post(f"{in_a_path(own)}/branch", json={"messageId": end["lastMessageId"]}), 201)
    assert short["branchedFrom"]["sessionId"] == own
    assert await listed(app) == [short["id"], own]
    assert (await app.http.delete(in_a_path(own))).status_code == 204
    asked = {"messageId": short["lastMessageId"], "id": own}
    branch = ok(await app.http.post(f"{in_a_path(short['id'])}/branch", json=asked), 201)
    assert (branch["id"], branch["branchedFrom"]["sessionId"]) == (own, short["id"])
    assert (await app.http.delete(in_a_path(own))).status_code == 204
    turn = ok(await app.http.post("/agents/echo", json={"data": SAID, "init": {"sessionId": own}}))["result"]
    assert (turn["sessionId"], turn["finishReason"]) == (own, "stop")
    assert await listed(app) == [own, short["id"]]


@pytest.mark.parametrize(("store", "letter"), [("memory", letter) for letter in LETTERS])
async def test_one_byte_more_is_refused_wherever_an_id_is_chosen(app: App, letter: str) -> None:
    end = await send(app.http, {"message": "Hello"})
    source, message_id, over = end["sessionId"], end["lastMessageId"], longest(letter) + "x"
    await refused(app, "POST", "/sessions", 400, "invalid_request", json={"id": over})
    await refused(app, "POST", "/sessions", 400, "invalid_request", json={"id": over, "custom": 1})
    asked = {"messageId": message_id, "id": over}
    await refused(app, "POST", f"/sessions/{source}/branch", 400, "invalid_request", json=asked)
    await refused(app, "GET", in_a_path(over), 400, "invalid_request")
    before = await app.documents()
    answer = await app.http.post("/agents/echo", json={"data": SAID, "init": {"sessionId": over}})
    assert ok(answer, 400)["status"] == "INVALID_ARGUMENT"
    assert await app.documents() == before
