"""What is stored is what was given, byte for byte, whatever JSON can hold and on whatever way it comes in; what JSON
cannot hold is refused before anything is written."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from store.canonical import Json
from store.conformance.capabilities import Capability
from store.conformance.conversations import documents
from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ANN,
    BROKEN,
    COMPLETED,
    FAILED,
    changed,
    claim,
    claimed,
    completed,
    require,
    save,
)
from store.conformance.values import KEPT, REFUSED, typed
from store.errors import InvalidRequestError
from store.models import NewSession, Outcome, Snapshot, SnapshotStatus
from store.rules.history import messages_of
from store.state import Raw, State

Way = Callable[[Store, str, Json], Awaitable[Snapshot]]
"""Stores a value in a session: the row that holds it."""
Refusal = Callable[[Store, Any], Awaitable[object]]
"""Gives the store a value that it must not take."""


def state_with(value: Json) -> State:
    """The value among the messages, and as custom state."""
    return State.of({"messages": [data_message("m", value)], "custom": value})


def data_message(message_id: str, value: Json) -> dict[str, Json]:
    return {"id": message_id, "role": "user", "content": [{"data": value}]}


async def as_root(store: Store, session_id: str, value: Json) -> Snapshot:
    """In a checkpoint."""
    return await save(store, f"{session_id}-root", session_id=session_id, state=state_with(value))


async def as_diff(store: Store, session_id: str, value: Json) -> Snapshot:
    """In a patch that replaces something else."""
    await save(store, f"{session_id}-before", session_id=session_id, state=state_with({"was": "something else"}))
    row_id, parent_id = f"{session_id}-diff", f"{session_id}-before"
    return await save(store, row_id, session_id=session_id, parent_id=parent_id, state=state_with(value))


async def as_change_inside(store: Store, session_id: str, value: Json) -> Snapshot:
    """In a patch that sets one of many members of one message and of the custom state."""
    around = {"many": ["others " * 50] * 200, "value": 0}
    await save(store, f"{session_id}-before", session_id=session_id, state=state_with(around))
    row_id, parent_id = f"{session_id}-inside", f"{session_id}-before"
    state = state_with({**around, "value": value})
    return await save(store, row_id, session_id=session_id, parent_id=parent_id, state=state)


async def as_turn(store: Store, session_id: str, value: Json) -> Snapshot:
    """In a claimed message, in what the turn adds to it, and in custom state that the turn sets."""
    await store.create_session(ANN, session_id, NewSession("echo"))
    lease = await claimed(store, claim("q", session_id, message=Raw.of(data_message("q", value), depth=3)))
    added = [Raw.of(data_message(name, value), depth=3) for name in ("q", "a")]
    state = lease.state.with_messages([*messages_of(lease.state), *added]).with_member("custom", Raw.of(value))
    return await store.settle_turn(lease, Outcome(COMPLETED, "stop", state))


async def as_custom(store: Store, session_id: str, value: Json) -> Snapshot:
    """In the custom state that a session is created with."""
    await store.create_session(ANN, session_id, NewSession("echo"), State.of({"custom": value}))
    latest = await store.get_latest_snapshot(ANN, session_id)
    assert latest is not None
    return latest


WAYS: list[Way] = [as_root, as_diff, as_change_inside, as_turn, as_custom]


def holds(state: State, saved: State, value: Json) -> bool:
    """Whether the state is what was saved, and that really was the value."""
    custom = state.get("custom")
    inner = custom["value"] if isinstance(custom, dict) and "many" in custom else custom
    return state.text == saved.text and typed(inner) == typed(value)


async def save_new(store: Store, value: Any) -> object:
    return await save(store, "new", session_id="new", state=State.of({"custom": value}))


async def save_behind(store: Store, value: Any) -> object:
    return await save(store, "new", parent_id="there", state=State.of({"messages": [data_message("m", value)]}))


async def save_error(store: Store, value: Any) -> object:
    return await save(store, "new", state=None, status=FAILED, error={**BROKEN, "details": value})


async def change_error(store: Store, value: Any) -> object:
    return await store.save_snapshot(ANN, "there", changed(error={**BROKEN, "details": value}))


async def create(store: Store, value: Any) -> object:
    return await store.create_session(ANN, "new", NewSession("echo"), State.of({"custom": value}))


async def claim_new(store: Store, value: Any) -> object:
    return await store.claim_turn(ANN, claim("q", message=Raw.of(data_message("q", value), depth=3)))


REFUSALS: list[Refusal] = [save_new, save_behind, save_error, change_error, create, claim_new]


WRONG_TEXTS: tuple[Any, ...] = ("\ud800", 5, b"x", ["x"])
WRONG_COUNTS: tuple[Any, ...] = (1.5, True, "1", 2**63, [1])
WRONG_FIELDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("finish_reason", "model", "message_id", "message_text"), WRONG_TEXTS),
    "usage": ([1], {1: 2}, {"": 1}, {"__x__": 1}, {"\ud800": 1}, *({"totalTokens": each} for each in WRONG_COUNTS)),
    "event_count": WRONG_COUNTS,
    "error": ([1], "broken", 5),
}


async def is_refused(operation: Awaitable[object]) -> bool:
    try:
        await operation
    except InvalidRequestError:
        return True
    return False


def every_refused() -> list[tuple[str, Any]]:
    """By name: alone, in a list, and in an object."""
    return [(name, each) for name, value in REFUSED.items() for each in (value, [value], {"a": value})]


class FidelityCases:
    """Values that other stores change, drop, or choke on."""

    @pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
    async def test_every_value_is_kept_exactly(self, stores: Stores, way: Way) -> None:
        """By id, as the latest row and as the transcript, from an instance that knows nothing yet."""
        store, cold = stores.open(), stores.open(cache_size=0)
        lost = []
        for number, (name, value) in enumerate(KEPT.items()):
            saved = await way(store, f"s{number}", value)
            assert saved.state is not None
            found: list[Any] = [await cold.get_snapshot(ANN, saved.snapshot_id)]
            found.append(await cold.get_latest_snapshot(ANN, f"s{number}"))
            if Capability.DIRECTORY in stores.capabilities:
                found.append(await cold.get_transcript(ANN, f"s{number}"))
            if not all(read and read.state and holds(read.state, saved.state, value) for read in found):
                lost.append(name)
        assert lost == []

    async def test_every_character_of_unicode_is_kept(self, stores: Stores) -> None:
        everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
        await save(stores.open(), "row", state=State.of({"custom": {everything[:5000]: everything}}))
        state = (await require(stores.open(), "row")).state
        assert state is not None
        assert state.get("custom") == {everything[:5000]: everything}

    async def test_members_keep_their_order_when_one_is_taken_away_and_added_again(
        self, stores: Stores, store: Store
    ) -> None:
        texts = [State.of(dict.fromkeys(order, 1)) for order in ("abc", "ac", "abc", "cab", "acb")]
        parent = None
        for number, state in enumerate(texts):
            await save(store, f"row{number}", parent_id=parent, state=state)
            parent = f"row{number}"
        cold = stores.open()
        rows = [await require(cold, f"row{number}") for number in range(len(texts))]
        assert [row.state and row.state.text for row in rows] == [state.text for state in texts]

    async def test_an_error_and_a_usage_are_kept_exactly(self, stores: Stores, store: Store) -> None:
        error = {"status": "INTERNAL", "message": "é", "details": {"b": [[1.0, True]], "a": None}}
        saved = await save(store, "row", error=error, usage={"totalTokens": 2**40})
        assert await require(stores.open(), "row") == saved

    @pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
    async def test_what_json_cannot_hold_is_refused_before_anything_is_written(
        self, stores: Stores, store: Store, refusal: Refusal
    ) -> None:
        there, before = await save(store, "there"), await documents(stores)
        accepted = [name for name, value in every_refused() if not await is_refused(refusal(store, value))]
        assert accepted == []
        assert await documents(stores) == before
        cold = stores.open()
        assert await require(cold, "there") == there
        assert [await cold.get_snapshot(ANN, "new"), await cold.get_latest_snapshot(ANN, "new")] == [None, None]

    @pytest.mark.parametrize("field", WRONG_FIELDS)
    async def test_what_a_field_of_a_row_cannot_hold_is_refused_before_anything_is_written(
        self, stores: Stores, store: Store, field: str
    ) -> None:
        """Once written, it would be damage to every later read."""
        there, before = await save(store, "there"), await documents(stores)
        for value in WRONG_FIELDS[field]:
            assert await is_refused(save(store, "new", **{field: value})), ascii(value)
            assert await is_refused(store.save_snapshot(ANN, "there", changed(**{field: value}))), ascii(value)
        assert await documents(stores) == before
        assert await require(stores.open(), "there") == there

    @pytest.mark.parametrize("name", ["agent", "title", "model"])
    async def test_what_a_field_of_a_session_cannot_hold_is_refused_before_anything_is_written(
        self, stores: Stores, store: Store, name: str
    ) -> None:
        there = await store.create_session(ANN, "there", NewSession("echo"))
        before = await documents(stores)
        for value in WRONG_TEXTS:
            wrong: Any = {name: value}
            new = NewSession(**{"agent": "echo", **wrong})
            assert await is_refused(store.create_session(ANN, "new", new)), ascii(value)
            assert await is_refused(store.create_session(ANN, "new", new, state_with(1))), ascii(value)
            if name != "agent":
                assert await is_refused(store.update_session(ANN, "there", **wrong)), ascii(value)
        assert await documents(stores) == before
        assert [*(await store.list_sessions(ANN, 10)).sessions] == [there]

    async def test_no_turn_begins_or_ends_with_what_its_row_cannot_hold(self, stores: Stores, store: Store) -> None:
        for value in WRONG_TEXTS:
            wrongs: list[Any] = [{"model": value}, {"runner": value}, {"attempt": value}]
            for wrong in [*wrongs, {"session": NewSession(value)}]:
                assert await is_refused(store.claim_turn(ANN, claim("q", **wrong))), ascii(value)
        lease = await claimed(store, claim("q"))
        before, outcome = await documents(stores), completed(lease)
        for field in ("finish_reason", "usage", "event_count"):
            for value in WRONG_FIELDS[field]:
                wrong = {field: value}
                assert await is_refused(store.settle_turn(lease, replace(outcome, **wrong))), ascii(value)
        for value in WRONG_TEXTS:
            assert await is_refused(store.settle_turn(lease, replace(outcome, auto_title=value))), ascii(value)
        assert await documents(stores) == before
        assert (await store.settle_turn(lease, outcome)).status is COMPLETED

    @pytest.mark.parametrize("ends", [COMPLETED, FAILED])
    async def test_no_turn_settles_with_what_json_cannot_hold(
        self, stores: Stores, store: Store, ends: SnapshotStatus
    ) -> None:
        """The turn goes on, and ends as its owner says then."""
        await save(store, "there")
        lease = await claimed(store, claim("q", "s", last_message_id="m"))
        before = await documents(stores)

        async def settle(value: Any) -> object:
            if ends is FAILED:
                outcome = Outcome(FAILED, "failed", error={**BROKEN, "details": value})
            else:
                outcome = Outcome(COMPLETED, "stop", lease.state.with_member("custom", Raw.of(value)))
            return await store.settle_turn(lease, outcome)

        assert [name for name, value in every_refused() if not await is_refused(settle(value))] == []
        assert await documents(stores) == before
        assert (await store.settle_turn(lease, completed(lease))).status is COMPLETED
