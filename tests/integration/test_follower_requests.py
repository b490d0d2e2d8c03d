"""A runner that is asked for a turn's events while its Listen stream is of no use hears of it from the next one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from functions.agents.base import TextDelta
from functions.engine import recording
from functions.engine.attaching import events_of_turn
from store.database import Condition, Kind, Query
from store.firestore.database import FirestoreDatabase
from store.models import SameSend
from tests.contract.engine_turns import ScriptedAgent, request_of
from tests.contract.stores import FirestoreStores
from tests.contract.turns import ANN
from tests.integration.instances import Instance, instances


@pytest.fixture
async def stores(project_id: str, emulator_host: str) -> AsyncIterator[FirestoreStores]:
    opened = FirestoreStores(project_id, emulator_host)
    yield opened
    await opened.close()


def listener_of(one: Instance) -> Any:
    database = one.store.shelf.database
    assert isinstance(database, FirestoreDatabase)
    return database._listener


async def until_asked(stores: FirestoreStores, runner: str) -> None:
    """Returns once a request for one of the runner's turns is stored."""
    asked = Query(Kind.STREAMS, None, (Condition("runner", "==", runner),))
    while not (await stores.database.query(asked)).documents:  # noqa: ASYNC110 - the write is another instance's
        await asyncio.sleep(0.02)


async def test_a_request_that_a_dead_stream_did_not_tell_of_is_heard_from_the_next(
    stores: FirestoreStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn still runs then, and its follower is told what there is."""
    monkeypatch.setattr(recording, "INTERVAL", 0.1)
    go_on = asyncio.Event()
    agent = ScriptedAgent([TextDelta("one "), go_on, TextDelta("two")])
    async with asyncio.timeout(60), instances(agent, stores.open(), stores.open()) as (here, there):
        listener = listener_of(here)
        listener._silence = 2.0  # of the streams that are opened from now on
        turn = await here.start(request_of())
        listener._receive = lambda message: None
        named = SameSend(turn.lease.session_id, turn.lease.snapshot_id, is_running=True)
        async with aclosing(events_of_turn(there.engine, there.store, ANN, named)) as events:
            first = asyncio.ensure_future(anext(events))
            await until_asked(stores, here.engine.runner)
            del listener._receive
            assert not first.done()
            told = [await first, await anext(events)]
            go_on.set()
            told += [event async for event in events]
        assert told == await here.read(turn)
