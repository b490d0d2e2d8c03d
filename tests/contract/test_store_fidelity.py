"""What is stored is what was given, byte for byte, whatever JSON can hold and on whatever way it comes in; what JSON
cannot hold is refused before anything is written."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.agents.base import AddArtifact, AgentEvent, SetCustom, TextDelta, ToolRequest, ToolResponse
from store.canonical import Json
from store.database import Document, Kind, Path
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import InvalidRequestError
from store.memory.database import MemoryDatabase
from store.models import Lease, NewSession, Outcome, Snapshot
from store.rules.history import messages_of
from store.state import Raw, State
from tests.contract.engine_turns import ScriptedAgent, engine_on, finished, request_of
from tests.contract.json_cases import KEPT, REFUSED
from tests.contract.soundness import documents_of
from tests.contract.stores import Stores
from tests.contract.turns import ANN, BROKEN, COMPLETED, FAILED, changed, claim, claimed, require, save
from tests.unit.json_values import states, typed

Way = Callable[[DocumentStore, str, Json], Awaitable[Snapshot]]
"""Stores a value in a session: the row that holds it."""


def state_with(value: Json) -> State:
    """The value among the messages, and as custom state."""
    return State.of({"messages": [data_message("m", value)], "custom": value})


def data_message(message_id: str, value: Json) -> dict[str, Json]:
    return {"id": message_id, "role": "user", "content": [{"data": value}]}


async def as_root(store: DocumentStore, session_id: str, value: Json) -> Snapshot:
    """In a checkpoint."""
    return await save(store, f"{session_id}-root", session_id=session_id, state=state_with(value))


async def as_diff(store: DocumentStore, session_id: str, value: Json) -> Snapshot:
    """In a patch that replaces something else."""
    await save(store, f"{session_id}-before", session_id=session_id, state=state_with({"was": "something else"}))
    row_id, parent_id = f"{session_id}-diff", f"{session_id}-before"
    return await save(store, row_id, session_id=session_id, parent_id=parent_id, state=state_with(value))


async def as_change_inside(store: DocumentStore, session_id: str, value: Json) -> Snapshot:
    """In a patch that sets one of many members of one message and of the custom state."""
    around = {"many": ["others " * 50] * 200, "value": 0}
    await save(store, f"{session_id}-before", session_id=session_id, state=state_with(around))
    row_id, parent_id = f"{session_id}-inside", f"{session_id}-before"
    state = state_with({**around, "value": value})
    return await save(store, row_id, session_id=session_id, parent_id=parent_id, state=state)


async def as_turn(store: DocumentStore, session_id: str, value: Json) -> Snapshot:
    """In a claimed message, in what the turn adds to it, and in custom state that the turn sets."""
    await store.create_session(ANN, session_id, NewSession("echo"))
    lease = await claimed(store, claim("q", session_id, message=Raw.of(data_message("q", value), depth=3)))
    added = [Raw.of(data_message(name, value), depth=3) for name in ("q", "a")]
    state = lease.state.with_messages([*messages_of(lease.state), *added]).with_member("custom", Raw.of(value))
    return await store.settle_turn(lease, Outcome(COMPLETED, "stop", state))


async def as_custom(store: DocumentStore, session_id: str, value: Json) -> Snapshot:
    """In the custom state that a session is created with."""
    await store.create_session(ANN, session_id, NewSession("echo"), State.of({"custom": value}))
    latest = await store.get_latest_snapshot(ANN, session_id)
    assert latest is not None
    return latest


WAYS: list[Way] = [as_root, as_diff, as_change_inside, as_turn, as_custom]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_every_value_is_kept_exactly(stores: Stores, way: Way) -> None:
    """By id, as the latest row and as the transcript, from an instance that knows nothing yet."""
    store, cold = stores.open(), stores.open(cache_size=0)
    lost = []
    for number, (name, value) in enumerate(KEPT.items()):
        saved = await way(store, f"s{number}", value)
        assert saved.state is not None
        by_id = await cold.get_snapshot(ANN, saved.snapshot_id)
        latest = await cold.get_latest_snapshot(ANN, f"s{number}")
        transcript = await cold.get_transcript(ANN, f"s{number}")
        read = [found.state for found in (by_id, latest, transcript) if found is not None and found.state is not None]
        if len(read) < 3 or not all(holds(state, saved.state, value) for state in read):
            lost.append(name)
    assert lost == []


def holds(state: State, saved: State, value: Json) -> bool:
    """Whether the state is what was saved, and that really was the value."""
    custom = state.get("custom")
    inner = custom["value"] if isinstance(custom, dict) and "many" in custom else custom
    return state.text == saved.text and typed(inner) == typed(value)


async def test_every_character_of_unicode_is_kept(stores: Stores) -> None:
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    await save(stores.open(), "row", state=State.of({"custom": {everything[:5000]: everything}}))
    state = (await require(stores.open(), "row")).state
    assert state is not None
    assert state.get("custom") == {everything[:5000]: everything}


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


Refusal = Callable[[DocumentStore, Lease, Any], Awaitable[object]]


async def save_new(store: DocumentStore, _: Lease, value: Any) -> object:
    return await save(store, "new", session_id="new", state=State.of({"custom": value}))


async def save_behind(store: DocumentStore, _: Lease, value: Any) -> object:
    return await save(store, "new", parent_id="there", state=State.of({"messages": [data_message("m", value)]}))


async def save_error(store: DocumentStore, _: Lease, value: Any) -> object:
    return await save(store, "new", state=None, status=FAILED, error={**BROKEN, "details": value})


async def change_error(store: DocumentStore, _: Lease, value: Any) -> object:
    return await store.save_snapshot(ANN, "there", changed(error={**BROKEN, "details": value}))


async def create(store: DocumentStore, _: Lease, value: Any) -> object:
    return await store.create_session(ANN, "new", NewSession("echo"), State.of({"custom": value}))


async def claim_new(store: DocumentStore, _: Lease, value: Any) -> object:
    return await store.claim_turn(ANN, claim("q", message=Raw.of(data_message("q", value), depth=3)))


async def settle(store: DocumentStore, lease: Lease, value: Any) -> object:
    state = lease.state.with_member("custom", Raw.of(value))
    return await store.settle_turn(lease, Outcome(COMPLETED, "stop", state))


async def settle_failed(store: DocumentStore, lease: Lease, value: Any) -> object:
    return await store.settle_turn(lease, Outcome(FAILED, "failed", error={**BROKEN, "details": value}))


REFUSALS = [save_new, save_behind, save_error, change_error, create, claim_new, settle, settle_failed]


async def test_what_json_cannot_hold_is_refused_before_anything_is_written(stores: Stores) -> None:
    store = stores.open()
    await save(store, "there")
    lease = await claimed(store, claim("q", "s", last_message_id="m"))
    before = await everything_in(stores)
    accepted = [
        (name, refusal.__name__)
        for name, value in REFUSED.items()
        for refusal in REFUSALS
        for each in (value, [value], {"a": value})
        if not await is_refused(refusal(store, lease, each))
    ]
    assert accepted == []
    assert await everything_in(stores) == before


async def is_refused(operation: Awaitable[object]) -> bool:
    try:
        await operation
    except InvalidRequestError:
        return True
    return False


async def everything_in(stores: Stores) -> dict[Path, Document]:
    """All documents of all kinds, with the times of their last writes."""
    return {document.path: document for kind in Kind for document in await documents_of(stores.database, kind)}


async def test_a_turn_whose_agent_gives_what_json_cannot_hold_fails_and_stores_nothing_of_it(stores: Stores) -> None:
    store = stores.open()
    for value in REFUSED.values():
        async with engine_on(store, ScriptedAgent([SetCustom([value])])) as engine:
            turn = await finished(engine, request_of())
        assert turn.settled is not None
        assert (turn.settled.status, turn.settled.state) == (FAILED, None)
        row = await require(stores.open(), turn.settled.snapshot_id)
        assert (row.status, row.state) == (FAILED, None)


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
