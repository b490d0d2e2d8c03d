"""What a transcript says: its tail, its messages, what an agent is shown, and which calls are open."""

from typing import Any

import pytest

from store.canonical import Json
from store.rules.history import (
    has_message,
    interrupted_responses,
    is_compaction,
    last_message_id,
    messages_of,
    open_requests,
    preview_of,
    text_of,
    visible_history,
)
from store.state import EMPTY, Raw, State


def message(message_id: str, *parts: Json, role: str = "user", **metadata: Json) -> dict[str, Json]:
    made: dict[str, Json] = {"id": message_id, "role": role, "content": list(parts)}
    return made | ({"metadata": metadata} if metadata else {})


def call(ref: Json, name: str = "tool") -> dict[str, Json]:
    return {"toolRequest": {"name": name, "ref": ref, "input": {}}}


def response(ref: Json, name: str = "tool") -> dict[str, Json]:
    return {"toolResponse": {"name": name, "ref": ref, "output": 1}}


def state(*messages: Json) -> State:
    return State.of({"messages": list(messages)})


def raws(*messages: Json) -> list[Raw]:
    return list(messages_of(state(*messages)))


@pytest.mark.parametrize(
    ("given", "tail"),
    [
        (None, None),
        (EMPTY, None),
        (state(), None),
        (State.of({"messages": "none"}), None),
        (state(message("a"), message("b")), "b"),
        (state(message("a"), {"role": "user"}), None),
        (state(message("a"), {"id": 1}), None),
        (state("text"), None),
    ],
)
def test_the_tail_is_the_newest_messages_own_id(given: State | None, tail: str | None) -> None:
    assert last_message_id(given) == tail


def test_a_message_is_found_by_its_id() -> None:
    given = state(message("a"), message("b"), {"id": 1}, None)
    assert [has_message(given, each) for each in ("a", "b", "c", "1", "")] == [True, True, False, False, False]
    assert not has_message(None, "a")
    assert not has_message(EMPTY, "a")


def test_an_agent_is_shown_what_follows_the_newest_compaction_itself_included() -> None:
    first, second = message("s1", isCompaction=True), message("s2", isCompaction=True)
    given = state(message("a"), first, message("b"), second, message("c"))
    assert visible_history(given) == [second, message("c")]
    assert visible_history(state(message("a"), message("b"))) == [message("a"), message("b")]
    assert visible_history(None) == []


@pytest.mark.parametrize(
    "given",
    [
        message("a", isCompaction=1),
        message("a", isCompaction="true"),
        message("a", {"text": "isCompaction"}),
        {"id": "a", "metadata": "isCompaction"},
        {"id": "a", "isCompaction": True},
        "isCompaction",
        None,
    ],
)
def test_nothing_but_the_servers_mark_makes_a_compaction(given: Json) -> None:
    assert not is_compaction(given)
    assert visible_history(state(message("before"), given)) == [message("before"), given]


def test_copies_that_an_agent_is_shown_are_its_own() -> None:
    given = state(message("a", {"text": "x"}))
    shown: Any = visible_history(given)
    shown[0]["content"][0]["text"] = "changed"
    assert visible_history(given) == [message("a", {"text": "x"})]


MODEL_CALLS = message("m", call(1), role="model")


@pytest.mark.parametrize(
    ("messages", "refs"),
    [
        ([], []),
        ([message("q"), message("m", {"text": "x"}, role="model")], []),
        ([message("m", call(1), call(2), role="model")], [1, 2]),
        ([message("m", call(1), call(2), role="model"), message("t", response(1), role="tool")], [2]),
        ([message("m", call(1), call(2), role="model"), message("t", response(2), response(1), role="tool")], []),
        ([message("m", call(1), role="model"), message("n", call(2), role="model")], [1, 2]),
        ([MODEL_CALLS, message("t", response(1), role="tool"), message("n", call(1), role="model")], [1]),
        ([message("m", call(1), role="model"), message("s", isCompaction=True)], []),
        ([message("u", call(1), role="user")], []),
        (["text", None, {"role": "model"}], []),
        ([{"role": "model", "content": "x"}, {"role": "model", "content": [None, 1]}], []),
    ],
)  # fmt: skip
def test_open_calls_are_those_without_a_response(messages: list[Json], refs: list[int]) -> None:
    assert [request["ref"] for request in open_requests(raws(*messages))] == refs


def test_calls_without_refs_are_answered_by_name_one_by_one() -> None:
    calls = message("m", call(None, "a"), call(None, "a"), call(None, "b"), role="model")
    answered = message("t", response(None, "a"), response(None, "c"), role="tool")
    assert [request["name"] for request in open_requests(raws(calls, answered))] == ["a", "b"]


def test_what_closes_a_call_answers_it() -> None:
    calls = message("m", call(1), call("two"), role="model")
    closing = message("t", *interrupted_responses(open_requests(raws(calls))), role="tool")
    assert open_requests(raws(calls, closing)) == []
    assert [part["metadata"] for part in closing["content"]] == [{"interrupted": True}] * 2


@pytest.mark.parametrize(
    ("given", "preview"),
    [
        (None, None),
        (message("a"), None),
        (message("a", {"text": "  one\n two "}, {"media": {}}, {"text": "three"}), "one two three"),
        (message("a", {"text": "é" * 300}), "é" * 100),
        (message("a", {"text": 1}, "x"), None),
        ({"id": "a", "content": "x"}, None),
    ],
)
def test_the_preview_is_the_beginning_of_the_text(given: Json, preview: str | None) -> None:
    assert preview_of(None if given is None else Raw.of(given)) == preview


def test_the_text_of_a_message_is_its_text_parts() -> None:
    assert text_of(message("a", {"text": "one"}, {"reasoning": "no"}, {"text": "two"})) == "one two"
