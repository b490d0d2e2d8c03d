"""What a transcript says, where it may be cut, and how a copy of it gets ids of its own."""

import itertools
from typing import Any

import pytest

from store.errors import MessageNotFoundError
from store.rules.history import (
    has_message,
    interrupted_responses,
    is_compaction,
    last_message_id,
    open_requests,
    preview_of,
    visible_history,
    without_answered,
)
from store.rules.transcripts import branched, kept_count, rewound, with_calls_closed
from store.state import EMPTY, Raw, State
from tests.contract.conversations import asking_turn, compaction, parts, plain_turn, request, response, tool_turn
from tests.contract.turns import message


def raws(*messages: Any) -> list[Raw]:
    """Messages as a state keeps them."""
    return [Raw.of(each, depth=3) for each in messages]


def counting() -> Any:
    """Mints n1, n2, …"""
    numbers = itertools.count(1)
    return lambda: f"n{next(numbers)}"


def refs(requests: list[Any]) -> list[Any]:
    return [each.get("ref") for each in requests]


def test_the_last_message_and_every_other_one_are_known_by_id() -> None:
    state = State.of({"messages": [message("a"), message("b")]})
    assert (last_message_id(state), has_message(state, "a"), has_message(state, "c")) == ("b", True, False)
    assert (last_message_id(None), last_message_id(EMPTY), has_message(None, "a")) == (None, None, False)


@pytest.mark.parametrize(
    ("given", "is_one"),
    [
        (compaction("k"), True),
        (message("a"), False),
        (parts("a", "user", metadata={"isCompaction": "true"}), False),
        (parts("a", "user", metadata={"isCompaction": 1}), False),
        (parts("a", "user", metadata={"x": {"isCompaction": True}}), False),
        (parts("a", "user", metadata=[{"isCompaction": True}]), False),
        ({"id": "a", "isCompaction": True}, False),
        ("isCompaction", False),
    ],
)
def test_a_compaction_is_what_the_metadata_says_and_nothing_like_it(given: Any, is_one: bool) -> None:
    assert is_compaction(given) is is_one
    shown = visible_history(State.of({"messages": [message("before"), given, message("after")]}))
    assert shown == ([given, message("after")] if is_one else [message("before"), given, message("after")])


def test_an_agent_is_shown_the_newest_compaction_and_what_follows() -> None:
    messages = [message("a"), compaction("k1"), message("b"), compaction("k2"), message("c")]
    assert visible_history(State.of({"messages": messages})) == messages[3:]
    assert visible_history(State.of({"messages": messages[:3]})) == messages[1:3]
    assert visible_history(None) == []


def test_an_agents_copy_is_its_own() -> None:
    state = State.of({"messages": [message("a")]})
    visible_history(state)[0]["content"].clear()
    assert visible_history(state) == [message("a")]


def test_open_requests_are_those_that_nothing_answers() -> None:
    assert open_requests(raws(*tool_turn("a"))) == []
    assert refs(open_requests(raws(*asking_turn("a")))) == ["a-1", "a-2"]
    answered = raws(*asking_turn("a"), parts("t", "tool", response("ask", "a-2")))
    assert open_requests(answered) == [request("ask", "a-1")["toolRequest"]]


def test_a_request_stays_open_when_the_model_goes_on_talking() -> None:
    talking = raws(*asking_turn("a"), parts("t", "tool", response("ask", "a-2")), message("b", "So", "model"))
    assert refs(open_requests(talking)) == ["a-1"]
    assert refs(open_requests([*talking, *raws(*plain_turn("c"))])) == ["a-1"]


def test_what_lies_before_a_compaction_is_not_shown_and_so_not_open() -> None:
    assert open_requests(raws(*asking_turn("a"), compaction("k"), *plain_turn("b"))) == []


def test_a_ref_that_is_used_again_is_another_call() -> None:
    """Some agents count from 1 in every turn."""
    once = [parts("m", "model", request("look", "1")), parts("t", "tool", response("look", "1"))]
    assert open_requests(raws(*once, *once)) == []
    assert refs(open_requests(raws(*once, once[0]))) == ["1"]
    assert refs(open_requests(raws(once[0], once[0], once[1]))) == ["1"]


def test_calls_without_a_ref_are_paired_by_name() -> None:
    asking = parts("m", "model", {"toolRequest": {"name": "look"}}, {"toolRequest": {"name": "weigh"}})
    telling = parts("t", "tool", {"toolResponse": {"name": "look", "output": 1}})
    [left] = open_requests(raws(asking, telling))
    assert left == {"name": "weigh"}
    [closing] = interrupted_responses([left])
    assert closing["toolResponse"].keys() == {"name", "output"}
    assert without_answered([left], [closing]) == []


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        "toolRequest",
        [],
        {},
        {"role": "model"},
        {"role": "model", "content": None},
        {"role": "model", "content": {"toolRequest": {}}},
        {"role": "model", "content": ["toolRequest", None, {"toolRequest": None}, {"toolRequest": "x"}]},
        {"role": ["model"], "content": [request("look", "1")]},
        {"role": "tool", "content": [response("look", "nothing")]},
        {"role": "model", "content": [{"toolResponse": {"ref": [1]}}], "metadata": "isCompaction"},
        {"id": 5, "role": "user", "metadata": None},
    ],
)
def test_messages_of_any_shape_do_no_harm(odd: Any) -> None:
    """A saved state may hold whatever JSON can."""
    messages = raws(*asking_turn("a"), odd, message("b"))
    assert refs(open_requests(messages)) == ["a-1", "a-2"]
    assert kept_count(messages, "b") == 3
    assert kept_count(messages, "a-calls") in (2, 3)
    assert visible_history(EMPTY.with_messages(messages))[2] == odd
    copy = branched(EMPTY.with_messages(messages), "b", counting())
    assert len(copy.messages or ()) == 4  # and what closes the calls
    assert preview_of(messages[2]) is None


def test_closing_answers_every_open_call_in_one_tool_message() -> None:
    closed = with_calls_closed(raws(*asking_turn("a")), counting())
    last = closed[-1].value()
    assert (last["id"], last["role"]) == ("n1", "tool")
    assert refs([part["toolResponse"] for part in last["content"]]) == ["a-1", "a-2"]
    assert all(part["metadata"] == {"interrupted": True} for part in last["content"])
    assert open_requests(closed) == []
    assert with_calls_closed(closed, counting()) == closed


@pytest.mark.parametrize(
    ("target", "count"),
    [("a", 0), ("a-calls", 4), ("a-result-1", 4), ("a-result-2", 4), ("a-answer", 5), ("k", 5), ("b", 6)],
)
def test_a_cut_never_parts_a_call_from_its_result(target: str, count: int) -> None:
    messages = raws(*tool_turn("a"), compaction("k"), *plain_turn("b"))
    assert kept_count(messages, target) == count
    with pytest.raises(MessageNotFoundError):
        kept_count(messages, target.upper())


def test_a_cut_behind_the_last_message_is_the_very_same_state() -> None:
    state = State.of({"messages": plain_turn("a"), "custom": 1})
    assert rewound(state, "a-answer") is state
    assert rewound(state, "a").value() == {"messages": [], "custom": 1}


def test_a_system_message_is_kept_like_a_models() -> None:
    state = State.of({"messages": [message("s", "Be kind", "system"), *plain_turn("a")]})
    assert [raw.key for raw in rewound(state, "s").messages or ()] == ["s"]


def test_a_branch_renames_messages_and_what_names_them() -> None:
    naming = parts(
        "b",
        "model",
        {"text": "a", "metadata": {"of": "a"}},
        {"data": {"of": "a"}},
        metadata={"replyTo": "a", "all": ["a", "b", 1, None], "deep": {"a": {"x": "a"}}, "other": "aa"},
        more="a",
    )
    copy = branched(State.of({"custom": {"at": "a"}, "messages": [message("a"), naming]}), "b", counting())
    assert list(copy.order) == ["custom", "messages"]
    assert copy.value() == {
        "custom": {"at": "a"},
        "messages": [
            message("n1"),
            {
                "id": "n2",
                "role": "model",
                "content": [{"text": "a", "metadata": {"of": "n1"}}, {"data": {"of": "a"}}],
                "metadata": {"replyTo": "n1", "all": ["n1", "n2", 1, None], "deep": {"a": {"x": "n1"}}, "other": "aa"},
                "more": "a",
            },
        ],
    }


def test_a_branch_closes_calls_that_its_source_still_waits_for() -> None:
    copy = branched(State.of({"messages": asking_turn("a")}), "a-calls", counting())
    assert [raw.value()["role"] for raw in copy.messages or ()] == ["user", "model", "tool"]
    assert open_requests(copy.messages or ()) == []


@pytest.mark.parametrize(
    ("content", "preview"),
    [
        ([{"text": " a\n\tb "}, {"media": {"url": "x"}}, {"text": "c"}], "a b c"),
        ([{"text": "x" * 500}], "x" * 100),
        ([{"text": "  "}], None),
        ([{"data": 1}], None),
    ],
)
def test_a_preview_is_the_beginning_of_the_text_on_one_line(content: list[Any], preview: str | None) -> None:
    assert preview_of(Raw.of(parts("a", "user", *content))) == preview
