"""SIGTERM: nothing new begins, what runs may end, the rest is stored as interrupted, and the process is gone."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.chat_client import (
    STREAM,
    client,
    events_of,
    ok,
    send,
    send_streaming,
    streamed,
    text_of,
    transcript,
)
from tests.acceptance.server_process import Pair, running, server

GRACE = 3.0
SETTINGS = {"AGENT": "echo", "ECHO_DELAY_MS": "5", "ABORT_GRACE": "0.5", "SHUTDOWN_GRACE": str(GRACE)}
LONG = "word " * 4000  # twenty seconds
MARGIN = 5.0  # seconds for the rest, on a busy machine


@pytest.fixture
def both(firestore_settings: dict[str, str], tmp_path: Path) -> Pair:
    settings = firestore_settings | SETTINGS
    return Pair(server(tmp_path, settings, "first"), server(tmp_path, settings, "second"))


async def refused_turn(http: httpx.AsyncClient) -> httpx.Response:
    """The first answer that refuses a turn: the signal needs a moment to arrive."""
    async with asyncio.timeout(GRACE):
        while (answer := await http.post("/chat", json={"message": "too late"})).status_code == 200:
            pass
    return answer


async def test_what_runs_may_end_and_the_rest_is_stored_as_interrupted(both: Pair, user: str) -> None:
    with running(*both):
        async with client(both.first.url, user) as http, client(both.second.url, user) as other:
            async with streamed(http, {"message": LONG}) as long:
                begun = (await anext(long)).data
                short = asyncio.create_task(send_streaming(http, {"message": "/sleep 1\nHello"}))
                await asyncio.sleep(0.5)
                both.first.terminate()
                refused = await refused_turn(http)
                assert ok(refused, 503)["code"] == "unavailable"
                assert refused.headers["retry-after"] == "1"
                assert (await short).end["status"] == "completed"
                end = [event async for event in long][-1]
            code = await asyncio.to_thread(both.first.wait_until_it_ends, MARGIN)
            assert code == 0, both.first.output
            assert (end.name, end.data["status"]) == ("turn-end", "aborted")
            row = ok(await other.get("/snapshot", params={"snapshotId": begun["snapshotId"]}))
            answer = row["state"]["messages"][-1]
            assert (row["status"], answer["metadata"]) == ("aborted", {"interrupted": True})
            assert len(text_of(answer)) > 100
            place = {"sessionId": begun["sessionId"], "lastMessageId": end.data["lastMessageId"]}
            assert (await send(other, place | {"message": "go on"}))["status"] == "completed"


async def test_turns_that_nobody_reads_are_ended_and_stored_too(both: Pair, user: str) -> None:
    with running(*both):
        async with client(both.first.url, user) as http, client(both.second.url, user) as other:
            quick = ok(await http.post("/chat", json={"message": "/sleep 1\nHello", "detach": True}), 202)
            slow = ok(await http.post("/chat", json={"message": LONG, "detach": True}), 202)
            both.first.terminate()
            assert await asyncio.to_thread(both.first.wait_until_it_ends, GRACE + MARGIN) == 0
            rows = [
                ok(await other.get("/snapshot", params={"snapshotId": turn["snapshotId"]})) for turn in (quick, slow)
            ]
    assert [row["status"] for row in rows] == ["completed", "aborted"]


async def test_a_reader_of_another_servers_turn_does_not_hold_the_process_up(both: Pair, user: str) -> None:
    """It goes on elsewhere, from where it was."""
    with running(*both):
        async with client(both.first.url, user) as http, client(both.second.url, user) as other:
            ok(await http.get("/ready"))
            turn = ok(await other.post("/chat", json={"message": LONG, "detach": True}), 202)
            path = f"/chat/{turn['snapshotId']}"
            async with http.stream("GET", path, headers={"accept": STREAM}) as response:
                events = events_of(response)
                seen = [await anext(events) for _ in range(50)]
                query: dict[str, Any] = {"snapshotId": turn["snapshotId"], "wait": 50}
                waiting = asyncio.create_task(http.get("/snapshot", params=query))
                await asyncio.sleep(0.3)
                both.first.terminate()
                assert await asyncio.to_thread(both.first.wait_until_it_ends, GRACE + MARGIN) == 0
                *more, end = [event async for event in events]
                seen += more
            assert ok(await waiting, 503)["code"] == "unavailable"
            assert (end.name, end.data["code"], end.id) == ("error", "unavailable", seen[-1].id)
            headers = {"accept": STREAM, "last-event-id": str(seen[-1].id)}
            async with other.stream("GET", path, headers=headers) as response:
                seen += [await anext(events_of(response))]
            ok(await other.post("/abort", json={"snapshotId": turn["snapshotId"]}))
    assert [event.id for event in seen] == list(range(1, len(seen) + 1))


async def converse(both: Pair, user: str, number: int, stop: asyncio.Event) -> tuple[str, list[str]]:
    """One user's conversation, on whichever server answers, until it is told to stop: session, and acknowledged ids."""
    place: dict[str, Any] = {}
    acknowledged: list[str] = []
    while not stop.is_set():
        message_id = f"{user}-{number}-{len(acknowledged)}"
        message = {"id": message_id, "role": "user", "content": [{"text": f"say {message_id}"}]}
        end = await acknowledged_end(both, user, place | {"message": message})
        acknowledged.append(message_id)
        place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
        await asyncio.sleep(0.1)
    return place["sessionId"], acknowledged


async def acknowledged_end(both: Pair, user: str, body: dict[str, Any]) -> dict[str, Any]:
    """Sends the same message again, here or there, until its end was told."""
    async with asyncio.timeout(30):
        for turn in range(1000):
            async with client(both[turn % 2].url, user) as http:
                try:
                    answer = await http.post("/chat", json=body)
                except httpx.TransportError:
                    await asyncio.sleep(0.1)
                    continue
            if answer.status_code == 200:
                return dict(answer.json())
            assert answer.status_code in (409, 503), answer.text
            await asyncio.sleep(0.1)
    raise AssertionError("never answered")


async def test_a_rolling_restart_under_load_loses_no_acknowledged_message(both: Pair, user: str) -> None:
    with running(*both):
        stop = asyncio.Event()
        talking = [asyncio.create_task(converse(both, user, number, stop)) for number in range(4)]
        for process in both:
            await asyncio.sleep(1)
            process.terminate()
            assert await asyncio.to_thread(process.wait_until_it_ends, GRACE + MARGIN) == 0
            process.launch()
            await asyncio.to_thread(process.wait_until_it_answers)
        await asyncio.sleep(1)
        stop.set()
        async with client(both.first.url, user) as http:
            for session_id, acknowledged in await asyncio.gather(*talking):
                messages = await transcript(http, session_id)
                assert [message["id"] for message in messages if message["role"] == "user"] == acknowledged
                assert [text_of(each) for each in messages if each["role"] == "model"] == [
                    f"echo: say {message_id}" for message_id in acknowledged
                ]
