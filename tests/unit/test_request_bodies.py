"""Reading a body: bounded, JSON by name, parsed without loss."""

from collections.abc import AsyncIterator

import pytest

from functions.errors import PayloadTooLargeError, UnsupportedMediaTypeError
from functions.wire.body import read_json
from store.errors import InvalidRequestError

JSON = {"content-type": "application/json"}


class Body:
    """Chunks that arrive one by one, and how many of them were taken."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            self.taken += 1
            yield chunk


async def read(*chunks: bytes, headers: dict[str, str] = JSON, limit: int = 100) -> object:
    return await read_json(headers, aiter(Body(*chunks)), limit)


async def test_a_body_is_put_together_and_parsed_in_order() -> None:
    assert await read(b'{"b": "\xc3', b'\xa4", "a": 1.0}') == {"b": "ä", "a": 1.0}


async def test_no_body_is_an_empty_request() -> None:
    assert await read(headers={}) == {}
    assert await read(b"", b"") == {}


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json; charset=utf-8",
        'APPLICATION/JSON;Charset="UTF-8"',
        "application/merge-patch+json",
        "application/vnd.a.b+json; v=1",
        "",
    ],
)
async def test_what_calls_itself_json_is_read(media_type: str) -> None:
    assert await read(b"[1]", headers={"content-type": media_type}) == [1]
    assert await read(b"[1]", headers={}) == [1]


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/jsonp"},
        {"content-type": "multipart/form-data; boundary=application/json"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_anything_else_is_refused_before_it_is_read(headers: dict[str, str]) -> None:
    body = Body(b"{}")
    with pytest.raises(UnsupportedMediaTypeError):
        await read_json(headers, aiter(body), 100)
    assert body.taken == 0


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    assert await read(b'"' + b"x" * 98 + b'"', limit=100) == "x" * 98


@pytest.mark.parametrize("announced", ["", "3", "many", "-1", "²"])
async def test_a_body_is_counted_whatever_it_announces(announced: str) -> None:
    body = Body(*[b"x" * 40] * 10)
    with pytest.raises(PayloadTooLargeError):
        await read_json({"content-length": announced}, aiter(body), 100)
    assert body.taken == 3


@pytest.mark.parametrize("announced", ["101", "9" * 5000])
async def test_a_body_that_announces_too_much_is_not_read_at_all(announced: str) -> None:
    body = Body(b"{}")
    with pytest.raises(PayloadTooLargeError):
        await read_json({"content-length": announced}, aiter(body), 100)
    assert body.taken == 0


@pytest.mark.parametrize(
    "text", [b"{", b" ", b"\xff", b"[NaN]", b"[1e400]", b'{"a":1,"a":2}', b"[" * 90_000, '"a"'.encode("utf-16")]
)
async def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        await read(text, limit=100_000)
