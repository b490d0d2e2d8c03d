"""Two servers, one deployment: what is begun on one is seen, waited for, joined and repeated on the other."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.chat_client import client, ok, send, send_streaming, streamed, text_of, transcript
from tests.acceptance.server_process import Pair


class Ends(NamedTuple):
    """One caller's connections to the two servers."""

    first: httpx.AsyncClient
    second: httpx.AsyncClient


@pytest.fixture
async def ends(pair: Pair, user: str) -> AsyncIterator[Ends]:
    async with client(pair.first.url, user) as first, client(pair.second.url, user) as second:
        yield Ends(first, second)


def named(message_id: str, text: str) -> dict[str, Any]:
    return {"message": {"id": message_id, "role": "user", "content": [{"text": text}]}}


async def begin(http: httpx.AsyncClient, message: str) -> dict[str, Any]:
    """Starts a turn that nobody reads."""
    return dict(ok(await http.post("/chat", json={"message": message, "detach": True}), 202))


async def test_a_conversation_goes_on_wherever_it_is_sent(ends: Ends) -> None:
    place: dict[str, Any] = {}
    for number in range(30):  # past a checkpoint
        end = await send(ends[number % 2], place | {"message": f"turn {number}"})
        place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
    said = [f"{prefix}turn {number}" for number in range(30) for prefix in ("", "echo: ")]
    for http in ends:
        assert [text_of(message) for message in await transcript(http, place["sessionId"], 7)] == said


async def test_both_servers_give_the_same_answers(ends: Ends) -> None:
    end = await send(ends.first, {"message": '/custom {"a": [1.0, null]}\n/artifact note text\n/tool find {}\nHello'})
    session_id, snapshot_id = end["sessionId"], end["snapshotId"]
    for path in (
        f"/sessions/{session_id}",
        f"/sessions/{session_id}/messages",
        f"/snapshot?sessionId={session_id}",
        f"/snapshot?snapshotId={snapshot_id}",
        f"/snapshot?snapshotId={snapshot_id}&metadataOnly=true",
        "/sessions",
    ):
        answers = [await http.get(path) for http in ends]
        assert answers[0].content == answers[1].content, path
        ok(answers[0])


async def test_a_wait_on_the_other_server_ends_with_the_turn(ends: Ends) -> None:
    turn = await begin(ends.first, "/sleep 0.5\nHello")
    now = asyncio.get_running_loop().time
    for selector in ({"snapshotId": turn["snapshotId"]}, {"sessionId": turn["sessionId"]}):
        started = now()
        row = ok(await ends.second.get("/snapshot", params=selector | {"wait": 50}))
        assert (row["snapshotId"], row["status"]) == (turn["snapshotId"], "completed")
        assert now() - started < 10
    assert text_of(row["state"]["messages"][-1]) == "echo: Hello"


async def test_a_wait_that_is_over_before_the_turn_says_that_it_runs(ends: Ends) -> None:
    turn = await begin(ends.first, "/sleep 60")
    started = asyncio.get_running_loop().time()
    row = ok(await ends.second.get("/snapshot", params={"snapshotId": turn["snapshotId"], "wait": 0.5}))
    waited = asyncio.get_running_loop().time() - started
    assert (row["status"], "state" in row) == ("pending", False)
    assert 0.5 <= waited < 10
    ok(await ends.second.post("/abort", json={"snapshotId": turn["snapshotId"]}))


async def test_a_wait_by_session_is_for_the_turn_that_was_latest_at_its_start(ends: Ends) -> None:
    turn = await begin(ends.first, "/sleep 0.5\nfirst")
    waiting = asyncio.create_task(
        ends.second.get("/snapshot", params={"sessionId": turn["sessionId"], "wait": 50, "metadataOnly": "true"})
    )
    first = ok(await ends.first.get("/snapshot", params={"snapshotId": turn["snapshotId"], "wait": 50}))
    place = {"sessionId": turn["sessionId"], "lastMessageId": first["state"]["messages"][-1]["id"]}
    ok(await ends.first.post("/chat", json=place | {"message": "/sleep 60", "detach": True}), 202)
    row = ok(await waiting)
    assert (row["snapshotId"], row["status"], "state" in row) == (turn["snapshotId"], "completed", False)
    ok(await ends.second.post("/abort", json={"sessionId": turn["sessionId"]}))


async def test_a_first_message_sent_to_both_at_once_makes_one_session_and_one_turn(ends: Ends, user: str) -> None:
    body = named(user, "/sleep 0.3\nHello")
    waiting = [asyncio.create_task(send(ends[number % 2], body)) for number in range(4)]
    reading = [asyncio.create_task(send_streaming(http, body)) for http in ends]
    seen = [await task for task in waiting] + [(await task).end for task in reading]
    assert all(end == seen[0] for end in seen)
    for http in ends:
        (session,) = ok(await http.get("/sessions"))["sessions"]
        assert session["id"] == seen[0]["sessionId"]
        assert [text_of(message) for message in await transcript(http, session["id"])] == [
            "/sleep 0.3\nHello",
            "echo: Hello",
        ]
    rows = ok(await ends.first.get(f"/sessions/{session['id']}/snapshots"))["snapshots"]
    assert [row["status"] for row in rows] == ["completed"]


async def test_a_retry_of_a_running_turn_attaches_on_the_other_server(ends: Ends, user: str) -> None:
    body = named(user, "/reason thinking\n/sleep 0.5\nHello there")
    async with asyncio.timeout(20), streamed(ends.first, body) as events:
        seen = [await anext(events)]
        retry = asyncio.create_task(send_streaming(ends.second, body))
        seen += [event async for event in events]
    again = await retry
    assert (again.events[0], again.end) == (seen[0], seen[-1].data)
    for kind in ("reasoning-delta", "text-delta"):
        spoken = [
            "".join(event.data["text"] for event in events if event.name == kind) for events in (seen, again.events)
        ]
        assert spoken[0] == spoken[1] != ""


async def test_a_retry_of_a_completed_turn_is_answered_by_the_other_server(ends: Ends, user: str) -> None:
    body = named(user, "Hello")
    end = await send(ends.first, body)
    assert await send(ends.second, body) == end
    assert (await send_streaming(ends.second, body)).end == end
    conflict = await ends.second.post("/chat", json=named(user, "something else"))
    assert ok(conflict, 422)["code"] == "message_id_conflict"


async def test_of_two_tabs_that_answer_the_same_message_one_is_told_that_it_is_late(ends: Ends) -> None:
    end = await send(ends.first, {"message": "Hello"})
    place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
    answers = await asyncio.gather(
        *(http.post("/chat", json=place | {"message": f"tab {number}"}) for number, http in enumerate(ends))
    )
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [200, 409]
    late = next(answer.json() for answer in answers if answer.status_code == 409)
    assert late["code"] in ("agent_session_busy", "agent_session_stale")
    assert len(await transcript(ends.second, end["sessionId"])) == 4


async def test_custom_state_and_tool_answers_travel_between_servers(ends: Ends) -> None:
    end = await send(ends.first, {"message": '/custom {"step": 1}\n/interrupt approve {"amount": 3}'})
    assert end["finishReason"] == "interrupted"
    request = end["message"]["content"][-1]["toolRequest"]
    response = {"name": "approve", "ref": request["ref"], "output": {"approved": True}}
    place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
    resumed = await send(ends.second, place | {"resume": {"respond": [{"toolResponse": response}]}})
    assert text_of(resumed["message"]) == 'echo: {"approved": true}'
    row = ok(await ends.first.get("/snapshot", params={"snapshotId": resumed["snapshotId"]}))
    assert (row["state"]["custom"], row["parentId"]) == ({"step": 1}, end["snapshotId"])
