"""Aborting a turn from the server that does not run it, and every other kind of abort."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.chat_client import (
    ServerEvent,
    client,
    ok,
    send,
    send_streaming,
    streamed,
    text_of,
    transcript,
)
from tests.acceptance.server_process import Pair

LONG = "word " * 5000  # 25 seconds at the pair's pace
INTERRUPTED = {"interrupted": True}


class Ends(NamedTuple):
    """The caller's two ways in: the server that runs its turns here, and the one that does not."""

    here: httpx.AsyncClient
    there: httpx.AsyncClient


@pytest.fixture
async def ends(pair: Pair, user: str) -> AsyncIterator[Ends]:
    async with client(pair.first.url, user) as here, client(pair.second.url, user) as there:
        yield Ends(here, there)


async def until(events: AsyncIterator[ServerEvent], name: str) -> ServerEvent:
    return await anext(event async for event in events if event.name == name)


async def abort(http: httpx.AsyncClient, **selector: str) -> dict[str, Any]:
    return dict(ok(await http.post("/abort", json=selector)))


async def begin(http: httpx.AsyncClient, message: str, **place: str) -> dict[str, Any]:
    """Starts a turn that nobody reads: `{sessionId, snapshotId, status}`."""
    return dict(ok(await http.post("/chat", json={"message": message, "detach": True} | place), 202))


async def settled(http: httpx.AsyncClient, snapshot_id: str) -> dict[str, Any]:
    """The row once its turn has ended."""
    row = ok(await http.get("/snapshot", params={"snapshotId": snapshot_id, "wait": 20}))
    assert row["status"] not in ("pending", "aborting"), row
    return dict(row)


async def test_an_abort_on_the_other_server_ends_the_stream_and_keeps_what_was_said(ends: Ends) -> None:
    async with asyncio.timeout(10), streamed(ends.here, {"message": LONG}) as events:
        start = await until(events, "turn-start")
        await until(events, "text-delta")
        answer = await abort(ends.there, snapshotId=start.data["snapshotId"])
        last = [event async for event in events][-1]
    assert answer == {"snapshotId": start.data["snapshotId"], "previousStatus": "pending", "status": "aborting"}
    assert (last.name, last.data["status"], last.data["finishReason"]) == ("turn-end", "aborted", "aborted")
    said = last.data["message"]
    assert said["metadata"] == INTERRUPTED
    assert 0 < len(text_of(said)) < len(LONG)
    assert (await transcript(ends.there, start.data["sessionId"]))[-1] == said


async def test_an_aborted_turn_is_the_head_and_the_next_turn_continues_it(ends: Ends) -> None:
    async with streamed(ends.here, {"message": LONG}) as events:
        start = await until(events, "turn-start")
        await abort(ends.there, snapshotId=start.data["snapshotId"])
        end = (await until(events, "turn-end")).data
    session_id = end["sessionId"]
    session = ok(await ends.there.get(f"/sessions/{session_id}"))
    assert session["headSnapshotId"] == end["snapshotId"]
    assert (session["isTurnActive"], session["lastMessageId"]) == (False, end["lastMessageId"])
    following = {"sessionId": session_id, "lastMessageId": end["lastMessageId"], "message": "go on"}
    turn = await send_streaming(ends.there, following)
    assert turn.events[0].data["parentId"] == end["snapshotId"]
    texts = [text_of(message) for message in await transcript(ends.here, session_id)]
    assert [texts[0], *texts[2:]] == [LONG, "go on", "echo: go on"]


async def test_a_waiting_caller_is_answered_with_the_aborted_turn(ends: Ends, user: str) -> None:
    message = {"id": user, "role": "user", "content": [{"text": LONG}]}
    turn = ok(await ends.here.post("/chat", json={"message": message, "detach": True}), 202)
    waiting = asyncio.create_task(send(ends.here, {"message": message}))  # the same send waits for the same turn
    async with asyncio.timeout(10):
        await abort(ends.there, snapshotId=turn["snapshotId"])
        end = await waiting
    assert (end["snapshotId"], end["status"], end["finishReason"]) == (turn["snapshotId"], "aborted", "aborted")
    assert end["message"]["metadata"] == INTERRUPTED


async def test_an_abort_by_session_stops_the_turn_that_the_session_runs(ends: Ends) -> None:
    turn = await begin(ends.here, LONG)
    answer = await abort(ends.there, sessionId=turn["sessionId"])
    assert answer == {"snapshotId": turn["snapshotId"], "previousStatus": "pending", "status": "aborting"}
    assert (await settled(ends.there, turn["snapshotId"]))["status"] == "aborted"


async def test_a_second_abort_changes_nothing(ends: Ends) -> None:
    turn = await begin(ends.here, "/stubborn 20")
    await abort(ends.there, snapshotId=turn["snapshotId"])
    again = await abort(ends.here, snapshotId=turn["snapshotId"])
    assert (again["previousStatus"], again["status"]) == ("aborting", "aborting")
    row = await settled(ends.there, turn["snapshotId"])
    answer = await abort(ends.there, snapshotId=turn["snapshotId"])
    assert (answer["previousStatus"], answer["status"]) == ("aborted", "aborted")
    assert await settled(ends.there, turn["snapshotId"]) == row


@pytest.mark.parametrize(("message", "status"), [("Hello", "completed"), ("/finish nonsense", "failed")])
async def test_an_abort_of_a_turn_that_is_over_leaves_it_as_it_is(ends: Ends, message: str, status: str) -> None:
    end = await send(ends.here, {"message": message})
    row = await settled(ends.there, end["snapshotId"])
    answer = await abort(ends.there, snapshotId=end["snapshotId"])
    assert answer == {"snapshotId": end["snapshotId"], "previousStatus": status, "status": status}
    assert await settled(ends.there, end["snapshotId"]) == row


async def test_what_is_not_there_cannot_be_aborted(ends: Ends, pair: Pair) -> None:
    over = await send(ends.here, {"message": "Hello"})
    running = await begin(ends.here, "/sleep 20")
    async with client(pair.second.url, "somebody-else") as stranger:
        answers = [
            await ends.there.post("/abort", json={"snapshotId": "no-such-snapshot"}),
            await ends.there.post("/abort", json={"sessionId": "no-such-session"}),
            await ends.there.post("/abort", json={"sessionId": over["sessionId"]}),  # it runs no turn
            await stranger.post("/abort", json={"snapshotId": running["snapshotId"]}),
            await stranger.post("/abort", json={"sessionId": running["sessionId"]}),
        ]
    codes = [ok(answer, 404)["code"] for answer in answers]
    assert codes == ["snapshot_not_found", "session_not_found", "session_not_found", *codes[:2]]
    row = ok(await ends.there.get("/snapshot", params={"snapshotId": running["snapshotId"]}))
    assert row["status"] == "pending"  # the stranger's aborts have not reached it
    await abort(ends.there, snapshotId=running["snapshotId"])
    assert (await settled(ends.there, running["snapshotId"]))["status"] == "aborted"


async def test_an_agent_that_listens_stops_at_once(ends: Ends) -> None:
    turn = await begin(ends.here, "/sleep 60")
    async with asyncio.timeout(5):
        await abort(ends.there, snapshotId=turn["snapshotId"])
        row = await settled(ends.there, turn["snapshotId"])
    assert (row["status"], row["state"]["messages"][-1]["metadata"]) == ("aborted", INTERRUPTED)


async def test_an_agent_that_ignores_the_signal_is_cancelled_after_its_grace(ends: Ends) -> None:
    turn = await begin(ends.here, "/reason thinking hard\n/stubborn 60")
    async with asyncio.timeout(10):
        await abort(ends.there, snapshotId=turn["snapshotId"])
        row = await settled(ends.there, turn["snapshotId"])
    message = row["state"]["messages"][-1]
    assert (row["status"], message["metadata"]) == ("aborted", INTERRUPTED)
    assert message["content"] == [{"reasoning": "thinking hard"}]


async def test_of_many_turns_only_the_aborted_ones_stop(ends: Ends) -> None:
    turns = [await begin(ends.here, f"/sleep {seconds}\nslept well") for seconds in (60, 2, 60, 2)]
    for turn in turns[::2]:
        await abort(ends.there, snapshotId=turn["snapshotId"])
    statuses = [(await settled(ends.there, turn["snapshotId"]))["status"] for turn in turns]
    assert statuses == ["aborted", "completed", "aborted", "completed"]
