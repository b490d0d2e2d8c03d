"""A client of the HTTP contract for tests: sends turns, reads streams strictly, pages through transcripts.

Holds no test. `http` is an httpx client of one server; who is calling goes along as a header.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx

STREAM = "text/event-stream"


class ServerEvent(NamedTuple):
    """One event of a stream."""

    id: int
    name: str
    data: Any


class Sent(NamedTuple):
    """A turn as its caller saw it."""

    events: list[ServerEvent]
    end: dict[str, Any]


# The web server closes a connection that was idle for five seconds; a client that keeps one as long may write into it.
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2)


def client(url: str, user: str = "local", **headers: str) -> httpx.AsyncClient:
    """A client of the server at `url` for `user`. The machine's proxy settings are left out."""
    named = {"x-user-id": user} | headers
    return httpx.AsyncClient(base_url=url, headers=named, timeout=60, trust_env=False, limits=_LIMITS)


def parse_frame(frame: str) -> ServerEvent | None:
    """The event of one frame, None for a comment; AssertionError for what no event of ours looks like."""
    if frame.startswith(":"):
        return None
    fields = [line.split(": ", 1) for line in frame.split("\n")]
    assert [name for name, _ in fields] == ["id", "event", "data"], frame
    return ServerEvent(int(fields[0][1]), fields[1][1], json.loads(fields[2][1]))


async def frames(chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    """The frames of a stream as they come; AssertionError where the last one is cut."""
    rest = ""
    async for chunk in chunks:
        *complete, rest = (rest + chunk).split("\n\n")
        for frame in complete:
            yield frame
    assert rest == "", f"the stream ended inside {rest!r}"


async def events_of(response: httpx.Response) -> AsyncIterator[ServerEvent]:
    """The events of a streamed answer, without its comments."""
    async for frame in frames(response.aiter_text()):
        event = parse_frame(frame)
        if event is not None:
            yield event


@asynccontextmanager
async def streamed(http: httpx.AsyncClient, body: Mapping[str, Any]) -> AsyncIterator[AsyncIterator[ServerEvent]]:
    """POST /chat as a stream: its events as they come. Leaving early closes the connection."""
    async with http.stream("POST", "/chat", json=body, headers={"accept": STREAM}) as response:
        if response.status_code != 200:
            raise AssertionError(f"{response.status_code}: {(await response.aread()).decode()}")
        yield events_of(response)


async def send_streaming(http: httpx.AsyncClient, body: Mapping[str, Any]) -> Sent:
    """A whole turn as a stream; AssertionError where ids do not count from 1 or the end is missing."""
    async with streamed(http, body) as events:
        seen = [event async for event in events]
    assert [event.id for event in seen] == list(range(1, len(seen) + 1))
    assert [event.name for event in seen if event.name in ("turn-start", "turn-end")] == ["turn-start", "turn-end"]
    assert (seen[0].name, seen[-1].name) == ("turn-start", "turn-end")
    return Sent(seen, seen[-1].data)


async def send(http: httpx.AsyncClient, body: Mapping[str, Any]) -> dict[str, Any]:
    """A whole turn as one JSON answer: how it ended."""
    return dict(ok(await http.post("/chat", json=body)))


def ok(response: httpx.Response, status: int = 200) -> Any:
    """The answer's JSON; AssertionError with the body where the status is another."""
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    return response.json()


async def transcript(http: httpx.AsyncClient, session_id: str, limit: int = 100) -> list[dict[str, Any]]:
    """All messages of a session, read page by page."""
    messages: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": limit}
    while True:
        page = ok(await http.get(f"/sessions/{session_id}/messages", params=query))
        assert len(page["messages"]) <= limit
        messages += page["messages"]
        if "nextCursor" not in page:
            return messages
        query["cursor"] = page["nextCursor"]


def text_of(message: Mapping[str, Any]) -> str:
    """The text parts of a message, joined."""
    return "".join(part["text"] for part in message["content"] if "text" in part)
