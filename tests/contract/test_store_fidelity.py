"""Values that JSON holds, and values that it cannot hold, through an engine on every store; and states of any kind laid
out in any way. What every store keeps is held by the conformance suite."""

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from functions.agents.base import (
    AddArtifact,
    AgentEvent,
    Finish,
    SetCustom,
    TextDelta,
    ToolRequest,
    ToolResponse,
    Usage,
)
from store.canonical import Json
from store.conformance.values import KEPT, REFUSED, typed
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.memory.database import MemoryDatabase
from store.models import Outcome
from store.rules.history import messages_of
from store.state import State
from tests.contract.engine_turns import ScriptedAgent, engine_on, finished, request_of
from tests.contract.stores import Stores
from tests.contract.turns import ANN, COMPLETED, FAILED, claim, claimed, require, save
from tests.unit.json_values import states


async def test_every_value_is_kept_exactly_by_the_engine(stores: Stores) -> None:
    """What an agent says as custom state, artifact and tool call, what its user says, what the next turn is shown."""
    store = stores.open()
    lost = []
    for number, (name, value) in enumerate(KEPT.items()):
        calls: list[AgentEvent] = [ToolRequest("t", "r", value), ToolResponse("t", "r", value)]
        agent = ScriptedAgent([SetCustom(value), *calls, AddArtifact("a", [{"data": value}]), TextDelta("done")])
        asked = {"id": f"q{number}", "role": "user", "content": [{"data": value}]}
        async with engine_on(store, agent) as engine:
            first = await finished(engine, replace(request_of(), message=asked))
            assert first.settled is not None
            row = (await require(stores.open(), first.settled.snapshot_id)).state
            tail = first.settled.last_message_id
            await finished(engine, request_of(first.settled.session_id, tail=tail))
        if row is None or not all(typed(found) == typed(value) for found in [*kept_of(row), *shown_of(agent)]):
            lost.append(name)
    assert lost == []


def kept_of(state: State) -> list[Json]:
    """Every place of the first turn's state that holds the value."""
    question, called, responded, _ = (raw.value()["content"][0] for raw in messages_of(state))
    calls = [called["toolRequest"]["input"], responded["toolResponse"]["output"]]
    return [state.get("custom"), state.get("artifacts")[0]["parts"][0]["data"], question["data"], *calls]


def shown_of(agent: ScriptedAgent) -> list[Json]:
    """What the agent was shown of it in the two turns."""
    first, second = agent.turns
    assert first.message is not None
    return [first.message["content"][0]["data"], second.custom, second.history[1]["content"][0]["toolRequest"]["input"]]


async def test_a_turn_whose_agent_gives_what_json_cannot_hold_fails_and_stores_nothing_of_it(stores: Stores) -> None:
    store = stores.open()
    for value in REFUSED.values():
        async with engine_on(store, ScriptedAgent([SetCustom([value])])) as engine:
            turn = await finished(engine, request_of())
        assert turn.settled is not None
        assert (turn.settled.status, turn.settled.state) == (FAILED, None)
        row = await require(stores.open(), turn.settled.snapshot_id)
        assert (row.status, row.state) == (FAILED, None)


async def test_a_turn_whose_agent_says_what_its_row_cannot_hold_fails(stores: Stores) -> None:
    """It ends at once, and its session is free again."""
    store, session_id, tail = stores.open(), None, None
    wrongs: list[Any] = [*map(Usage, (1.5, True, "1", 2**63)), *map(Finish, (5, "\ud800"))]  # type: ignore[arg-type]
    for wrong in [*wrongs, Usage(1, 2, 3)]:
        async with engine_on(store, ScriptedAgent([TextDelta("done"), wrong])) as engine:
            turn = await finished(engine, request_of(session_id, tail=tail))
        assert turn.settled is not None
        session_id = turn.settled.session_id
        assert turn.settled.status is (COMPLETED if wrong == Usage(1, 2, 3) else FAILED), ascii(wrong)


SHAPES = st.builds(
    Options,
    checkpoint_interval=st.sampled_from([1, 2, 25]),
    shard_size=st.sampled_from([1, 20, 524_288]),
    base_size=st.sampled_from([0, 50, 131_072]),
    share_runs=st.booleans(),
)


@settings(deadline=None)  # several saves and loads each
@given(st.lists(states, min_size=1, max_size=4), SHAPES)
def test_any_states_one_after_the_other_are_read_back_exactly(values: list[dict[str, Json]], options: Options) -> None:
    """As root, as diffs and as a turn's outcome, laid out in any way, by an instance that knows nothing yet."""
    asyncio.run(read_back(values, options))


async def read_back(values: list[dict[str, Json]], options: Options) -> None:
    database = MemoryDatabase()
    store, parent = DocumentStore(Shelf(database, options)), None
    for number, value in enumerate(values):
        await save(store, f"row{number}", parent_id=parent, state=State.of(value))
        parent = f"row{number}"
    lease = await claimed(store, claim("the turn", "s", check_tail=False))
    settled = await store.settle_turn(lease, Outcome(COMPLETED, "stop", State.of(values[0])))
    cold = DocumentStore(Shelf(database, options))
    rows = [*(f"row{number}" for number in range(len(values))), settled.snapshot_id]
    for row_id, value in zip(rows, [*values, values[0]], strict=True):
        state = (await require(cold, row_id)).state
        assert state is not None
        assert state.text == State.of(value).text
        assert typed(state.value()) == typed(value)
    transcript = await cold.get_transcript(ANN, "s")
    assert transcript is not None
    assert transcript.state == settled.state
