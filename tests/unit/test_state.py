"""States: equality by bytes, copies that share nothing, text in pieces, and what is known without hashing it again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.conformance.values import typed
from store.errors import InvalidRequestError
from store.state import EMPTY, Raw, State
from tests.unit.json_values import messages, states, values


def built(value: Any) -> State:
    """The state of `value`, put together member by member instead of at once."""
    state = EMPTY
    for name, item in value.items():
        if name == "messages" and isinstance(item, list):
            listed = [Raw.of(each, depth=3) for each in item]
            state = State((*state.order, name), (), state.members)  # its place among the members
            for count in range(len(listed) + 1):
                state = state.with_messages(listed[:count])
        else:
            state = state.with_member(name, Raw.of(item))
    return state


@given(states)
def test_a_state_gives_back_its_value_with_all_types(value: dict[str, Any]) -> None:
    state = State.of(value)
    assert typed(state.value()) == typed(value)
    assert {name: typed(state.get(name)) for name in value} == {name: typed(item) for name, item in value.items()}


@given(states)
def test_a_states_text_parses_to_the_same_state(value: dict[str, Any]) -> None:
    state = State.of(value)
    parsed = State.parse(state.text)
    assert parsed == state
    assert (parsed.text, parsed.size, parsed.digest) == (state.text, len(state.text), state.digest)
    assert hash(parsed) == hash(state)


@given(states, st.data())
def test_a_text_may_come_in_pieces_that_end_anywhere(value: dict[str, Any], data: st.DataObject) -> None:
    text = State.of(value).text
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    parsed = State.parse(*pieces)
    assert parsed == State.of(value)
    assert parsed.text == text


@given(states)
def test_a_state_that_grew_is_the_same_as_one_that_was_made_at_once(value: dict[str, Any]) -> None:
    grown, made = built(value), State.of(value)
    assert grown == made
    assert (grown.text, grown.size, grown.digest) == (made.text, made.size, made.digest)


@given(st.lists(messages, max_size=5), st.lists(messages, max_size=3), st.lists(messages, max_size=3))
def test_two_continuations_of_one_state_do_not_mix(first: list[Any], left: list[Any], right: list[Any]) -> None:
    def listed(value: list[Any]) -> list[Raw]:
        return [Raw.of(each, depth=3) for each in value]

    root = State.of({"messages": first})
    assert root.messages is not None
    known = [root.messages.has(name) for name in ("m1", "m2", "m3", "m4")]  # makes its index, which the others share
    branches = [root.with_messages([*root.messages, *listed(added)]) for added in (left, right)]
    for branch, added in zip(branches, (left, right), strict=True):
        whole = State.of({"messages": [*first, *added]})
        assert (branch.digest, branch.size, branch.text) == (whole.digest, whole.size, whole.text)
        for name in ("m1", "m2", "m3", "m4"):
            assert branch.messages is not None
            assert whole.messages is not None
            assert branch.messages.has(name) is whole.messages.has(name)
    assert [root.messages.has(name) for name in ("m1", "m2", "m3", "m4")] == known


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": None}, {}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}),
        ({"messages": [1]}, {"messages": [True]}),
        ({"messages": [[], []]}, {"messages": [[]]}),
        ({"messages": [1, 2]}, {"messages": [2, 1]}),
        ({"messages": []}, {}),
        ({"messages": []}, {"messages": {}}),
        ({"messages": [], "a": 1}, {"a": 1, "messages": []}),
        ({"a": "b", "c": "d"}, {"a": "b,c", "d": ""}),
        ({"ab": 1}, {"a": 1}),
        ({"a": "é"}, {"a": "e\u0301"}),
    ],
)
def test_states_with_different_texts_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert State.of(one) != State.of(other)
    assert State.of(one).digest != State.of(other).digest


def test_a_state_equals_nothing_but_a_state() -> None:
    assert State.of({}) == EMPTY
    assert State.of({}) != {}


@given(values)
def test_one_value_is_held_as_its_canonical_text(value: Any) -> None:
    raw = Raw.of(value)
    assert typed(raw.value()) == typed(value)
    assert raw == Raw.stored(value)
    has_id = isinstance(value, dict) and isinstance(value.get("id"), str)
    assert raw.key == (value["id"] if has_id else None)


def test_copies_share_nothing_with_the_state() -> None:
    given_value = {"messages": [{"id": "a", "content": []}], "custom": {"list": [1]}}
    state = State.of(given_value)
    text = state.text
    given_value["messages"].append({"id": "b"})  # type: ignore[attr-defined]  # plain JSON
    for copy in (state.value(), state.value()):
        copy["messages"][0]["content"].append("changed")
        copy["custom"]["list"].append(2)
        state.get("custom")["list"].append(3)
    assert state.text == text


@pytest.mark.parametrize("value", [None, [], "x", 1, ((),), {1: 2}, {"a": (1,)}, {"\ud800": 1}, {"messages": [b"x"]}])
def test_what_is_no_json_object_is_no_state(value: Any) -> None:
    with pytest.raises(InvalidRequestError):
        State.of(value)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"1", b"null", b'"a"', b"{", b"}", b'{"a"}', b'{"a":}', b'{"a":1', b'{"a":1}}', b'{"a":1}x',
        b'{"a":1,}', b'{"a":1 "b":2}', b'{"a":1,"a":2}', b'{1:2}', b'{"messages":[}', b'{"messages":[1,]}',
        b'{"messages":[1 2]}', b'{"messages":[1}', b"\xff", b'{"a":"\xc3"}', b'{"a":' + b"[" * 100_000,
    ],
    ids=lambda text: ascii(text[:16]),
)  # fmt: skip
def test_a_damaged_text_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whatever is wrong with it
        State.parse(text)


CUT = State.of({"é🎉": [1e22, -1.5e-9, -0.0, 10**40, '日本\\"\u2028'], "n": 1e22, "messages": [{"id": "🎉"}, 1e22, 3]})


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_characters_and_numbers_may_be_cut_between_pieces(size: int) -> None:
    text = CUT.text
    assert State.read(text[at : at + size] for at in range(0, len(text), size)).text == text


def test_a_text_may_be_cut_once_at_every_place() -> None:
    """`1e+22` begins with a number, and so does `1e`."""
    text = CUT.text
    for at in range(len(text) + 1):
        assert State.parse(text[:at], text[at:]).text == text


def test_the_depth_counts_from_the_root() -> None:
    def deep(levels: int) -> Any:
        return [deep(levels - 1)] if levels else 0

    assert State.of({"custom": deep(99)}).get("custom") == deep(99)
    assert State.of({"messages": [deep(98)]}).get("messages") == [deep(98)]
    for value in ({"custom": deep(100)}, {"messages": [deep(99)]}):
        with pytest.raises(InvalidRequestError, match="100 levels"):
            State.of(value)


def test_setting_a_member_keeps_its_place_and_a_new_one_comes_last() -> None:
    state = State.of({"a": 1, "messages": [1], "b": 2})
    assert state.with_member("a", Raw.of(3)).text == b'{"a":3,"messages":[1],"b":2}'
    assert state.with_member("c", Raw.of(3)).text == b'{"a":1,"messages":[1],"b":2,"c":3}'
    assert state.with_member("messages", Raw.of("none")).text == b'{"a":1,"messages":"none","b":2}'
    assert state.with_messages([Raw.of(2)]).text == b'{"a":1,"messages":[2],"b":2}'
    assert State.of({"a": 1}).with_messages([]).text == b'{"messages":[],"a":1}'
    assert State.of({"messages": "none", "a": 1}).with_messages([Raw.of(2)]).text == b'{"messages":[2],"a":1}'
    assert state.text == b'{"a":1,"messages":[1],"b":2}'
