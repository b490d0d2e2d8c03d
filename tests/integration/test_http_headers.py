"""How much of headers a real server takes: to the last byte, refused in our own shape a byte later, no crash."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from functions.wire.headers import MAX_HEADER_BYTES
from tests.acceptance.server_process import ServerProcess, running, server
from tests.integration.http_app import served

# The framework adds the last one where it is missing.
ALWAYS = b"host: x\r\nconnection: close\r\nfunction-execution-id: x\r\n"
WEB_SERVERS = 65_536  # bytes that the web server holds of headers that are not complete; one read may bring more


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = server(tmp_path_factory.mktemp("headers"), {"STORE": "memory"})
    with running(process):
        yield process
    assert "Traceback" not in process.output


def one_long(size: int) -> bytes:
    start = ALWAYS + b"x-long: "
    return start + b"a" * (size - len(start) - 2) + b"\r\n"


def many_short(size: int) -> bytes:
    line = b"x: yyyyyyyyyyyyyyyy\r\n"
    count, rest = divmod(size - len(ALWAYS), len(line))
    return ALWAYS + line * (count - 1) + line[:-2] + b"y" * rest + b"\r\n"


async def answer(process: ServerProcess, headers: bytes, path: str = "/health") -> tuple[int, bytes]:
    """Status and body; status 0 where the server hung up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\n".encode() + headers + b"\r\n")
        await writer.drain()
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    except ConnectionError:
        return 0, b""
    finally:
        writer.close()
    return int(head.split()[1]) if head else 0, body


async def heard(process: ServerProcess, headers: bytes) -> tuple[int, bytes]:
    """As `answer`; asked again where the connection broke, as one in some ten thousand does on a crowded machine."""
    for _ in range(3):
        status, body = await answer(process, headers)
        if status:
            break
    return status, body


@pytest.mark.parametrize("headers", [one_long, many_short])
async def test_headers_are_taken_to_the_last_byte_and_not_a_byte_further(process: ServerProcess, headers: Any) -> None:
    assert (await heard(process, headers(MAX_HEADER_BYTES)))[0] == 200
    status, body = await heard(process, headers(MAX_HEADER_BYTES + 1))
    told = {"code": "headers_too_large", "message": "Headers may take 32,768 bytes.", "limit": MAX_HEADER_BYTES}
    assert (status, json.loads(body)) == (431, told)
    assert (await heard(process, headers(WEB_SERVERS - 200)))[0] == 431


@pytest.mark.parametrize("size", [4 * WEB_SERVERS, 64 * WEB_SERVERS])
async def test_what_the_web_server_cannot_hold_it_refuses_itself(process: ServerProcess, size: int) -> None:
    assert (await answer(process, one_long(size)))[0] in (0, 400, 431)
    assert (await heard(process, one_long(100)))[0] == 200


async def test_genkits_clients_and_browsers_are_told_too() -> None:
    origin = "https://app.example.com"
    async with served(None, CORS_ORIGINS=origin) as app:
        large = {"x-long": "a" * MAX_HEADER_BYTES, "origin": origin}
        answered = await app.http.post("/agents/echo", json={}, headers=large)
        assert (answered.status_code, answered.json()["status"]) == (431, "RESOURCE_EXHAUSTED")
        assert answered.headers["access-control-allow-origin"] == origin
        preflight = large | {"access-control-request-method": "POST"}
        assert (await app.http.options("/chat", headers=preflight)).status_code == 431
        assert await app.documents() == {}
