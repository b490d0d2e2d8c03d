"""Clients as they are, against a real server process: gone in the middle, malformed, larger than allowed."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.chat_client import client, ok, send, streamed, text_of
from tests.acceptance.server_process import ServerProcess, running, server

LIMIT = 100_000


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on the memory store, which needs no emulator."""
    folder: Path = tmp_path_factory.mktemp("clients")
    settings = {"STORE": "memory", "MAX_BODY_BYTES": str(LIMIT), "ECHO_DELAY_MS": "2"}
    process = server(folder, settings)
    with running(process):
        yield process
    assert "Traceback" not in process.output, process.output


@pytest.fixture
async def http(process: ServerProcess, user: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client(process.url, user) as http:
        yield http


async def left(http: httpx.AsyncClient, message: str, on_disconnect: str) -> str:
    """Closes the connection after the first word; the turn's id."""
    async with streamed(http, {"message": message, "onDisconnect": on_disconnect}) as events:
        start = await anext(events)
        await anext(events)
    return str(start.data["snapshotId"])


async def test_a_turn_whose_reader_vanished_is_completed(http: httpx.AsyncClient) -> None:
    snapshot_id = await left(http, "one two three " * 10, "continue")
    row = ok(await http.get("/snapshot", params={"snapshotId": snapshot_id, "wait": 20}))
    assert row["status"] == "completed"
    assert text_of(row["state"]["messages"][-1]) == "echo: " + "one two three " * 10


async def test_a_turn_whose_reader_vanished_stops_where_that_was_asked(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(20):
        snapshot_id = await left(http, "word " * 10_000, "cancel")
        row = ok(await http.get("/snapshot", params={"snapshotId": snapshot_id, "wait": 20}))
    message = row["state"]["messages"][-1]
    assert (row["status"], message["metadata"]) == ("aborted", {"interrupted": True})
    assert text_of(message).startswith("echo: ")


async def test_a_waiting_client_that_vanishes_counts_as_a_reader_that_left(http: httpx.AsyncClient, user: str) -> None:
    message = {"id": user, "role": "user", "content": [{"text": "/sleep 60"}]}
    body = {"message": message, "onDisconnect": "cancel"}
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/chat", json=body, timeout=0.5)
    async with asyncio.timeout(20):
        end = await send(http, body)  # the same send: its answer is the turn that was stopped
    assert end["status"] == "aborted"


async def raw(process: ServerProcess, request: bytes) -> tuple[int, dict[str, str]]:
    """Status and body of the answer to these bytes; the body must be JSON."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    try:
        writer.write(request)
        async with asyncio.timeout(10):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.split("content-length: ")[1].split("\r\n")[0])
            body = await reader.readexactly(length)
    finally:
        writer.close()
    return int(head.split(" ")[1]), json.loads(body)


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: server", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def get(path: str, *headers: bytes) -> bytes:
    return b"\r\n".join([f"GET {path} HTTP/1.1".encode(), b"Host: server", *headers, b"", b""])


REFUSED = {
    "not JSON": post("/chat", b"Hello"),
    "NaN": post("/sessions", b'{"custom": NaN}'),
    "1e400": post("/sessions", b'{"custom": 1e400}'),
    "a lone surrogate": post("/chat", b'{"message": "\\ud800"}'),
    "a key twice": post("/chat", b'{"message": "a", "message": "a"}'),
    "no UTF-8": post("/chat", b'{"message": "\xff"}'),
    "neither selector": post("/abort", b"{}"),
    "both selectors": post("/abort", b'{"sessionId": "a", "snapshotId": "b"}'),
    "a dot as id": get("/sessions/%2E"),
    "an encoded slash": get("/sessions/a%2Fb"),
    "a reserved id": get("/sessions/__x__"),
    "an empty id": get("/sessions/"),
    "an id of 1,401 bytes": get("/sessions/" + "x" * 1401),
    "an id that is not UTF-8": get("/sessions/%FF"),
    "a user that is not UTF-8": get("/sessions", b"x-user-id: \xff"),
    "an empty user": get("/sessions", b"x-user-id:"),
    "a tenant with a slash": get("/sessions", b"x-tenant-id: a/b"),
}


@pytest.mark.parametrize("request_bytes", REFUSED.values(), ids=REFUSED.keys())
async def test_what_is_wrong_on_the_wire_is_refused_as_invalid(process: ServerProcess, request_bytes: bytes) -> None:
    status, body = await raw(process, request_bytes)
    assert (status, body.get("code")) == (400, "invalid_request")


async def test_another_method_or_path_or_media_type_is_told_apart(process: ServerProcess) -> None:
    answers = [
        await raw(process, get("/chat")),
        await raw(process, get("/nothing")),
        await raw(
            process, post("/chat", b"message=Hello", "Content-Type: text/plain").replace(b"application/json", b"text/a")
        ),
    ]
    assert [(status, body["code"]) for status, body in answers] == [
        (405, "method_not_allowed"),
        (404, "not_found"),
        (415, "unsupported_media_type"),
    ]


async def test_a_body_over_the_limit_is_refused_and_the_server_goes_on(http: httpx.AsyncClient) -> None:
    text = json.dumps({"message": "x" * (20 * LIMIT)}).encode()

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(text), 65536):
            yield text[start : start + 65536]

    for content in (text, in_pieces()):
        answer = await http.post("/chat", content=content, headers={"content-type": "application/json"})
        assert ok(answer, 413)["code"] == "payload_too_large"
    assert (await send(http, {"message": "Hello"}))["status"] == "completed"
    assert len(ok(await http.get("/sessions"))["sessions"]) == 1


async def test_users_whose_names_need_utf8_are_told_apart(process: ServerProcess, user: str) -> None:
    names = [f"{user}-{letter}".encode() for letter in ("ö", "é", "名", "\U0001f600")]
    for number, name in enumerate(names):
        async with httpx.AsyncClient(base_url=process.url, headers={b"x-user-id": name}, trust_env=False) as http:
            await send(http, {"message": f"I am {number}"})
    for number, name in enumerate(names):
        async with httpx.AsyncClient(base_url=process.url, headers={b"x-user-id": name}, trust_env=False) as http:
            (session,) = ok(await http.get("/sessions"))["sessions"]
            assert session["title"] == f"I am {number}"
