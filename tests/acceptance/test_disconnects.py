"""Clients that vanish from a real server: what becomes of their turns."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.acceptance.chat_client import STREAM, ServerEvent, client, events_of, ok, send_streaming, streamed, text_of
from tests.acceptance.server_process import Pair

TEXT = "word " * 100  # half a second at the pair's pace
LONG = "word " * 4000  # twenty seconds


@pytest.fixture
async def http(pair: Pair, user: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client(pair.first.url, user) as http:
        yield http


async def settled(http: httpx.AsyncClient, snapshot_id: str) -> dict[str, Any]:
    """The row once its turn has ended."""
    row = ok(await http.get("/snapshot", params={"snapshotId": snapshot_id, "wait": 15}))
    assert row["status"] not in ("pending", "aborting"), row
    return dict(row)


async def leave_while_it_speaks(http: httpx.AsyncClient, text: str, **body: Any) -> str:
    async with streamed(http, {"message": text} | body) as events:
        start = await anext(events)
        await anext(events)
    return str(start.data["snapshotId"])


@pytest.mark.parametrize("body", [{}, {"onDisconnect": "continue"}])
async def test_a_turn_goes_on_without_its_client(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    row = await settled(http, await leave_while_it_speaks(http, TEXT, **body))
    assert (row["status"], row["finishReason"]) == ("completed", "stop")
    assert text_of(row["state"]["messages"][-1]) == f"echo: {TEXT}"


async def test_a_turn_ends_with_its_client_where_that_was_asked_for(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(10):
        row = await settled(http, await leave_while_it_speaks(http, LONG, onDisconnect="cancel"))
    answer = row["state"]["messages"][-1]
    assert (row["status"], answer["metadata"]) == ("aborted", {"interrupted": True})
    assert f"echo: {LONG}".startswith(text_of(answer))


async def test_a_turn_ends_with_a_client_that_waits_for_its_json(http: httpx.AsyncClient, user: str) -> None:
    message = {"id": user, "role": "user", "content": [{"text": LONG}]}
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/chat", json={"message": message, "onDisconnect": "cancel"}, timeout=1)
    (session,) = ok(await http.get("/sessions"))["sessions"]
    async with asyncio.timeout(10):
        row = ok(await http.get("/snapshot", params={"sessionId": session["id"], "wait": 15}))
    assert row["status"] == "aborted"


async def test_a_turn_goes_on_until_the_last_of_its_readers_leaves(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(15), streamed(http, {"message": LONG, "onDisconnect": "cancel"}) as first:
        start = await anext(first)
        path = f"/chat/{start.data['snapshotId']}"
        async with http.stream("GET", path, headers={"accept": STREAM}) as response:
            second = events_of(response)
            assert await anext(second) == start
            await first.aclose()  # type: ignore[attr-defined]  # an asynchronous generator
            seen = [await anext(second) for _ in range(100)]
            assert [event.id for event in seen] == list(range(2, 102))
            row = ok(await http.get("/snapshot", params={"snapshotId": start.data["snapshotId"]}))
            assert row["status"] == "pending"
    assert (await settled(http, start.data["snapshotId"]))["status"] == "aborted"


async def until_the_end(events: AsyncIterator[ServerEvent]) -> dict[str, Any]:
    return dict((await anext(event async for event in events if event.name == "turn-end")).data)


async def test_a_client_that_leaves_at_the_streams_end_cancels_nothing(http: httpx.AsyncClient) -> None:
    """The moment at which the end is told, and the turn is not yet let go of, is over too late for a cancellation."""
    for number in range(20):
        async with streamed(http, {"message": f"Hello {number}", "onDisconnect": "cancel"}) as events:
            end = await until_the_end(events)
        assert (await settled(http, end["snapshotId"]))["status"] == end["status"] == "completed"


async def test_many_that_leave_at_once_disturb_nobody(http: httpx.AsyncClient) -> None:
    leaving = [leave_while_it_speaks(http, "/sleep 0.5\n" + TEXT, onDisconnect=how) for how in ("continue", "cancel")]
    rows = [await settled(http, snapshot_id) for snapshot_id in await asyncio.gather(*leaving, return_exceptions=False)]
    assert [row["status"] for row in rows] == ["completed", "aborted"]
    assert (await send_streaming(http, {"message": "Still there?"})).end["status"] == "completed"
