"""What can go wrong around a server: it dies in the middle of a turn, or the database is away for a while."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from functions.cli.emulator import Emulator, find_jar
from tests.acceptance.chat_client import client, ok, send, send_streaming, text_of, transcript
from tests.acceptance.server_process import Pair, ServerProcess, running, server
from tests.warm_emulator import warm_up

MORTAL = {"HEARTBEAT_INTERVAL": "0.5", "LEASE_STALENESS": "4"}
FROM_OUTSIDE = 15.0  # seconds within which an outage is told, and its end noticed: three times what is promised


@pytest.fixture(scope="module")
def started_pair(firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("mortal")
    both = Pair(*(server(folder, firestore_settings | MORTAL, name) for name in ("first", "second")))
    with running(*both):
        yield both


@pytest.fixture
def mortal_pair(started_pair: Pair) -> Pair:
    """Two servers that find each other dead after four seconds; the first one may be killed."""
    if not started_pair.first.is_running:
        started_pair.first.launch()
        started_pair.first.wait_until_it_answers()
    return started_pair


async def wait_for(http: httpx.AsyncClient, snapshot_id: str) -> dict[str, Any]:
    """The row once it has ended or expired."""
    return dict(ok(await http.get("/snapshot", params={"snapshotId": snapshot_id, "wait": 30})))


async def test_a_turn_whose_server_died_expires_and_its_message_can_be_sent_again(mortal_pair: Pair, user: str) -> None:
    body = {"message": {"id": user, "role": "user", "content": [{"text": "/sleep 4\nHello"}]}}
    async with client(mortal_pair.first.url, user) as first, client(mortal_pair.second.url, user) as second:
        turn = ok(await first.post("/chat", json=body | {"detach": True}), 202)
        mortal_pair.first.kill()
        busy = await second.post("/chat", json={"sessionId": turn["sessionId"], "message": "impatient"})
        assert ok(busy, 409)["code"] == "agent_session_busy"
        row = await wait_for(second, turn["snapshotId"])
        assert (row["status"], "state" in row) == ("expired", False)
        session = ok(await second.get(f"/sessions/{turn['sessionId']}"))
        assert session["isTurnActive"] is False
        again = await send(second, body)
        assert (again["status"], again["sessionId"]) == ("completed", turn["sessionId"])
        assert again["snapshotId"] != turn["snapshotId"]
        row = await wait_for(second, turn["snapshotId"])
        assert (row["status"], row["error"]["status"]) == ("failed", "ABORTED")
        assert len(await transcript(second, turn["sessionId"])) == 2


async def test_a_turn_whose_server_died_can_be_aborted_at_once_when_it_is_stale(mortal_pair: Pair, user: str) -> None:
    async with client(mortal_pair.first.url, user) as first, client(mortal_pair.second.url, user) as second:
        turn = ok(await first.post("/chat", json={"message": "/sleep 60", "detach": True}), 202)
        mortal_pair.first.kill()
        await wait_for(second, turn["snapshotId"])
        answer = ok(await second.post("/abort", json={"sessionId": turn["sessionId"]}))
        assert (answer["previousStatus"], answer["status"]) == ("expired", "aborted")
        assert (await wait_for(second, turn["snapshotId"]))["status"] == "aborted"
        assert (await send(second, {"sessionId": turn["sessionId"], "message": "on"}))["status"] == "completed"


async def test_a_live_turn_outlasts_its_staleness_by_its_heartbeats(mortal_pair: Pair, user: str) -> None:
    async with client(mortal_pair.first.url, user) as first, client(mortal_pair.second.url, user) as second:
        turn = ok(await first.post("/chat", json={"message": "/sleep 6\nstill here", "detach": True}), 202)
        row = await wait_for(second, turn["snapshotId"])
    assert (row["status"], text_of(row["state"]["messages"][-1])) == ("completed", "echo: still here")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    """One that a test may kill, pause and start again."""
    with Emulator(find_jar(os.environ)) as emulator:
        warm_up(emulator.host)
        yield emulator


@pytest.fixture(scope="module")
def dependent(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on that emulator."""
    settings = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": emulator.host, "GOOGLE_CLOUD_PROJECT": "demo-outage"}
    process = server(tmp_path_factory.mktemp("dependent"), settings)
    with running(process):
        yield process


@pytest.fixture
async def http(dependent: ServerProcess, user: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client(dependent.url, user) as http:
        yield http


async def check_unavailable(http: httpx.AsyncClient, session_id: str) -> None:
    """Every route that needs the database says so in time, all at once; one that needs none is not disturbed."""
    loop = asyncio.get_running_loop()

    async def ask(method: str, path: str, body: Any = None) -> float:
        started = loop.time()
        answer = await http.request(method, path, json=body)
        assert ok(answer, 503)["code"] == "unavailable", path
        return loop.time() - started

    asking = [
        ask("GET", "/ready"),
        ask("GET", f"/sessions/{session_id}"),
        ask("GET", f"/sessions/{session_id}/messages"),
        ask("GET", "/sessions"),
        ask("GET", f"/snapshot?sessionId={session_id}"),
        ask("GET", f"/snapshot?sessionId={session_id}&wait=50"),
        ask("POST", "/abort", {"sessionId": session_id}),
        ask("POST", "/sessions", {"id": "own"}),
        ask("POST", "/chat", {"message": "Hello"}),
        ask("POST", "/chat", {"sessionId": session_id, "message": "Hello"}),
    ]
    waiting = asyncio.gather(*asking)
    ok(await http.get("/health"))
    assert max(await waiting) < FROM_OUTSIDE


async def test_an_outage_is_told_in_time_and_its_end_is_noticed_in_time(
    http: httpx.AsyncClient, emulator: Emulator, dependent: ServerProcess
) -> None:
    before = await send_streaming(http, {"message": "before"})
    emulator.kill()
    await check_unavailable(http, before.end["sessionId"])
    await asyncio.to_thread(emulator.start)  # empty: its documents were in its memory
    async with asyncio.timeout(FROM_OUTSIDE):
        while (answer := await http.post("/chat", json={"message": "after"})).status_code == 503:
            pass
        end = ok(answer)
    assert text_of(end["message"]) == "echo: after"
    turn = ok(await http.post("/chat", json={"message": "/sleep 60", "detach": True}), 202)
    ok(await http.post("/abort", json={"snapshotId": turn["snapshotId"]}))  # the listener is back, too
    assert (await wait_for(http, turn["snapshotId"]))["status"] == "aborted"


async def test_a_turn_outlasts_a_short_outage_and_is_settled_after_it(
    http: httpx.AsyncClient, emulator: Emulator, dependent: ServerProcess
) -> None:
    turn = ok(await http.post("/chat", json={"message": "/sleep 0.5\nHello", "detach": True}), 202)
    emulator.pause()
    await asyncio.sleep(3)  # the settle falls into the outage
    emulator.resume()
    row = await wait_for(http, turn["snapshotId"])
    assert (row["status"], text_of(row["state"]["messages"][-1])) == ("completed", "echo: Hello")
