"""Re-attaching to a turn: from where the reader was, on whichever server, each event once and in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.chat_client import STREAM, ServerEvent, client, events_of, ok, send, send_streaming, streamed
from tests.acceptance.server_process import Pair

LONG = "word " * 300  # over a second at the pair's pace, so that its events are kept


class Ends(NamedTuple):
    """One caller's connections to the server that runs its turns, and to the other."""

    here: httpx.AsyncClient
    there: httpx.AsyncClient


@pytest.fixture
async def ends(pair: Pair, user: str) -> AsyncIterator[Ends]:
    async with client(pair.first.url, user) as here, client(pair.second.url, user) as there:
        yield Ends(here, there)


@asynccontextmanager
async def attached(
    http: httpx.AsyncClient, snapshot_id: str, last_event_id: int | None = None
) -> AsyncIterator[AsyncIterator[ServerEvent]]:
    """The events behind `last_event_id`, as they come."""
    headers = {"accept": STREAM} | ({} if last_event_id is None else {"last-event-id": str(last_event_id)})
    async with http.stream("GET", f"/chat/{snapshot_id}", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        yield events_of(response)


async def all_events(http: httpx.AsyncClient, snapshot_id: str, last_event_id: int | None = None) -> list[ServerEvent]:
    async with attached(http, snapshot_id, last_event_id) as events:
        return [event async for event in events]


async def test_a_second_reader_sees_the_same_events_on_either_server(ends: Ends) -> None:
    async with asyncio.timeout(30), streamed(ends.here, {"message": LONG}) as events:
        seen = [await anext(events)]
        readers = [asyncio.create_task(all_events(http, seen[0].data["snapshotId"])) for http in ends]
        seen += [event async for event in events]
        assert [await reader for reader in readers] == [seen, seen]


async def test_a_reader_goes_on_where_it_was_on_either_server(ends: Ends) -> None:
    async with asyncio.timeout(30), streamed(ends.here, {"message": LONG}) as events:
        start = await anext(events)
        snapshot_id = start.data["snapshotId"]
        parts = [start]
        for number in range(6):
            async with attached(ends[number % 2], snapshot_id, parts[-1].id) as again:
                parts += [await anext(again) for _ in range(20)]
        parts += await all_events(ends.there, snapshot_id, parts[-1].id)
        whole = [start] + [event async for event in events]
    assert parts == whole


async def test_a_turn_that_is_over_is_told_again_from_what_was_kept(ends: Ends) -> None:
    whole = await send_streaming(ends.here, {"message": LONG})
    snapshot_id = whole.end["snapshotId"]
    for http in ends:
        assert await all_events(http, snapshot_id) == whole.events
        assert await all_events(http, snapshot_id, 100) == whole.events[100:]
        answer = await http.get(f"/chat/{snapshot_id}", params={"after": len(whole.events) - 1})
        assert ok(answer) == whole.end  # without a stream asked for, the end alone


async def test_a_short_turn_that_is_over_is_told_from_its_messages_or_not_at_all(ends: Ends) -> None:
    whole = await send_streaming(ends.here, {"message": '/reason why\n/tool find {"a": 1}\nHello there'})
    snapshot_id = whole.end["snapshotId"]
    for http in ends:
        again = await all_events(http, snapshot_id)
        assert [event.id for event in again] == list(range(1, len(again) + 1))
        assert (again[0], again[-1].data) == (whole.events[0], whole.end)
        said = "".join(event.data["text"] for event in again if event.name == "text-delta")
        assert said == "echo: Hello there"
        later = await http.get(f"/chat/{snapshot_id}", headers={"last-event-id": "2"})
        assert (later.status_code, later.content) == (204, b"")


async def test_what_cannot_be_attached_to_is_refused(ends: Ends, pair: Pair) -> None:
    end = await send(ends.here, {"message": "Hello"})
    path = f"/chat/{end['snapshotId']}"
    assert ok(await ends.there.get("/chat/missing"), 404)["code"] == "snapshot_not_found"
    async with client(pair.second.url, "somebody-else") as stranger:
        assert ok(await stranger.get(path), 404)["code"] == "snapshot_not_found"
    wrong: list[dict[str, Any]] = [
        {"params": {"after": "-1"}},
        {"params": {"after": "x"}},
        {"headers": {"last-event-id": "x"}},
        {"params": {"since": "1"}},
    ]
    for given in wrong:
        assert ok(await ends.there.get(path, **given), 400)["code"] == "invalid_request", given
