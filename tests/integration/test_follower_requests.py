"""A runner that is asked for a turn's events while its Listen stream is of no use hears of it from the next one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from functions.engine import recording
from functions.engine.attaching import events_of_turn
from store.firestore.database import FirestoreDatabase
from store.models import SameSend
from tests.contract.engine_turns import request_of
from tests.contract.stores import FirestoreStores
from tests.contract.turns import ANN
from tests.integration.instances import Instance, PacedAgent, instances


@pytest.fixture
async def stores(project_id: str, emulator_host: str) -> AsyncIterator[FirestoreStores]:
    opened = FirestoreStores(project_id, emulator_host)
    yield opened
    await opened.close()


def listener_of(one: Instance) -> Any:
    database = one.store.shelf.database
    assert isinstance(database, FirestoreDatabase)
    return database._listener


def deafen(listener: Any) -> None:
    """Until its next stream is opened it takes nothing in of what it is told."""
    listener._receive = lambda message: None
    opening = listener._open

    def opened() -> Any:
        listener.__dict__.pop("_receive", None)
        return opening()

    listener._open = opened


async def test_a_request_that_a_dead_stream_did_not_tell_of_is_heard_from_the_next(
    stores: FirestoreStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn still runs then, and its follower is told all of it so far."""
    monkeypatch.setattr(recording, "INTERVAL", 0.1)
    async with asyncio.timeout(60), instances(PacedAgent(100_000, 0.05), stores.open(), stores.open()) as (here, there):
        listener = listener_of(here)
        listener._silence = 2.0  # of the streams that are opened from now on
        turn = await here.start(request_of())
        deafen(listener)
        named = SameSend(turn.lease.session_id, turn.lease.snapshot_id, is_running=True)
        async with aclosing(events_of_turn(there.engine, there.store, ANN, named)) as events:
            told = [await anext(events) for _ in range(20)]
        assert "_receive" not in listener.__dict__, "the stream that did not listen is gone"
        assert [(event.id, event.event) for event in told] == list(enumerate(turn.broadcast.events[:20], start=1))
        assert turn.settled is None
