"""Servers that die at a chosen moment of a turn, and what is found of the turn afterwards. Holds no test."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx

from tests.acceptance.chat_client import client, ok, send, text_of, transcript
from tests.acceptance.fated_pair import FatedPair, followed, place_of, read_to_the_end, rows_of, wait_for

NOTHING, EXPIRED, WHOLE = "nothing", "expired", "whole"


class Moment(NamedTuple):
    """When the server dies, in a turn of which message, and what is left of that turn."""

    name: str
    message: str
    left: str


TALK, WAIT = "/tool find {}\none two three", "/reason hm\n/sleep 20"
MOMENTS = (
    Moment("before claim", TALK, NOTHING),
    Moment("after claim", TALK, EXPIRED),
    Moment("agent start", TALK, EXPIRED),
    Moment("between texts", TALK, EXPIRED),
    Moment("inside a tool call", TALK, EXPIRED),
    Moment("before beat", WAIT, EXPIRED),
    Moment("after beat", WAIT, EXPIRED),
    Moment("after segment", WAIT, EXPIRED),
    Moment("agent end", TALK, EXPIRED),
    Moment("before settle", TALK, EXPIRED),
    Moment("after settle", TALK, WHOLE),
)


async def kill_at_each(moments: Sequence[Moment], pair: FatedPair, user: str) -> int:
    """How many kills were survived: all, or AssertionError. The dead are examined while others die."""
    examined = []
    async with asyncio.TaskGroup() as examining:
        for number, moment in enumerate(moments):
            name = f"{user}-{number}"  # a user each: their first messages would be the same send
            begun = await kill_at(pair, name, moment)
            examined.append(examining.create_task(examine(pair, name, moment, begun), name=moment.name))
    return len(examined)


async def kill_at(pair: FatedPair, user: str, moment: Moment) -> dict[str, Any]:
    """One whole turn, and one in which the server dies and is started anew: how the first one ended."""
    async with client(pair.first.url, user) as http, client(pair.second.url, user) as other:
        begun = await send(http, {"message": "before"})
        pair.plan(moment.name, signal.SIGKILL)
        async with followed(other, begun["sessionId"]):
            seen = await read_to_the_end(http, place_of(begun) | {"message": moment.message})
    await pair.struck()
    assert "turn-end" not in [event.name for event in seen], moment
    await pair.revive()
    return begun


async def examine(pair: FatedPair, user: str, moment: Moment, begun: dict[str, Any]) -> None:
    """Through the other server: the row, the next send, and the transcript after it."""
    async with client(pair.second.url, user) as http:
        session_id = begun["sessionId"]
        rows = [row for row in await rows_of(http, session_id) if row["snapshotId"] != begun["snapshotId"]]
        assert len(rows) == (moment.left != NOTHING), moment
        for row in rows:
            found = await wait_for(http, row["snapshotId"])
            assert found["status"] == ("completed" if moment.left == WHOLE else "expired"), moment
        await _go_on(http, moment, session_id)
        for row in rows if moment.left == EXPIRED else []:
            found = await wait_for(http, row["snapshotId"])
            assert (found["status"], found["error"]["status"], "state" in found) == ("failed", "ABORTED", False), moment


async def _go_on(http: httpx.AsyncClient, moment: Moment, session_id: str) -> None:
    """The next send is taken at once, and the transcript has the turn whole or not at all."""
    session = ok(await http.get(f"/sessions/{session_id}"))
    assert session["isTurnActive"] is False, moment
    end = await send(http, {"sessionId": session_id, "lastMessageId": session["lastMessageId"], "message": "after"})
    assert end["status"] == "completed", moment
    messages = await transcript(http, session_id)
    said = [text_of(message) for message in messages if message["role"] == "user"]
    assert said == ["before", *([moment.message] if moment.left == WHOLE else []), "after"], moment
    assert len(messages) == 4 + (4 if moment.left == WHOLE else 0), (
        moment
    )  # the message, the call, its response, the text
