"""What `firebase deploy` uploads, under Firebase's own emulators: a smoke test.

There each request may run in a process of its own, so that nothing but Firestore can join the parts of a turn.
"""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.chat_client import client, send_streaming, streamed
from tests.deploy.emulator_suite import Suite, emulator_suite, left_behind

pytestmark = [pytest.mark.deploy, pytest.mark.node, pytest.mark.timeout(900)]

LONG = "word " * 400


@pytest.fixture(scope="module")
def suite(uploaded_by_firebase: Path, commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    folder = tmp_path_factory.mktemp("suite")
    with emulator_suite(folder, uploaded_by_firebase, commands, AGENT="echo", ECHO_DELAY_MS="20") as running:
        yield running
        assert left_behind(running.mark)
    assert left_behind(running.mark) == []  # the CLI leaves processes of functions; a run of tests must not


async def test_a_chat_goes_on_in_another_function(suite: Suite) -> None:
    """Streamed by one, listed by another, read by a third."""
    async with client(suite.function("app")) as http:
        sent = await send_streaming(http, {"message": "Hello"})
    assert sent.end["message"]["content"] == [{"text": "echo: Hello"}]
    async with client(suite.function("sessions")) as http:
        listed = (await http.get("/sessions")).json()["sessions"]
    assert sent.end["sessionId"] in [session["id"] for session in listed]
    async with client(suite.function("snapshot")) as http:
        row = (await http.get("/snapshot", params={"snapshotId": sent.end["snapshotId"]})).json()
    assert (row["status"], len(row["state"]["messages"])) == ("completed", 2)


async def test_an_abort_in_another_process_stops_a_turn(suite: Suite) -> None:
    """The functions are different processes here: the flag travels through Firestore."""
    async with client(suite.function("chat")) as http, streamed(http, {"message": LONG}) as events:
        start = await anext(events)
        async with client(suite.function("abort")) as other:
            answer = await other.post("/abort", json={"snapshotId": start.data["snapshotId"]})
        *_, end = [event async for event in events]
    assert answer.json()["previousStatus"] == "pending"
    assert (end.name, end.data["status"]) == ("turn-end", "aborted")


async def test_a_stream_arrives_as_it_is_made(suite: Suite) -> None:
    """Nothing between the function and its caller waits for the end of it."""
    async with client(suite.function("chat")) as http, streamed(http, {"message": LONG}) as events:
        await anext(events)
        started = time.monotonic()
        await anext(events)
        first = time.monotonic() - started
        async for _ in events:
            pass
        whole = time.monotonic() - started
    assert first < whole / 4


async def test_hosting_passes_every_other_address_on(suite: Suite) -> None:
    """The file is hosting's own, the session is the function's."""
    async with client(suite.hosting) as http:
        robots, made = await asyncio.gather(http.get("/robots.txt"), http.post("/sessions", json={"title": "Mine"}))
        assert robots.text == "User-agent: *\nDisallow: /\n"
        assert made.status_code == 201
        assert (await http.get(f"/sessions/{made.json()['id']}")).json()["title"] == "Mine"


async def test_the_rules_let_no_client_at_the_documents(suite: Suite) -> None:
    """Neither somebody without a token nor a user: only servers, which rules do not hold for."""
    async with client(suite.function("app")) as http:
        await send_streaming(http, {"message": "Hello"})
    path = f"/v1/projects/{suite.project}/databases/(default)/documents/genkit-sessions/local/snapshots"
    token = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in (
            {"alg": "none"},
            {"sub": "local", "aud": suite.project, "iss": f"https://example.com/{suite.project}"},
        )
    )
    async with httpx.AsyncClient(base_url=suite.firestore, trust_env=False) as http:
        stranger = await http.get(path)
        user = await http.get(path, headers={"authorization": f"Bearer {token}."})
        owner = await http.get(path, headers={"authorization": "Bearer owner"})
    assert (stranger.status_code, user.status_code, owner.status_code) == (403, 403, 200)
    assert owner.json()["documents"]
