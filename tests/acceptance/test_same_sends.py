"""The same message sent again to the other server, after every end that its turn can have, with and without naming the
session: what test_two_servers.py and test_crashes.py do not say already."""

import signal
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.chat_client import client, ok, send, send_streaming, text_of, transcript
from tests.acceptance.fated_pair import FatedPair, place_of, read_to_the_end, rows_of, wait_for


class Ends(NamedTuple):
    """The server that runs a message first, and the one that is sent it again."""

    here: httpx.AsyncClient
    there: httpx.AsyncClient


@pytest.fixture
async def ends(steady: FatedPair, user: str) -> AsyncIterator[Ends]:
    async with client(steady.first.url, user) as here, client(steady.second.url, user) as there:
        yield Ends(here, there)


def named(message_id: str, text: str, **place: Any) -> dict[str, Any]:
    return place | {"message": {"id": message_id, "role": "user", "content": [{"text": text}]}}


def both_ways(body: dict[str, Any], session_id: str) -> list[dict[str, Any]]:
    """A conversation's first message, without and with its session."""
    return [body, body | {"sessionId": session_id}]


async def conflict(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    assert ok(await http.post("/chat", json=body), 422)["code"] == "message_id_conflict"


async def test_a_completed_send_is_answered_with_and_without_its_session(steady: FatedPair, ends: Ends) -> None:
    end = await send(ends.here, named("m", "Hello"))
    for body in both_ways(named("m", "Hello"), end["sessionId"]):
        assert await send(ends.there, body) == end
        assert (await send_streaming(ends.there, body)).end == end
    for body in both_ways(named("m", "another"), end["sessionId"]):
        await conflict(ends.there, body)
    assert steady.runs(end["sessionId"]) == [end["snapshotId"]]


async def test_a_completed_send_is_answered_though_the_conversation_has_gone_on(steady: FatedPair, ends: Ends) -> None:
    begun = await send(ends.here, {"message": "before"})
    body = named("m", "Hello", **place_of(begun))
    end = await send(ends.here, body)
    await send(ends.here, place_of(end) | {"message": "after"})
    assert await send(ends.there, body) == end
    await conflict(ends.there, named("m", "another", **place_of(begun)))
    assert len(steady.runs(end["sessionId"])) == 3


async def test_a_running_send_is_joined_with_and_without_its_session(steady: FatedPair, ends: Ends) -> None:
    body = named("m", "/sleep 20")
    turn = ok(await ends.here.post("/chat", json=body | {"detach": True}), 202)
    for again in both_ways(body, turn["sessionId"]):
        assert ok(await ends.there.post("/chat", json=again | {"detach": True}), 202) == turn
    for other in both_ways(named("m", "another"), turn["sessionId"]):
        await conflict(ends.there, other)
    ok(await ends.there.post("/abort", json={"snapshotId": turn["snapshotId"]}))
    assert (await send(ends.there, body))["status"] == "aborted"
    assert len(steady.runs(turn["sessionId"])) == 1


async def test_an_aborted_send_is_answered_with_what_was_said(steady: FatedPair, ends: Ends) -> None:
    body = named("m", "/reason hm\n/sleep 20")
    turn = ok(await ends.here.post("/chat", json=body | {"detach": True}), 202)
    ok(await ends.there.post("/abort", json={"snapshotId": turn["snapshotId"]}))
    first = await send(ends.here, body)
    assert (first["status"], first["message"]["metadata"]) == ("aborted", {"interrupted": True})
    for again in both_ways(body, turn["sessionId"]):
        assert await send(ends.there, again) == first
    for other in both_ways(named("m", "another"), turn["sessionId"]):
        await conflict(ends.there, other)
    assert len(steady.runs(turn["sessionId"])) == 1


@pytest.mark.parametrize("names_session", [False, True])
async def test_a_failed_send_is_a_new_attempt(steady: FatedPair, ends: Ends, names_session: bool) -> None:
    body = named("m", "/fail not now")
    failed = await send(ends.here, body)
    assert failed["status"] == "failed"
    again = await send(ends.there, both_ways(body, failed["sessionId"])[names_session])
    assert (again["status"], again["sessionId"]) == ("failed", failed["sessionId"])
    assert steady.runs(failed["sessionId"]) == [failed["snapshotId"], again["snapshotId"]]
    changed = both_ways(named("m", "Hello"), failed["sessionId"])[names_session]
    assert (await send(ends.there, changed))["status"] == "completed"  # the id was never used up
    assert [text_of(message) for message in await transcript(ends.here, failed["sessionId"])] == [
        "Hello",
        "echo: Hello",
    ]


@pytest.mark.parametrize("names_session", [False, True])
async def test_an_expired_send_is_a_new_attempt(mortal: FatedPair, user: str, names_session: bool) -> None:
    async with client(mortal.first.url, user) as here, client(mortal.second.url, user) as there:
        mortal.plan("between texts", signal.SIGKILL)
        events = await read_to_the_end(here, named("m", "Hello"))
        await mortal.struck()
        mortal.first.kill()
        start = events[0].data
        assert (await wait_for(there, start["snapshotId"]))["status"] == "expired"
        end = await send(there, both_ways(named("m", "Hello"), start["sessionId"])[names_session])
        assert (end["status"], end["sessionId"]) == ("completed", start["sessionId"])
        assert mortal.runs(end["sessionId"]) == [start["snapshotId"], end["snapshotId"]]
        assert len(await transcript(there, end["sessionId"])) == 2


async def test_a_truncate_frees_the_message_ids_that_it_removes(steady: FatedPair, ends: Ends) -> None:
    begun = await send(ends.here, {"message": "before"})
    removed = await send(ends.here, named("m", "Hello", **place_of(begun)))
    path = f"/sessions/{begun['sessionId']}/truncate"
    session = ok(await ends.there.post(path, json={"messageId": "m", "lastMessageId": removed["lastMessageId"]}))
    assert session["lastMessageId"] == begun["lastMessageId"]
    again = await send(ends.there, named("m", "Hello", **place_of(begun)))
    assert again["snapshotId"] != removed["snapshotId"]
    assert len(steady.runs(begun["sessionId"])) == 3
    ok(await ends.here.post(path, json={"messageId": "m"}))
    other = await send(ends.here, named("m", "something else", **place_of(begun)))
    assert text_of(other["message"]) == "echo: something else"


async def test_a_first_message_after_a_truncate_of_everything_is_a_new_turn_of_its_session(
    steady: FatedPair, ends: Ends
) -> None:
    end = await send(ends.here, named("m", "Hello"))
    ok(await ends.here.post(f"/sessions/{end['sessionId']}/truncate", json={"messageId": "m"}))
    again = await send(ends.there, named("m", "Hello"))
    assert again["sessionId"] == end["sessionId"]
    assert steady.runs(end["sessionId"]) == [end["snapshotId"], again["snapshotId"]]
    rows = await rows_of(ends.there, end["sessionId"])
    assert [row["status"] for row in rows].count("completed") == len(rows) == 3
