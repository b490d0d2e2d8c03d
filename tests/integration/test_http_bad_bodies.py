"""Bodies that are refused: outside of JSON, of the wrong shape, too large. The error table's answer, and not one
document written or changed."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.acceptance.chat_client import ok, send
from tests.integration.http_app import App, served
from tests.integration.refusals import JSON, Place, furnished, refused, refused_text

LIMIT = 2000  # bytes of a body


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served(MAX_BODY_BYTES=str(LIMIT), MAX_STATE_BYTES="4000") as app:
        yield app


@pytest.fixture
async def place(app: App) -> Place:
    return await furnished(app)


NOT_JSON: dict[str, str | bytes] = {
    "no JSON": "Hello",
    "cut short": '{"message": "Hel',
    "two values": '{"message": "Hello"} {}',
    "single quotes": "{'message': 'Hello'}",
    "a comma too many": '{"message": "Hello",}',
    "not UTF-8": b'{"message": "\xff"}',
    "half a surrogate pair as bytes": b'{"message": "\xed\xa0\x80"}',
    "UTF-16": '{"message": "Hello"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"message": "Hello"}',
    "a control character in a string": '{"message": "a\nb"}',
    "NaN": '{"message": {"role": "user", "content": [{"data": NaN}]}}',
    "Infinity": '{"message": {"role": "user", "content": [{"data": -Infinity}]}}',
    "1e400": '{"message": {"role": "user", "content": [{"data": 1e400}]}}',
    "a lone surrogate": '{"message": "\\ud800"}',
    "a lone surrogate in data": '{"message": {"role": "user", "content": [{"data": "\\udc00"}]}}',
    "a lone surrogate in a key": '{"message": {"role": "user", "content": [{"data": {"\\ud800": 1}}]}}',
    "surrogates in the wrong order": '{"message": "\\udc00\\ud800"}',
    "a key twice": '{"message": "Hello", "message": "Hello"}',
    "a key twice deep inside": '{"message": {"role": "user", "content": [{"data": {"a": 1, "a": 1}}]}}',
    "a key twice, once escaped": '{"message": "Hello", "m\\u0065ssage": "Hello"}',
    "deeper than 100 levels": '{"message": {"role": "user", "content": [{"data": ' + "[" * 100 + "]" * 100 + "}]}}",
    "far deeper": "[" * 900 + "]" * 900,
    "an array": "[]",
    "a string": '"Hello"',
    "a number": "1",
    "null": "null",
    "nothing": "",
    "a number as long as a body": "1" * 1900,
}


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON.keys())
async def test_a_body_outside_of_json_is_refused(app: App, place: Place, text: str | bytes) -> None:
    await refused_text(app, "/chat", text)


CHATS: dict[str, Any] = {
    "no message": {},
    "message and resume": {"message": "Hello", "resume": {"respond": []}},
    "an empty message": {"message": ""},
    "a number as message": {"message": 1},
    "null as message": {"message": None},
    "a list as message": {"message": ["Hello"]},
    "no role": {"message": {"content": [{"text": "a"}]}},
    "the model's role": {"message": {"role": "model", "content": [{"text": "a"}]}},
    "no content": {"message": {"role": "user"}},
    "empty content": {"message": {"role": "user", "content": []}},
    "content of text": {"message": {"role": "user", "content": "a"}},
    "a part of text": {"message": {"role": "user", "content": ["a"]}},
    "text that is a number": {"message": {"role": "user", "content": [{"text": 1}]}},
    "text that is null": {"message": {"role": "user", "content": [{"text": None}]}},
    "media without a URL": {"message": {"role": "user", "content": [{"media": {}}]}},
    "a tool request by a user": {
        "message": {"role": "user", "content": [{"toolRequest": {"name": "a", "ref": "1", "input": 1}}]}
    },
    "a compaction by a user": {
        "message": {"role": "user", "content": [{"text": "a"}], "metadata": {"isCompaction": True}}
    },
    "metadata of text": {"message": {"role": "user", "content": [{"text": "a"}], "metadata": "a"}},
    "an unknown member of a message": {"message": {"role": "user", "content": [{"text": "a"}], "name": "a"}},
    "an empty message id": {"message": {"id": "", "role": "user", "content": [{"text": "a"}]}},
    "a message id of 129 characters": {"message": {"id": "x" * 129, "role": "user", "content": [{"text": "a"}]}},
    "an unprintable message id": {"message": {"id": "a\tb", "role": "user", "content": [{"text": "a"}]}},
    "a number as message id": {"message": {"id": 1, "role": "user", "content": [{"text": "a"}]}},
    "an unknown member": {"message": "Hello", "sessionid": "a"},
    "null as sessionId": {"message": "Hello", "sessionId": None},
    "a number as sessionId": {"message": "Hello", "sessionId": 1},
    "a number as lastMessageId": {"message": "Hello", "lastMessageId": 1},
    "text as detach": {"message": "Hello", "detach": "true"},
    "a number as detach": {"message": "Hello", "detach": 1},
    "another onDisconnect": {"message": "Hello", "onDisconnect": "abort"},
    "an empty model": {"message": "Hello", "model": ""},
    "a resume of nothing": {"resume": {"respond": [{"toolResponse": {"name": "a", "ref": "1", "output": 1}}]}},
    "an empty resume": {"resume": {}, "sessionId": "a"},
    "a list as resume": {"resume": [], "sessionId": "a"},
    "a response without output": {
        "resume": {"respond": [{"toolResponse": {"name": "a", "ref": "1"}}]},
        "sessionId": "a",
    },
    "a response without ref": {"resume": {"respond": [{"toolResponse": {"name": "a", "output": 1}}]}, "sessionId": "a"},
}


@pytest.mark.parametrize("body", CHATS.values(), ids=CHATS.keys())
async def test_a_chat_of_the_wrong_shape_is_refused(app: App, place: Place, body: Any) -> None:
    await refused_text(app, "/chat", json.dumps(body))


async def test_a_resume_of_calls_that_are_not_open_is_refused(app: App, place: Place) -> None:
    response = {"toolResponse": {"name": "book", "ref": "1", "output": 1}}
    body = {"sessionId": place.session_id, "lastMessageId": place.last_message_id, "resume": {"respond": [response]}}
    await refused_text(app, "/chat", json.dumps(body))


CREATIONS: dict[str, Any] = {
    "a title over 100 characters": {"title": "x" * 101},
    "a number as title": {"title": 1},
    "null as title": {"title": None},
    "a lone surrogate in the title": {"title": "\ud800"},
    "text as temporary": {"temporary": "yes"},
    "an empty model": {"model": ""},
    "an owner": {"ownerId": "somebody"},
    "a custom state deeper than 100 levels": {"custom": json.loads("[" * 100 + "]" * 100)},
}


@pytest.mark.parametrize("body", CREATIONS.values(), ids=CREATIONS.keys())
async def test_a_session_of_the_wrong_shape_is_not_made(app: App, place: Place, body: Any) -> None:
    await refused_text(app, "/sessions", json.dumps(body))


@pytest.mark.parametrize(
    "custom", ["NaN", "1e400", '"\\ud800"', '{"a": 1, "a": 2}', '{"\\udfff": 1}', "1" + "0" * 4300]
)
async def test_a_custom_state_outside_of_json_is_refused(custom: str) -> None:
    async with served() as app:
        await refused_text(app, "/sessions", f'{{"custom": {custom}}}')


async def test_a_body_over_the_limit_is_refused_whether_or_not_it_is_announced(app: App, place: Place) -> None:
    text = json.dumps({"message": "x" * LIMIT})

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(text), 100):
            yield text[start : start + 100].encode()

    for path in ("/chat", "/abort", "/sessions"):
        await refused_text(app, path, text, 413)
        headers = {"content-type": JSON}
        await refused(app, "POST", path, 413, "payload_too_large", content=in_pieces(), headers=headers)


async def test_a_body_just_within_the_limit_is_taken(app: App) -> None:
    frame = len(json.dumps({"message": ""}))
    text = json.dumps({"message": "x" * (LIMIT - frame)})
    assert len(text) == LIMIT
    ok(await app.http.post("/chat", content=text, headers={"content-type": JSON}))


async def test_a_message_that_the_state_cannot_take_is_refused_before_the_agent_works(app: App, place: Place) -> None:
    first = await send(app.http, {"message": "x" * 1800})  # 1,800 characters, and as many in the answer
    place_of_next = {"sessionId": first["sessionId"], "lastMessageId": first["lastMessageId"]}
    body = place_of_next | {"message": "y" * 1500}
    await refused(app, "POST", "/chat", 413, "payload_too_large", json=body)


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"]
)
async def test_another_media_type_is_refused(app: App, place: Place, media: str) -> None:
    for path in ("/chat", "/abort", "/sessions"):
        headers = {"content-type": media}
        await refused(app, "POST", path, 415, "unsupported_media_type", content='{"message": "a"}', headers=headers)


async def test_a_compressed_body_is_refused(app: App, place: Place) -> None:
    headers = {"content-type": JSON, "content-encoding": "gzip"}
    await refused(app, "POST", "/chat", 415, "unsupported_media_type", content=b"\x1f\x8b", headers=headers)
