"""What is stored is what was given: every value that JSON holds, in checkpoints, in diffs, and in later instances."""

from typing import Any

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.turns import ANN, always, require, save, snapshot, state_of
from store.errors import InvalidRequestError
from store.state import State


def nested(depth: int) -> Any:
    """Arrays in arrays, with an object at the bottom."""
    value: Any = {"end": None}
    for _ in range(depth):
        value = [value]
    return value


KEPT: dict[str, Any] = {
    "arrays in arrays": [[1, [2, [3]]], []],
    "deep": nested(90),
    "null and absent": {"null": None},
    "order of keys": {"b": 1, "a": 2, "": 3, "c": {"z": 1, "y": 2}},
    "odd keys": {
        "": 1,
        "__x__": 2,
        "a/b": 3,
        "~": 4,
        "~1": 5,
        ".": 6,
        "constructor": 7,
        "__proto__": 8,
        "a.b": 9,
        "`": 10,
    },
    "numbers": [0, -0.0, 1, 1.0, 0.1, 1e300, 5e-324, 2**53 + 1, -(2**63) - 1, 10**1000],
    "truth and numbers": [True, 1, 1.0, False, 0, 0.0],
    "text": ["", "\x00", "\u2028", "é", "e\u0301", "日本語", "🎉", "\ufeff", "\uffff", "a" * 70_000],
}
REFUSED: dict[str, Any] = {
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a lone surrogate": "\ud800",
    "a lone surrogate in a key": {"\ud800": 1},
    "bytes": b"x",
    "a key that is no text": {1: 2},
    "a set": {1},
}


class FidelityCases:
    """Values that other stores change, drop, or choke on."""

    @pytest.mark.parametrize("name", KEPT)
    async def test_a_value_is_kept_exactly_in_a_checkpoint_and_in_a_diff(
        self, stores: Stores, store: Store, name: str
    ) -> None:
        state = State.of(
            {"messages": [{"id": "m", "role": "user", "content": [{"data": KEPT[name]}]}], "custom": KEPT[name]}
        )
        await save(store, "checkpoint", state=state)
        await save(store, "before", parent_id="checkpoint", state=state_of("m", custom=0))
        await save(store, "diff", parent_id="before", state=state)
        for instance in (store, stores.open()):
            for row_id in ("checkpoint", "diff"):
                row = await require(instance, row_id)
                assert row.state is not None
                assert row.state.text == state.text

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

    @pytest.mark.parametrize("name", REFUSED)
    async def test_a_value_that_json_cannot_hold_is_refused(self, store: Store, name: str) -> None:
        for value in (REFUSED[name], [REFUSED[name]], {"a": REFUSED[name]}):
            with pytest.raises(InvalidRequestError):
                await store.save_snapshot(ANN, "row", always(snapshot(state=State.of({"custom": value}))))
        assert await store.get_snapshot(ANN, "row") is None

    async def test_an_error_and_a_usage_are_kept_exactly(self, stores: Stores, store: Store) -> None:
        error = {"status": "INTERNAL", "message": "é", "details": {"b": [[1.0, True]], "a": None}}
        saved = await save(store, "row", error=error, usage={"totalTokens": 2**40})
        assert await require(stores.open(), "row") == saved
