"""Turns of long conversations on the emulator cost what the first ones did, in round trips and in documents."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from store.firestore.calls import Calls
from store.firestore.store import FirestoreStore
from store.models import Snapshot
from store.state import State
from tests.benchmarks.conversation import SCOPE, Conversation, message
from tests.integration.counted import Cost

TURN = (3, 1, 4)  # round trips, documents read, documents written


class Counted(Conversation):
    """A conversation on an instance of its own, which counts."""

    def __init__(self, project: str, host: str, **known: Any) -> None:
        self.calls = Calls()
        super().__init__(FirestoreStore(project, emulator_host=host, calls=self.calls), **known)

    async def cost_of_turn(self) -> Cost:
        """One turn."""
        before = self.calls.snapshot()
        await self.say(["How are you? " * 50])
        spent = self.calls.since(before)
        return Cost(spent.sent, spent.read, spent.written)


Open = Callable[..., Counted]


@pytest.fixture
async def opened(emulator_host: str, project_id: str) -> AsyncIterator[Open]:
    """Conversations on one project."""
    conversations: list[Counted] = []

    def open_one(**known: Any) -> Counted:
        conversations.append(Counted(project_id, emulator_host, **known))
        return conversations[-1]

    yield open_one
    for conversation in conversations:
        await conversation.store.close()


async def test_a_turn_behind_2000_messages_costs_three_round_trips_and_five_documents(opened: Open) -> None:
    """Warm, and by an instance that knows nothing yet."""
    messages = [message(f"m{number}", "user", f"message {number}") for number in range(2000)]
    row = Snapshot("s", state=State.of({"messages": messages}))
    warm = opened(session_id="s", tail="m1999")
    await warm.store.save_snapshot(SCOPE, None, lambda _: row)
    assert await warm.cost_of_turn() == TURN
    assert await warm.cost_of_turn() == TURN
    assert await opened(session_id="s", tail=warm.tail).cost_of_turn() == TURN


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_turn_1000_costs_three_round_trips_and_five_documents(opened: Open) -> None:
    """Real turns, all of them; those that make a checkpoint write its new runs besides."""
    conversation = opened()
    costs = [await conversation.cost_of_turn() for _ in range(1003)]
    assert costs[0].rpcs == 2
    checkpoints = [number for number, cost in enumerate(costs) if number and cost != TURN]
    assert checkpoints == list(range(25, 1003, 25))
    assert {(costs[number].rpcs, costs[number].read) for number in checkpoints} == {TURN[:2]}
    assert max(costs[number].written for number in checkpoints) <= TURN[2] + 3
    cold = opened(session_id=conversation.session_id, tail=conversation.tail)
    assert (await cold.cost_of_turn()).rpcs <= 4
