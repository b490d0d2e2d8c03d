"""Bodies and queries: what is taken, what is kept, and how a refusal reads."""

import json
from typing import Any

import pytest

from functions.wire.queries import MessagesQuery, SessionsQuery, SnapshotQuery, parse_query
from functions.wire.sessions import CreateSessionRequest, PatchSessionRequest
from functions.wire.turns import AbortRequest, ChatRequest
from functions.wire.validation import WireModel, require_model
from store.errors import InvalidRequestError

HALF = "\ud800"


def user(content: Any, **members: Any) -> dict[str, Any]:
    return {"message": {"role": "user", "content": content, **members}}


def refusal(model: type[WireModel], value: object) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        require_model(model, value)
    return caught.value.message


def test_a_plain_string_is_a_message_with_one_text_part() -> None:
    request = require_model(ChatRequest, {"message": "Hello"})
    assert request.message == {"role": "user", "content": [{"text": "Hello"}]}
    assert (request.session_id, request.last_message_id, request.detach, request.on_disconnect) == (
        None,
        None,
        False,
        None,
    )


def test_a_message_is_kept_as_the_very_object_that_was_sent() -> None:
    parts = [
        {"text": "", "metadata": {"z": None, "a": 1}},
        {"media": {"url": "data:,x", "contentType": "text/plain", "width": 3}},
        {"data": None},
        {"reasoning": "hm"},
        {"": {"__proto__": [[1.0, -0.0, True]]}},
        {},
    ]
    message = {"content": parts, "metadata": {"a/b": []}, "role": "user", "id": "m-1"}
    request = require_model(ChatRequest, {"message": message})
    assert request.message is message
    assert list(message) == ["content", "metadata", "role", "id"]
    assert json.dumps(parts[4]) == '{"": {"__proto__": [[1.0, -0.0, true]]}}'


def test_an_answer_to_an_interrupted_turn_is_kept_as_sent() -> None:
    resume = {"respond": [{"toolResponse": {"name": "ask", "ref": "1", "output": None, "more": 1}, "metadata": {}}]}
    request = require_model(ChatRequest, {"sessionId": "s", "resume": resume})
    assert (request.message, request.resume) == (None, resume)


def test_no_last_message_may_be_said_with_null() -> None:
    assert require_model(ChatRequest, {"message": "x", "lastMessageId": None}).last_message_id is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "The request must be an object."),
        ({}, "The request must have either message or resume."),
        ({"message": "x", "resume": {"respond": []}}, "resume must have at least one entry in respond or restart."),
        ({"resume": None}, "resume must be left out rather than null."),
        ({"resume": {"respond": None}}, "resume.respond must be left out rather than null."),
        ({"message": None}, "message must be left out rather than null."),
        ({"message": ""}, "message must not be empty."),
        ({"message": HALF}, "message must not contain lone surrogates."),
        ({"message": 5}, "message must be a string or an object."),
        ({"message": {}}, "message.role is missing."),
        ({"message": "x", "detach": 1}, "detach must be true or false."),
        ({"message": "x", "onDisconnect": "stop"}, "onDisconnect must be 'continue' or 'cancel'."),
        ({"message": "x", "model": ""}, "model must be 1 to 256 printable characters."),
        ({"message": "x", "model": HALF}, "model must be 1 to 256 printable characters."),
        ({"message": "x", "lastMessageId": ""}, "lastMessageId must be 1 to 128 printable characters."),
        ({"message": "x", "sessionId": "a/b"}, "sessionId must not contain '/'."),
        ({"message": "x", "snapshotId": 7}, "snapshotId must be a string."),
        ({"message": "x", "session_id": "a"}, "session_id is not known here."),
        (user([]), "message.content must not be empty."),
        (user("Hello"), "message.content must be an array."),
        (user(["Hello"]), "message.content[0] must be an object."),
        (user([{"text": 5}]), "message.content[0].text must be a string."),
        (user([{"text": None}]), "message.content[0].text must be left out rather than null."),
        (user([{"text": "x", "metadata": []}]), "message.content[0].metadata must be an object."),
        (user([{}, {"media": {"url": ""}}]), "message.content[1].media.url must not be empty."),
        (user([{"media": {}}]), "message.content[0].media.url is missing."),
        (
            user([{"toolResponse": {}}]),
            "message.content[0] must not be a tool request or response; answer those by resume.",
        ),
        (user([{}], id="a\nb"), "message.id must be 1 to 128 printable characters."),
        (user([{}], id="x" * 129), "message.id must be 1 to 128 printable characters."),
        (user([{}], metadata={"isCompaction": False}), "message.metadata.isCompaction is the server's alone."),
        (user([{}], role="model"), "message.role must be 'user'."),
        (user([{}], extra=1), "message.extra is not known here."),
        (
            {"sessionId": "s", "resume": {"respond": [{"toolResponse": {"name": "a", "ref": "1"}}]}},
            "resume.respond[0].toolResponse.output is missing.",
        ),
        (
            {"resume": {"restart": [{"toolRequest": {"name": "a", "ref": "1", "input": {}}}]}},
            "The request must name the sessionId or the snapshotId that resume belongs to.",
        ),
    ],
)
def test_a_refused_chat_names_the_member_and_the_reason(value: object, message: str) -> None:
    assert refusal(ChatRequest, value) == message


def test_a_refusal_quotes_little_of_the_input_and_nothing_unprintable() -> None:
    message = refusal(ChatRequest, {"message": "x", ("secret" * 100): 1})
    assert message == ("secret" * 100)[:39] + "… is not known here."
    assert "pydantic" not in refusal(ChatRequest, {"message": "x", "detach": "secret" * 100})
    assert "secret" not in refusal(ChatRequest, user([{"text": ["secret"]}]))
    assert refusal(AbortRequest, {"a\n" + HALF: 1}).isprintable()
    assert refusal(AbortRequest, {"a\n" + HALF: 1}).isascii()


def test_an_abort_names_exactly_one_turn() -> None:
    assert require_model(AbortRequest, {"snapshotId": "a"}).snapshot_id == "a"
    assert require_model(AbortRequest, {"sessionId": "a"}).session_id == "a"
    for value in ({}, {"snapshotId": "a", "sessionId": "b"}):
        assert refusal(AbortRequest, value) == "The request must name either snapshotId or sessionId."


def test_a_new_session_needs_nothing_and_keeps_its_custom_state() -> None:
    nothing = require_model(CreateSessionRequest, {})
    assert (nothing.id, nothing.title, nothing.temporary, nothing.has_custom) == (None, "", False, False)
    custom = {"z": [None], "a": 1}
    assert require_model(CreateSessionRequest, {"custom": custom}).custom is custom


def test_a_custom_state_of_null_is_not_an_absent_one() -> None:
    request = require_model(CreateSessionRequest, {"custom": None})
    assert (request.has_custom, request.custom) == (True, None)


def test_a_title_is_trimmed_before_it_is_measured() -> None:
    title = "x" * 100
    assert require_model(CreateSessionRequest, {"title": f"  {title}\n"}).title == title
    assert require_model(CreateSessionRequest, {"title": "  "}).title == ""
    assert refusal(CreateSessionRequest, {"title": title + "x"}) == "title must be at most 100 characters."
    assert refusal(CreateSessionRequest, {"title": HALF}) == "title must not contain lone surrogates."


def test_a_renamed_session_needs_a_title() -> None:
    assert require_model(PatchSessionRequest, {"title": " a "}).title == "a"
    assert refusal(PatchSessionRequest, {"title": " "}) == "title must not be blank."
    assert refusal(PatchSessionRequest, {"title": None}) == "title must be left out rather than null."
    assert refusal(PatchSessionRequest, {}) == "The request must change the title or the model."


def test_a_query_is_typed() -> None:
    query = parse_query(SnapshotQuery, b"snapshotId=%C3%A4+b&metadataOnly=true&wait=2.5")
    assert (query.snapshot_id, query.metadata_only, query.wait) == ("ä b", True, 2.5)
    assert parse_query(MessagesQuery, b"").limit == 100
    sessions = parse_query(SessionsQuery, b"cursor=abc%3D")
    assert (sessions.limit, sessions.cursor) == (20, "abc=")


@pytest.mark.parametrize(
    ("model", "query", "message"),
    [
        (SnapshotQuery, b"", "The request must name either snapshotId or sessionId."),
        (SnapshotQuery, b"snapshotId=a&sessionId=b", "The request must name either snapshotId or sessionId."),
        (SnapshotQuery, b"snapshotId=a&snapshotId=a", "snapshotId may be given only once."),
        (SnapshotQuery, b"snapshotId=a&other=1", "other is not known here."),
        (SnapshotQuery, b"snapshotId=a&metadataOnly=1", "metadataOnly must be true or false."),
        (SnapshotQuery, b"snapshotId=a&wait=55.1", "wait must be at most 55."),
        (SnapshotQuery, b"snapshotId=a&wait=-1", "wait must be at least 0."),
        (SnapshotQuery, b"snapshotId=a&wait=inf", "wait must be a number."),
        (SnapshotQuery, b"snapshotId=%FF", "The query is not UTF-8."),
        (SnapshotQuery, b"snapshotId=%ED%A0%80", "The query is not UTF-8."),
        (SnapshotQuery, b"snapshotId=a%2Fb", "snapshotId must not contain '/'."),
        (SnapshotQuery, b"snapshotId=%00", "snapshotId must not contain control characters or lone surrogates."),
        (MessagesQuery, b"limit=0", "limit must be at least 1."),
        (MessagesQuery, b"limit=1001", "limit must be at most 1000."),
        (SessionsQuery, b"limit=101", "limit must be at most 100."),
        (SessionsQuery, b"limit=1e1", "limit must be a whole number."),
        (SessionsQuery, b"limit=", "limit must be a whole number."),
        (SessionsQuery, b"cursor=", "cursor must be 1 to 4096 printable characters."),
        (SessionsQuery, b"&".join([b"a=1"] * 33), "The query may have at most 32 values."),
    ],
)
def test_a_refused_query_names_the_value_and_the_reason(model: type[WireModel], query: bytes, message: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_query(model, query)
    assert caught.value.message == message
