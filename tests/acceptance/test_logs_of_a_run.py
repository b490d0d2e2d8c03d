"""The logs of a real server in a run in which everything happens: each line is an entry that Cloud Logging understands
and says what it is about, and none repeats what anybody said."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from store.database import Condition, Kind, Put, Query
from store.firestore.database import FirestoreDatabase
from tests.acceptance.chat_client import client, ok, send, streamed
from tests.acceptance.fated_pair import place_of
from tests.acceptance.server_process import ServerProcess, running, server

SECRET = "tell-nobody"  # a part of everything that is said, in whatever form
SEVERITIES = {"INFO", "WARNING", "ERROR"}
LABELS = "logging.googleapis.com/labels"
TRACE = "logging.googleapis.com/trace"
KNOWN = {
    "severity",
    "time",
    "logger",
    "message",
    "session",
    "snapshot",
    "code",
    TRACE,
    "stack_trace",
}


@pytest.fixture(scope="module")
def logging_server(
    firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """Logs as it does where it is deployed."""
    settings = {"LOG_FORMAT": "json", "AGENT": "echo", "ABORT_GRACE": "0.2", "HEARTBEAT_INTERVAL": "0.4"}
    one = server(tmp_path_factory.mktemp("logs"), firestore_settings | settings | {"LEASE_STALENESS": "2"})
    with running(one):
        yield one
    check_lines(one)


@pytest.fixture
async def http(logging_server: ServerProcess, user: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client(logging_server.url, user) as http:
        yield http


@pytest.fixture
async def database(firestore_settings: dict[str, str]) -> AsyncIterator[FirestoreDatabase]:
    project, host = (firestore_settings[name] for name in ("GOOGLE_CLOUD_PROJECT", "FIRESTORE_EMULATOR_HOST"))
    database = FirestoreDatabase(project, emulator_host=host)
    yield database
    await database.close()


def traced(trace: str) -> dict[str, str]:
    """The header by which a caller names the trace that its request belongs to."""
    return {"traceparent": f"00-{trace}-0123456789abcdef-01"}


def minted() -> str:
    return uuid.uuid4().hex


async def told(http: httpx.AsyncClient, text: str, place: dict[str, Any], trace: str) -> dict[str, Any]:
    """How a turn ended."""
    body = {"message": text} | place
    return dict(ok(await http.post("/chat", json=body, headers=traced(trace))))


def entries(process: ServerProcess) -> list[dict[str, Any]]:
    """All that it has logged; AssertionError where a line is no entry."""
    found: list[dict[str, Any]] = []
    for line in process.output.splitlines():
        assert line.startswith("{"), f"not an entry: {line}"
        found.append(json.loads(line))
    return found


def of_trace(process: ServerProcess, trace: str) -> list[dict[str, Any]]:
    """The entries of requests that belong to the trace."""
    return [line for line in entries(process) if line.get(TRACE, "").endswith(f"/traces/{trace}")]


async def test_each_end_of_a_turn_is_an_entry_that_says_which_turn(
    http: httpx.AsyncClient, logging_server: ServerProcess, firestore_settings: dict[str, str]
) -> None:
    trace = minted()
    place: dict[str, Any] = {}
    for text in (f"{SECRET} one", f"/reason {SECRET}\n/tool look {{}}\n{SECRET}"):
        place = place_of(end := await told(http, text, place, trace))
        (line,) = [line for line in of_trace(logging_server, trace) if line.get("snapshot") == end["snapshotId"]]
        assert (line["severity"], line["message"]) == ("INFO", "the turn ended: completed")
        assert line["session"] == end["sessionId"]
        project = firestore_settings["GOOGLE_CLOUD_PROJECT"]
        assert line[TRACE] == f"projects/{project}/traces/{trace}"


@pytest.mark.parametrize("command", ["fail", "crash"])
async def test_an_agent_that_fails_is_an_error_with_its_place_and_code(
    http: httpx.AsyncClient, logging_server: ServerProcess, command: str
) -> None:
    trace = minted()
    end = await told(http, f"/{command} {SECRET}", {}, trace)
    failed, ended = of_trace(logging_server, trace)
    assert (failed["severity"], failed["code"], failed["snapshot"]) == ("ERROR", "INTERNAL", end["snapshotId"])
    assert failed["stack_trace"].startswith("Traceback (most recent call last):\n")
    assert "functions/agents/echo.py" in failed["stack_trace"]
    assert ended["message"] == "the turn ended: failed"


async def test_a_turn_that_is_stopped_is_an_entry(http: httpx.AsyncClient, logging_server: ServerProcess) -> None:
    async with streamed(http, {"message": f"/reason {SECRET}\n/sleep 20"}) as events:
        start = await anext(events)
        await anext(events)
        ok(await http.post("/abort", json={"snapshotId": start.data["snapshotId"]}))
        assert [event async for event in events][-1].data["status"] == "aborted"
    told = [line["message"] for line in entries(logging_server) if line.get("snapshot") == start.data["snapshotId"]]
    assert told == ["the turn ended: aborted"]


async def test_contradicting_documents_are_an_error_with_its_code(
    http: httpx.AsyncClient, logging_server: ServerProcess, database: FirestoreDatabase
) -> None:
    """Found by a request that names the session in its query, so that the entry knows it from there."""
    end = await send(http, {"message": f"{SECRET} before"})
    rows = Query(Kind.SNAPSHOTS, "local", (Condition("snapshotId", "==", end["snapshotId"]),))
    (row,) = (await database.query(rows)).documents
    await database.commit([Put(row.path, {**row.fields, "chain": b"broken"})])
    trace = minted()
    answer = await http.get("/snapshot", params={"snapshotId": end["snapshotId"]}, headers=traced(trace))
    assert (answer.status_code, answer.json()["code"]) == (500, "data_loss")
    (line,) = of_trace(logging_server, trace)
    assert (line["severity"], line["code"], line["snapshot"]) == ("ERROR", "data_loss", end["snapshotId"])


REFUSED = [
    (b'{"message": "tell-nobody', 400),
    (b'{"message": "tell-nobody\xff"}', 400),
    (b'{"message": "tell-nobody", "message": "tell-nobody"}', 400),
    (b'{"tell-nobody": 1}', 400),
    (b'{"message": {"role": "tell-nobody", "content": []}}', 400),
    (b'{"message": {"role": "user", "content": [{"text": "tell-nobody", "n": 1e999}]}}', 400),
    (b'{"message": "tell-nobody", "sessionId": "nobody-has-it"}', 404),
    (b"[" * 200 + b'"tell-nobody"' + b"]" * 200, 400),
]


@pytest.mark.parametrize(("body", "status"), REFUSED)
async def test_a_refused_body_is_answered_and_not_logged(
    http: httpx.AsyncClient, logging_server: ServerProcess, body: bytes, status: int
) -> None:
    trace = minted()
    headers = traced(trace) | {"content-type": "application/json"}
    assert (await http.post("/chat", content=body, headers=headers)).status_code == status
    assert of_trace(logging_server, trace) == []


async def test_whatever_else_is_said_is_not_logged(http: httpx.AsyncClient, logging_server: ServerProcess) -> None:
    """Titles, instructions, custom state, artifacts, answers to an interrupt, a busy and a stale send, clients that
    leave, agents that heed no signal, bodies of other dialects."""
    session = ok(await http.post("/sessions", json={"title": SECRET, "custom": {SECRET: SECRET}}), 201)
    end = await told(http, f"/custom {{}}\n/artifact {SECRET} {SECRET}", {"sessionId": session["id"]}, minted())
    end = await told(http, f'/interrupt ask {{"what": "{SECRET}"}}', place_of(end), minted())
    (part,) = [part for part in end["message"]["content"] if "toolRequest" in part]
    request = part["toolRequest"]
    given = {"name": request["name"], "ref": request["ref"], "output": SECRET}
    resume = place_of(end) | {"resume": {"respond": [{"toolResponse": given}]}}
    end = dict(ok(await http.post("/chat", json=resume)))
    async with streamed(
        http, {"message": f"/reason {SECRET}\n/stubborn 0.6\n/crash {SECRET}"} | place_of(end)
    ) as events:
        start = await anext(events)
        busy = await http.post("/chat", json={"message": SECRET} | place_of(end))
        assert (busy.status_code, busy.json()["code"]) == (409, "agent_session_busy")
        ok(await http.post("/abort", json={"sessionId": session["id"]}))
    snapshot = ok(await http.get("/snapshot", params={"snapshotId": start.data["snapshotId"], "wait": 20}))
    assert snapshot["status"] == "aborted"
    stale = await http.post("/chat", json={"message": SECRET, "sessionId": session["id"], "lastMessageId": SECRET})
    assert (stale.status_code, stale.json()["code"]) == (409, "agent_session_stale")
    assert (await http.patch(f"/sessions/{session['id']}", json={"title": f"{SECRET} two"})).status_code == 200
    ok(await http.post(f"/sessions/{session['id']}/compact", json={"instructions": SECRET}))
    ok(await http.post("/agents/echo", json={"data": {"message": {"role": "user", "content": [{"text": SECRET}]}}}))
    assert (await http.post("/agents/echo", json={"data": {SECRET: SECRET}})).status_code == 400
    assert entries(logging_server)


async def test_a_turn_that_lost_its_lease_is_a_warning_with_its_code(
    http: httpx.AsyncClient,
    logging_server: ServerProcess,
    firestore_settings: dict[str, str],
    tmp_path: Path,
    user: str,
) -> None:
    """The server is frozen for longer than its lease lives; another one goes on, and it thaws."""
    settings = firestore_settings | {"LOG_FORMAT": "json", "HEARTBEAT_INTERVAL": "0.4", "LEASE_STALENESS": "2"}
    trace = minted()
    begun = await send(http, {"message": f"{SECRET} before"})
    with running(other := server(tmp_path, settings, "other")):
        async with client(other.url, user) as there:
            lost = asyncio.create_task(told(http, f"/reason {SECRET}\n/sleep 2", place_of(begun), trace))
            await _until_active(there, begun["sessionId"])
            logging_server.pause()
            try:
                await _until_idle(there, begun["sessionId"])
                await send(there, {"message": f"{SECRET} after"} | place_of(begun))
            finally:
                logging_server.resume()
            with pytest.raises(AssertionError, match="agent_session_lease_lost"):
                await lost
    (line,) = of_trace(logging_server, trace)
    assert (line["severity"], line["code"], line["session"]) == (
        "WARNING",
        "agent_session_lease_lost",
        begun["sessionId"],
    )
    assert SECRET not in other.output


async def _until_active(http: httpx.AsyncClient, session_id: str) -> None:
    async with asyncio.timeout(20):
        while not ok(await http.get(f"/sessions/{session_id}"))["isTurnActive"]:  # noqa: ASYNC110 - told by a server
            await asyncio.sleep(0.02)


async def _until_idle(http: httpx.AsyncClient, session_id: str) -> None:
    async with asyncio.timeout(20):
        while ok(await http.get(f"/sessions/{session_id}"))["isTurnActive"]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)


async def test_every_line_is_an_entry_and_none_repeats_what_was_said(
    http: httpx.AsyncClient, logging_server: ServerProcess
) -> None:
    """Of this run so far; the server's fixture does the same when all is over, its end included."""
    await send(http, {"message": f"{SECRET} once more"})
    check_lines(logging_server)


async def test_entries_come_where_the_framework_adds_execution_ids(tmp_path: Path) -> None:
    """As the platform has it do for functions; it would silence every logger that it finds."""
    one = server(tmp_path, {"STORE": "memory", "LOG_FORMAT": "json", "LOG_EXECUTION_ID": "true"})
    with running(one):
        async with client(one.url) as http:
            await send(http, {"message": f"{SECRET} one"})
            await send(http, {"message": f"/crash {SECRET}"})
    told = [(line["message"].partition(" turn")[0], LABELS in line) for line in entries(one)]
    assert told == [("the", True), ("the agent failed in", True), ("the", True)]
    check_lines(one, LABELS)


def check_lines(process: ServerProcess, *known: str) -> None:
    """AssertionError where a line is no entry, or holds what somebody said."""
    lines = entries(process)
    assert lines
    for line in lines:
        assert line.keys() <= KNOWN | set(known)
        assert line["severity"] in SEVERITIES
    assert [line for line in process.output.splitlines() if SECRET in line] == []
