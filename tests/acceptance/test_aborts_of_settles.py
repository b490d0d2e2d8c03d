"""An abort from the other server while a turn is being settled: whichever of the two lands first, both are told the
same end. The turn's server is frozen right before and right after its settle, so that the order is certain."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.chat_client import ServerEvent, client, ok, text_of, transcript
from tests.acceptance.fated_pair import FatedPair, read_to_the_end, wait_for

BODY = {"message": "Hello"}


class Settling(NamedTuple):
    """A turn whose server is frozen, and its reader."""

    there: httpx.AsyncClient
    row: dict[str, Any]
    reading: "asyncio.Task[list[ServerEvent]]"


async def abort(turn: Settling) -> tuple[str, str]:
    answer = ok(await turn.there.post("/abort", json={"snapshotId": turn.row["snapshotId"]}))
    return answer["previousStatus"], answer["status"]


@pytest.fixture
async def turn(request: pytest.FixtureRequest, steady: FatedPair, user: str) -> AsyncIterator[Settling]:
    """Frozen at the moment that is the fixture's parameter; thawed at the latest when the test is over."""
    async with client(steady.first.url, user) as here, client(steady.second.url, user) as there:
        steady.plan(request.param, signal.SIGSTOP)
        reading = asyncio.create_task(read_to_the_end(here, BODY))
        await steady.struck()
        (session,) = ok(await there.get("/sessions"))["sessions"]
        row = ok(await there.get("/snapshot", params={"sessionId": session["id"]}))
        yield Settling(there, row, reading)
        steady.first.resume()
        await reading


@pytest.mark.parametrize("turn", ["before settle"], indirect=True)
async def test_an_abort_that_lands_before_the_settle_ends_the_turn_aborted(steady: FatedPair, turn: Settling) -> None:
    assert await abort(turn) == ("pending", "aborting")
    assert await abort(turn) == ("aborting", "aborting")
    steady.first.resume()
    end = (await turn.reading)[-1]
    assert (end.name, end.data["status"], text_of(end.data["message"])) == ("turn-end", "aborted", "echo: Hello")
    row = await wait_for(turn.there, turn.row["snapshotId"])
    assert (row["status"], row["finishReason"]) == ("aborted", "aborted")
    assert (await transcript(turn.there, turn.row["sessionId"]))[-1] == end.data["message"]
    assert await abort(turn) == ("aborted", "aborted")


@pytest.mark.parametrize("turn", ["after settle"], indirect=True)
async def test_an_abort_that_lands_after_the_settle_changes_nothing(steady: FatedPair, turn: Settling) -> None:
    assert await abort(turn) == ("completed", "completed")
    steady.first.resume()
    end = (await turn.reading)[-1]
    assert (end.name, end.data["status"]) == ("turn-end", "completed")
    assert await wait_for(turn.there, turn.row["snapshotId"]) == turn.row
