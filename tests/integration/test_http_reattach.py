"""GET /chat/{snapshotId} on one instance: from where the reader was, and never more than there is to tell."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from functions.engine import recording
from store.models import Scope
from tests.acceptance.chat_client import STREAM, ServerEvent, ok, parse_frame, send, send_streaming
from tests.contract.turns import claim, claimed
from tests.integration.http_app import App, served

LONG = "/sleep 0.15\n" + "word " * 20


@pytest.fixture
async def app(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setattr(recording, "INTERVAL", 0.05)
    async with served(LEASE_STALENESS="0.5", HEARTBEAT_INTERVAL="0.1") as app:
        yield app


async def events(app: App, snapshot_id: str, last_event_id: int | None = None, **query: int) -> list[ServerEvent]:
    headers = {"accept": STREAM} | ({} if last_event_id is None else {"last-event-id": str(last_event_id)})
    answer = await app.http.get(f"/chat/{snapshot_id}", headers=headers, params=query)
    assert answer.status_code == 200, answer.text
    told = [parse_frame(frame) for frame in answer.text.split("\n\n") if frame]
    return [event for event in told if event is not None]


async def test_a_turn_that_is_over_goes_on_from_any_of_its_events(app: App) -> None:
    whole = (await send_streaming(app.http, {"message": LONG})).events
    snapshot_id = whole[0].data["snapshotId"]
    for after in range(len(whole)):
        assert await events(app, snapshot_id, after) == whole[after:]
        assert await events(app, snapshot_id, after=after) == whole[after:]
    assert await events(app, snapshot_id, 1, after=3) == whole[3:], "the query is asked for more expressly"


async def test_a_reader_that_knows_the_end_is_told_that_there_is_no_more(app: App) -> None:
    whole = await send_streaming(app.http, {"message": LONG})
    path, count = f"/chat/{whole.end['snapshotId']}", len(whole.events)
    for accept in (STREAM, "application/json"):
        for after in (count, count + 1, 10**9):
            answer = await app.http.get(path, headers={"accept": accept, "last-event-id": str(after)})
            assert (answer.status_code, answer.content) == (204, b""), (accept, after)


async def test_a_reader_of_a_running_turn_that_claims_to_know_more_is_told_nothing(app: App) -> None:
    async with app.chat({"message": "/sleep 0.2\nHello"}) as exchange:
        start = await anext(exchange.events())
        answer = await app.http.get(f"/chat/{start.data['snapshotId']}", params={"after": 999})
        assert (answer.status_code, answer.content) == (204, b"")


async def test_a_running_turn_is_followed_from_the_middle(app: App) -> None:
    async with app.chat({"message": LONG}) as exchange:
        live = exchange.events()
        seen = [await anext(live), await anext(live)]
        second = asyncio.create_task(events(app, seen[0].data["snapshotId"], 2))
        seen += [event async for event in live]
    assert await second == seen[2:]


async def test_without_a_stream_the_end_alone_is_the_answer(app: App) -> None:
    async with app.chat({"message": LONG}) as exchange:
        live = exchange.events()
        start = await anext(live)
        waiting = asyncio.create_task(app.http.get(f"/chat/{start.data['snapshotId']}"))
        *_, end = [event async for event in live]
    assert ok(await waiting) == end.data


async def test_the_answer_of_a_turn_whose_runner_died_is_an_error(app: App) -> None:
    lease = await claimed(app.store, claim("m", runner="gone"), Scope("local", "local"))
    path = f"/chat/{lease.snapshot_id}"
    waiting = asyncio.create_task(app.http.get(path))
    told = await events(app, lease.snapshot_id)
    assert (told[-1].name, told[-1].data["code"]) == ("error", "agent_session_lease_lost")
    assert ok(await waiting, 409)["code"] == "agent_session_lease_lost"


async def test_a_short_turn_is_told_again_from_its_messages_and_not_from_the_middle(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "INTERVAL", 60)
    end = await send(app.http, {"message": "Hello"})
    told = await events(app, end["snapshotId"])
    assert [event.name for event in told] == ["turn-start", "text-delta", "turn-end"]
    assert told[-1].data == end
    later = await app.http.get(f"/chat/{end['snapshotId']}", headers={"last-event-id": "1"})
    assert (later.status_code, later.content) == (204, b"")
