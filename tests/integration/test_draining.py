"""The end of an instance beside a claim that is under way: its turn was granted, so it is drained like the others."""

import asyncio
from typing import Any

import pytest

from functions.engine.running import RunningTurn
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import UnavailableError
from store.memory.database import MemoryDatabase
from store.models import Claim, Lease, SameSend, Scope
from tests.contract.engine_turns import request_of
from tests.contract.turns import ABORTED, COMPLETED, require
from tests.integration.instances import Instance, PacedAgent, instance


class Slow(DocumentStore):
    """Claims land, and are answered only once they may be."""

    def __init__(self) -> None:
        super().__init__(Shelf(MemoryDatabase(), Options()))
        self.has_landed, self.may_answer = asyncio.Event(), asyncio.Event()

    async def claim_turn(self, scope: Scope, claim: Claim) -> Lease | SameSend:
        lease = await super().claim_turn(scope, claim)
        self.has_landed.set()
        await self.may_answer.wait()
        return lease


async def drained(here: Instance, store: Slow, grace: float) -> RunningTurn:
    """The turn whose claim the draining meets."""
    starting = asyncio.create_task(here.start(request_of()))
    await store.has_landed.wait()
    draining = asyncio.create_task(here.engine.drain(grace))
    await asyncio.sleep(0.05)
    assert not draining.done()
    store.may_answer.set()
    turn = await starting
    await draining
    return turn


@pytest.mark.parametrize(("words", "grace", "status"), [(10, 60, COMPLETED), (10_000, 0, ABORTED)])
async def test_a_turn_whose_claim_was_under_way_is_drained_like_any_other(
    words: int, grace: float, status: Any
) -> None:
    store = Slow()
    async with asyncio.timeout(30), instance(store, PacedAgent(words, 0.01)) as here:
        turn = await drained(here, store, grace)
        assert (await require(store, turn.lease.snapshot_id)).status is status
        with pytest.raises(UnavailableError):
            await here.start(request_of())
