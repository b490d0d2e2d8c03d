"""Requests that no client library would send, past any of them straight into the application: broken bodies, lying
headers, ids in disguise. None may be a failure of ours, leave anything behind, or cost memory."""

import asyncio
import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Message

from functions.app import ROUTES
from functions.handlers import retention
from tests.integration.http_app import asgi
from tests.properties.fuzzed_app import FuzzedApp, fuzzed

FEW, MANY = 150, 4000
ANY_BYTES = st.binary(max_size=40)
BLANKS = [b"", b"\x00", b" ", b"\xff", b"\xef\xbb\xbf", b"\xc0\xaf", "\u2028".encode(), "é".encode("latin-1")]

good_bodies = st.sampled_from(
    [
        {"message": "Hello"},
        {"message": {"role": "user", "content": [{"text": "Hello"}, {"data": [1, None, "\u0000"]}]}},
        {"sessionId": "missing", "message": "Hello"},
        {"snapshotId": "missing"},
        {"custom": {"a": {"b": [1.5, -0.0, 10**30]}}},
        {"messageId": "m", "lastMessageId": None},
    ]
).map(lambda value: json.dumps(value).encode())


@st.composite
def broken_bodies(draw: st.DrawFn) -> bytes:
    """A good body with something wrong put into it, cut off, doubled, or in another encoding."""
    body = draw(good_bodies)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        noise = draw(st.sampled_from(NOISE) | ANY_BYTES)
        body = body[:at] + noise + body[at + draw(st.integers(0, 6)) :]
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-16", "utf-32", "utf-7"]))
    return body if encoding == "utf-8" else body.decode("latin-1").encode(encoding)


NOISE = [
    *BLANKS,
    b"[" * 2000,
    b'{"a":' * 2000,
    b"9" * 5000,
    b"1e999999",
    b"-",
    b"NaN",
    b"Infinity",
    b'"\\ud800"',
    b"\\u0000",
    b'"message":"again",',
    b'"__proto__":{"isAdmin":true},',
    b"//",
    b"'",
    b",,",
]

bodies = good_bodies | broken_bodies() | ANY_BYTES

ids = st.one_of(
    st.sampled_from(
        [
            "..",
            ".",
            "%2e%2e",
            "%2e%2e%2f%2e%2e",
            "..%2f..%2fetc%2fpasswd",
            "..%5c..",
            "%00",
            "%c0%af",
            "%ff",
            "%",
            "%zz",
            "%25%32%65",
            "__x__",
            "a%2fb",
            "a;b=c",
            "~",
            "*",
            "%0d%0aset-cookie:a=b",
            "%ed%a0%80",
            "%f0%9f%a6%8a",
            "x" * 1401,
            "x" * 60_000,
            "",
        ]
    ),
    st.text(max_size=20).filter(lambda text: text.isprintable()).map(lambda text: quote(text, safe="")),
)

header_values = st.one_of(
    st.sampled_from(
        [b"", b"0", b"-1", b"18446744073709551616", b"1e3", b"chunked", b"gzip", b"*", b"null", b"a" * 9000]
    ),
    ANY_BYTES.map(lambda value: value.replace(b"\r", b"").replace(b"\n", b"")),
)
HEADERS = [
    b"content-length",
    b"content-encoding",
    b"transfer-encoding",
    b"content-type",
    b"accept",
    b"authorization",
    b"x-user-id",
    b"x-tenant-id",
    b"last-event-id",
    b"origin",
    b"host",
    b"cookie",
    b"expect",
    b"x-http-method-override",
    b"x-forwarded-for",
    b"x-cloudtasks-taskretrycount",
]
headers = st.lists(st.tuples(st.sampled_from(HEADERS), header_values), max_size=5)
queries = st.one_of(
    ANY_BYTES.map(lambda value: quote(value).encode()),
    st.sampled_from(
        [b"", b"now=1", b"limit=1&limit=2", b"limit=99999999999999999999", b"cursor=AAAA", b"wait=1e9", b"&" * 500]
    ),
    ids.map(lambda value: b"snapshotId=" + value.encode()),
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """One ASGI scope with its body in pieces."""
    route = draw(st.sampled_from(ROUTES))
    path = "/".join(draw(ids) if part.startswith("{") else part for part in route.path.split("/"))
    body, cut = draw(bodies), draw(st.integers(0, 50))
    given_headers = draw(headers)
    if draw(st.booleans()):
        given_headers = [*given_headers, (b"content-type", b"application/json")]
    return {
        "method": draw(st.sampled_from([route.method, route.method, route.method, "HEAD", "PUT", "DELETE", "BREW"])),
        "path": path,
        "query": draw(queries),
        "headers": given_headers,
        "pieces": [body[:cut], body[cut:]],
    }


async def answer(app: FuzzedApp, request: dict[str, Any]) -> int:
    """Sends it, and gives the status."""
    first, second = request["pieces"]
    incoming: list[Message] = [
        {"type": "http.request", "body": first, "more_body": True},
        {"type": "http.request", "body": second, "more_body": False},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        if incoming:
            return incoming.pop(0)
        await asyncio.Event().wait()  # the client stays for the answer
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": request["method"], "path": request["path"], "headers": request["headers"]}
    scope |= {"raw_path": request["path"].encode(), "query_string": request["query"]}
    await asgi(app.app.settings)(scope, receive, send)
    return int(sent[0]["status"])


def assert_harmless(app: FuzzedApp, request: dict[str, Any]) -> None:
    before = app.commits
    status = app.run(answer(app, request))
    assert status < 500, request
    if status >= 400:
        assert app.commits == before, request
    app.run(app.until_idle())


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[FuzzedApp]:
    monkeypatch.setattr(retention, "_LONGEST_SLEEP", 0.0)
    with fuzzed(ABORT_GRACE="0.01", WAIT_MAX="0.01", MAX_BODY_BYTES="50000") as app:
        yield app


def fuzz(app: FuzzedApp, examples: int, repeatable: bool) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=repeatable,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(requests())
    def one(request: dict[str, Any]) -> None:
        assert_harmless(app, request)

    one()


def test_what_no_client_would_send_harms_nobody(app: FuzzedApp) -> None:
    fuzz(app, FEW, repeatable=True)


@pytest.mark.slow
def test_thousands_that_no_client_would_send_harm_nobody(app: FuzzedApp) -> None:
    fuzz(app, MANY, repeatable=False)


WORST: list[dict[str, Any]] = [
    {
        "method": method,
        "path": path,
        "query": query,
        "headers": [(b"content-type", b"application/json"), *more],
        "pieces": pieces,
    }
    for method, path, query, more, pieces in [
        ("POST", "/chat", b"", [], [b"[" * 20_000, b""]),
        ("POST", "/chat", b"", [], [b'{"message":', b"9" * 40_000]),
        ("POST", "/chat", b"", [], [b"x" * 40_000, b"x" * 40_000]),
        ("POST", "/sessions", b"", [], [b'{"a":1,' * 5_000, b""]),
        ("POST", "/abort", b"", [], [b'{"snapshotId":"' + b"x" * 40_000, b'"}']),
        ("GET", "/snapshot", b"snapshotId=" + b"y" * 40_000, [], [b"", b""]),
        ("GET", "/sessions/" + "z" * 40_000, b"", [], [b"", b""]),
        ("GET", "/sessions", b"", [(b"x-user-id", b"u" * 40_000)], [b"", b""]),
        ("BREW", "/" + "%41" * 10_000, b"", [], [b"", b""]),
    ]
]


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells how much memory a process has")
def test_refusing_hundreds_of_the_worst_costs_no_memory(app: FuzzedApp) -> None:
    for number in range(150):  # whatever is made at first use
        assert_harmless(app, WORST[number % len(WORST)])
    before = resident_bytes()
    for number in range(500):
        assert_harmless(app, WORST[number % len(WORST)])
    assert resident_bytes() <= 1.05 * before
