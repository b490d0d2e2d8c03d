"""The difference between two states: exact, small, and applied as RFC 6902 says or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from store.canonical import Json, dump, parse_stored
from store.layout.patches import PatchError, apply, diff
from store.state import State
from tests.unit.json_values import states

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
VECTORS = ("json_patch_tests.json", "json_patch_spec_tests.json")


def stored(old: Json, new: Json) -> list[dict[str, Json]]:
    """The patch between two states as it comes back from a document."""
    operations = parse_stored(dump(diff(State.of(old), State.of(new)), depth=-2))
    assert isinstance(operations, list)
    return operations


def conversation(count: int) -> list[dict[str, Json]]:
    """Messages of some 120 bytes."""
    return [{"id": f"m{n}", "role": "user", "content": [{"text": f"text {n} " * 10}]} for n in range(count)]


@settings(max_examples=400)
@given(states, states)
def test_a_stored_patch_leads_to_the_very_bytes_of_the_new_state(old: dict[str, Any], new: dict[str, Any]) -> None:
    result = apply(State.of(old), stored(old, new))
    assert result.text == State.of(new).text
    assert result == State.of(new)
    assert State.of(old).text == dump(old)


@given(states)
def test_there_is_no_difference_between_equal_states(value: dict[str, Any]) -> None:
    assert diff(State.of(value), State.parse(State.of(value).text)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"a": 1}, {"a": True}, id="one and true"),
        pytest.param({"a": [1, 0]}, {"a": [1.0, -0.0]}, id="integers and doubles"),
        pytest.param({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, id="keys inside swapped"),
        pytest.param({"a": 1, "b": 2, "c": 3}, {"c": 3, "a": 1, "b": 2}, id="members swapped"),
        pytest.param({"a": None}, {}, id="null and absent"),
        pytest.param({"messages": [1]}, {"messages": {"0": 1}}, id="messages become an object"),
        pytest.param({"messages": "x"}, {"messages": ["x"]}, id="messages become a list"),
        pytest.param({"a": 1}, {"b": 1}, id="a member renamed"),
        pytest.param({"": {"~/": {"a/b": 1}}}, {"": {"~/": {"a/b": 2}}}, id="names that pointers escape"),
        pytest.param({"a": [{"-": 1}]}, {"a": [{"-": 2}]}, id="a name like an index"),
        pytest.param({"messages": [{"id": "a"}, {"id": "a"}]}, {"messages": [{"id": "a"}]}, id="one id twice"),
        pytest.param({"messages": [1, 2, 3]}, {"messages": [3, 1, 2]}, id="messages without ids rotated"),
    ],
)
def test_what_the_standard_does_not_tell_apart_is_kept_too(old: Json, new: Json) -> None:
    for before, after in ((old, new), (new, old)):
        assert apply(State.of(before), stored(before, after)).text == State.of(after).text


MESSAGES = conversation(200)
EDITED = [*MESSAGES[:100], {**MESSAGES[100], "metadata": {"edited": True}}, *MESSAGES[101:]]


@pytest.mark.parametrize(
    ("new", "changed"),
    [
        pytest.param([*MESSAGES, {"id": "new", "content": []}], 27, id="appended"),
        pytest.param(MESSAGES[5:], 0, id="the head dropped"),
        pytest.param(MESSAGES[:-5], 0, id="the tail dropped"),
        pytest.param(EDITED, 15, id="one edited"),
        pytest.param([{"id": "sum", "content": []}, *MESSAGES[8:]], 27, id="the beginning replaced"),
        pytest.param([*MESSAGES[:100], {"id": "new"}, *MESSAGES[100:]], 12, id="one inserted"),
    ],
)
def test_a_change_costs_what_changed(new: list[Json], changed: int) -> None:
    operations = stored(
        {"messages": MESSAGES, "custom": {"x": "y" * 5000}}, {"messages": new, "custom": {"x": "y" * 5000}}
    )
    assert len(dump(operations)) <= 2 * changed + 64 * len(operations)
    assert len(operations) <= 9


def test_a_change_deep_in_a_member_does_not_repeat_the_member() -> None:
    old = {"custom": {"plan": [{"step": n, "text": "x" * 100} for n in range(50)]}}
    new = {
        "custom": {"plan": [{"step": n, "text": "x" * 100, **({"done": True} if n == 7 else {})} for n in range(50)]}
    }
    assert stored(old, new) == [{"op": "add", "path": "/custom/plan/7/done", "value": True}]


def vectors() -> list[Any]:
    """The published RFC 6902 vectors that are not switched off; one failure instead of all where they are absent."""
    found = []
    for name in VECTORS:
        path = DATA / name
        if not path.exists():
            return [pytest.param(None, id=f"{name} is absent")]
        for n, vector in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            if "doc" in vector and not vector.get("disabled"):
                found.append(pytest.param(vector, id=f"{name[:-5]}-{n}"))
    return found


PLACES: dict[str, tuple[str, type]] = {  # the document is the whole state, a member whatever it is, or the messages
    "the state": ("", dict),
    "a member": ("/custom", object),
    "the messages": ("/messages", list),
}


def placed_vectors() -> list[Any]:
    """Each vector in every place where its document, before and after, can stand."""
    found = []
    for param in vectors():
        vector = param.values[0] or {"doc": {}, "patch": []}
        documents = (vector["doc"], vector.get("expected", vector["doc"]))
        for name, (_, kind) in PLACES.items():
            if all(isinstance(document, kind) for document in documents):
                found.append(pytest.param(param.values[0], name, id=f"{param.id}-{name}"))
    return found


@pytest.mark.parametrize(("vector", "place"), placed_vectors())
def test_published_vectors_give_their_result_or_their_error(vector: dict[str, Any] | None, place: str) -> None:
    assert vector is not None, "the shared test data is not beside the repository"
    before, expected = (placed(document, place) for document in (vector["doc"], vector.get("expected")))
    operations = [moved(operation, PLACES[place][0]) for operation in vector["patch"]]
    if "error" in vector:
        with pytest.raises(PatchError):
            apply(State.of(before), operations)
    else:
        assert apply(State.of(before), operations).value() == (expected if "expected" in vector else before)


def placed(document: Json, place: str) -> Json:
    pointer, _ = PLACES[place]
    return {"first": 1, pointer[1:]: document, "last": 2} if pointer else document


def moved(operation: dict[str, Any], pointer: str) -> dict[str, Any]:
    """The operation below `pointer`, as far as what it names are pointers."""
    named = {name: operation[name] for name in ("path", "from") if isinstance(operation.get(name), str)}
    return operation | {name: pointer + path for name, path in named.items() if path == "" or path.startswith("/")}


def test_the_vectors_are_about_every_place() -> None:
    """So that the test above does not pass by leaving everything out."""
    places = [param.values[1] for param in placed_vectors()]
    assert {place: places.count(place) for place in PLACES} == {"the state": 73, "a member": 108, "the messages": 33}


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "remove", "path": "/missing"}],
        [{"op": "replace", "path": "/missing", "value": 1}],
        [{"op": "add", "path": "custom", "value": 1}],
        [{"op": "add", "path": "/custom"}],
        [{"op": "add"}],
        [{"path": "/custom", "value": 1}],
        [{"op": "test", "path": "/custom", "value": 1}],
        [{"op": "replace", "path": "/custom/missing/deeper", "value": 1}],
        [{"op": "remove", "path": "/messages/5"}],
        [{"op": "remove", "path": "/messages/-"}],
        [{"op": "remove", "path": "/messages/-1"}],
        [{"op": "remove", "path": "/messages/1e0"}],
        [{"op": "add", "path": "/messages/2", "value": 1}],
        [{"op": "replace", "path": "/messages/0/missing/x", "value": 1}],
        [{"op": "move", "from": "/missing", "path": "/new"}],
        [{"op": "replace", "path": "", "value": []}],
        [{"op": "remove", "path": ""}],
        [{"op": "spam", "path": "/custom", "value": 1}],
        [{"op": "add", "path": None, "value": 1}],
    ],
    ids=lambda operations: ascii(operations[0])[:60],
)
def test_operations_that_do_not_fit_are_refused_and_leave_the_state(operations: list[dict[str, Json]]) -> None:
    state = State.of({"messages": [{"id": "a"}], "custom": {"x": 1}})
    text = state.text
    with pytest.raises(PatchError):
        apply(state, operations)
    assert state.text == text
