"""A server is frozen in the middle of a turn for longer than its lease lives, and thaws when another one has gone on:
it publishes nothing any more, and says so."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from store.adapters.own_ids import stored_id
from store.database import Condition, Document, Kind, Query
from store.firestore.database import FirestoreDatabase
from store.models import Scope
from tests.acceptance.chat_client import client, ok, send, text_of, transcript
from tests.acceptance.fated_pair import FatedPair, followed, place_of, read_to_the_end, rows_of, wait_for

TALK, WAIT = "/tool find {}\none two three", "/reason hm\n/sleep 20"
MOMENTS = [("between texts", TALK), ("before segment", WAIT), ("before settle", TALK)]
MORE_MOMENTS = [("after claim", TALK), ("agent start", TALK), ("before beat", WAIT), ("after beat", WAIT)]
KINDS = (Kind.SNAPSHOTS, Kind.POINTERS, Kind.SHARDS, Kind.STREAMS)


class Stalled(NamedTuple):
    """A session with one turn in it, and the stream of a second one, whose server is frozen."""

    here: httpx.AsyncClient
    there: httpx.AsyncClient
    session_id: str
    place: dict[str, Any]
    answer: "asyncio.Task[Any]"


@pytest.fixture
async def database(firestore_settings: dict[str, str]) -> AsyncIterator[FirestoreDatabase]:
    """The documents of both servers."""
    project, host = (firestore_settings[name] for name in ("GOOGLE_CLOUD_PROJECT", "FIRESTORE_EMULATOR_HOST"))
    database = FirestoreDatabase(project, emulator_host=host)
    yield database
    await database.close()


@pytest.fixture
async def ends(mortal: FatedPair, user: str) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    async with client(mortal.first.url, user) as here, client(mortal.second.url, user) as there:
        yield here, there
    mortal.first.resume()


Ends = tuple[httpx.AsyncClient, httpx.AsyncClient]


async def documents_of(database: FirestoreDatabase, stalled: Stalled) -> dict[str, Document]:
    """All documents of the session, with their update times; running turns' event logs included."""
    where = {kind: "id" if kind is Kind.POINTERS else "sessionId" for kind in KINDS}
    stored = stored_id(Scope("local", stalled.here.headers["x-user-id"]), stalled.session_id)
    found = [await database.query(Query(kind, "local", (Condition(where[kind], "==", stored),))) for kind in where]
    return {str(document.path): document for page in found for document in page.documents}


async def stall(pair: FatedPair, ends: Ends, moment: str, message: str) -> Stalled:
    begun = await send(ends[0], {"message": "before"})
    pair.plan(moment, signal.SIGSTOP)
    body = place_of(begun) | {"message": message}
    answer = asyncio.create_task(read_to_the_end(ends[0], body))
    async with followed(ends[1], begun["sessionId"]):
        await pair.struck()
    return Stalled(*ends, begun["sessionId"], place_of(begun), answer)


async def until_stale(stalled: Stalled) -> str:
    """The row of the frozen turn, once it has expired."""
    rows = await rows_of(stalled.there, stalled.session_id)
    (row_id,) = [str(row["snapshotId"]) for row in rows if row["status"] in ("pending", "expired")]
    assert (await wait_for(stalled.there, row_id))["status"] == "expired"
    return row_id


@pytest.mark.parametrize(
    ("moment", "message"),
    [*MOMENTS, *(pytest.param(*moment, marks=pytest.mark.slow) for moment in MORE_MOMENTS)],
    ids=[moment for moment, _ in MOMENTS + MORE_MOMENTS],
)
async def test_a_thawed_server_publishes_nothing_and_says_so(
    mortal: FatedPair, ends: Ends, database: FirestoreDatabase, moment: str, message: str
) -> None:
    stalled = await stall(mortal, ends, moment, message)
    row_id = await until_stale(stalled)
    end = await send(stalled.there, stalled.place | {"message": "instead"})
    assert end["status"] == "completed"
    before = await documents_of(database, stalled)
    assert before
    mortal.first.resume()
    async with asyncio.timeout(20):
        events = await stalled.answer
    assert (events[-1].name, events[-1].data["code"]) == ("error", "agent_session_lease_lost")
    assert "turn-end" not in [event.name for event in events]
    assert await documents_of(database, stalled) == before
    said = [text_of(message) for message in await transcript(stalled.here, stalled.session_id)]
    assert said == ["before", "echo: before", "instead", "echo: instead"]
    assert (await wait_for(stalled.here, row_id))["status"] == "failed"


async def test_a_server_that_thaws_before_its_claim_is_told_that_it_is_late(mortal: FatedPair, ends: Ends) -> None:
    here, there = ends
    begun = await send(here, {"message": "before"})
    mortal.plan("before claim", signal.SIGSTOP)
    late = asyncio.create_task(here.post("/chat", json=place_of(begun) | {"message": "late"}))
    await mortal.struck()
    end = await send(there, place_of(begun) | {"message": "instead"})
    mortal.first.resume()
    assert ok(await late, 409) | {"message": ""} == {
        "code": "agent_session_stale",
        "message": "",
        "lastMessageId": end["lastMessageId"],
    }
    assert mortal.runs(begun["sessionId"]) == [begun["snapshotId"], end["snapshotId"]]


async def test_a_caller_that_waits_for_a_superseded_turn_gets_a_conflict(mortal: FatedPair, ends: Ends) -> None:
    here, there = ends
    begun = await send(here, {"message": "before"})
    mortal.plan("before settle", signal.SIGSTOP)
    waiting = asyncio.create_task(here.post("/chat", json=place_of(begun) | {"message": "lost"}))
    await mortal.struck()
    await until_stale(Stalled(here, there, begun["sessionId"], place_of(begun), waiting))
    await send(there, place_of(begun) | {"message": "instead"})
    mortal.first.resume()
    assert ok(await waiting, 409)["code"] == "agent_session_lease_lost"


async def test_a_turn_that_was_aborted_while_its_server_was_frozen_stays_as_the_abort_left_it(
    mortal: FatedPair, ends: Ends, database: FirestoreDatabase
) -> None:
    stalled = await stall(mortal, ends, "before settle", TALK)
    row_id = await until_stale(stalled)
    answer = ok(await stalled.there.post("/abort", json={"snapshotId": row_id}))
    assert (answer["previousStatus"], answer["status"]) == ("expired", "aborted")
    before = await documents_of(database, stalled)
    mortal.first.resume()
    events = await stalled.answer
    assert (events[-1].name, events[-1].data["code"]) == ("error", "agent_session_lease_lost")
    assert await documents_of(database, stalled) == before
    assert len(await transcript(stalled.there, stalled.session_id)) == 2


async def test_a_frozen_server_whom_nobody_has_replaced_still_publishes(mortal: FatedPair, ends: Ends) -> None:
    stalled = await stall(mortal, ends, "before settle", TALK)
    row_id = await until_stale(stalled)
    mortal.first.resume()
    events = await stalled.answer
    assert (events[-1].name, events[-1].data["status"]) == ("turn-end", "completed")
    assert (await wait_for(stalled.there, row_id))["status"] == "completed"
    assert [text_of(message) for message in await transcript(stalled.there, stalled.session_id)][2] == TALK


async def test_a_thawed_server_leaves_nothing_in_a_session_that_was_deleted(
    mortal: FatedPair, ends: Ends, database: FirestoreDatabase
) -> None:
    stalled = await stall(mortal, ends, "before segment", WAIT)
    await until_stale(stalled)
    deleted = await stalled.there.delete(f"/sessions/{stalled.session_id}")
    assert deleted.status_code == 204
    mortal.first.resume()
    events = await stalled.answer
    assert events[-1].data["code"] == "agent_session_lease_lost"
    assert await documents_of(database, stalled) == {}
