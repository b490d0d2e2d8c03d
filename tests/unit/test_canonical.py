"""JSON text ⇄ values: what is kept exactly, and what is refused."""

import math
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given

from store.canonical import MAX_DEPTH, MAX_INT_DIGITS, dump, parse, parse_stored
from store.conformance.values import typed
from store.errors import InvalidRequestError
from tests.unit.json_values import values


def nested(depth: int) -> Any:
    """Lists in lists, `depth` of them."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@given(values)
def test_every_value_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    text = dump(value)
    assert typed(parse(text)) == typed(parse_stored(text)) == typed(value)
    assert dump(parse(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, True, None]}, b'{"b":1,"a":[1.0,true,null]}'),
        (-0.0, b"-0.0"),
        (1e22, b"1e+22"),
        (5e-324, b"5e-324"),
        (0.1 + 0.2, b"0.30000000000000004"),
        (10**30, b"1" + b"0" * 30),
        ('é\0\u2028\U0001f389\\"/', '"é\\u0000\u2028\U0001f389\\\\\\"/"'.encode()),
        ({"": {"__proto__": [], "a/b~c": {}}}, b'{"":{"__proto__":[],"a/b~c":{}}}'),
        ([], b"[]"),
        ({}, b"{}"),
    ],
)
def test_the_text_is_compact_utf8_in_the_given_order(value: Any, text: bytes) -> None:
    assert dump(value) == text
    assert typed(parse(text)) == typed(value)


def test_whitespace_and_escapes_of_a_body_are_no_part_of_its_value() -> None:
    assert dump(parse(b' { "a" :\n[ 1 ,\t"\\u00e9\\ud83c\\udf89" ] } ')) == '{"a":[1,"é🎉"]}'.encode()
    assert dump(parse('"\\/"')) == b'"/"'


@pytest.mark.parametrize(
    "text",
    [
        b"NaN", b"Infinity", b"-Infinity", b"[1e400]", b"-1e999", b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}',
        b"", b" ", b"{", b"[1,]", b"{'a':1}", b"01", b"+1", b".5", b"1.", b"nul", b"[1] 2", b'"\x01"', b'"\\x"',
        b"// 1", b"\xff", b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", "1".encode("utf-16"), b"1" * (MAX_INT_DIGITS + 1),
        b"[" * 100_000,
    ],
    ids=lambda text: ascii(text[:12]),
)  # fmt: skip
def test_a_text_that_is_not_our_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        parse(text)


@pytest.mark.parametrize("text", [b'"\\ud800"', b'{"\\udc00":1}', b'["\\udf89\\ud83c"]'])
def test_a_lone_surrogate_is_refused_where_the_value_is_stored(text: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="surrogate"):
        dump(parse(text))


class _Number(IntEnum):
    ONE = 1


class _Text(StrEnum):
    A = "a"


class _Pair(NamedTuple):
    a: int


@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, -math.inf, (1,), {1}, b"x", bytearray(), object(), 1j, range(1), _Number.ONE, _Text.A,
        _Pair(1), {1: 2}, {None: 1}, {True: 1}, {("a",): 1}, {_Text.A: 1}, "\ud800", {"\udfff": 1},
        10**MAX_INT_DIGITS, -(10**MAX_INT_DIGITS),
    ],
    ids=lambda value: ascii(type(value).__name__),
)  # fmt: skip
def test_a_value_that_json_would_change_is_refused_wherever_it_stands(value: Any) -> None:
    for placed in (value, [value], {"a": {"b": [value]}}):
        with pytest.raises(InvalidRequestError):
            dump(placed)


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(InvalidRequestError, match="/a/1/b is not a finite number"):
        dump({"a": [0, {"b": math.nan}]})


@pytest.mark.parametrize("number", [10**MAX_INT_DIGITS - 1, 1 - 10**MAX_INT_DIGITS])
def test_integers_of_the_most_digits_are_kept(number: int) -> None:
    assert parse(dump(number)) == number


def test_values_are_nested_to_the_limit_and_no_deeper() -> None:
    deepest = nested(MAX_DEPTH)
    assert parse(dump(deepest)) == deepest
    for value in (nested(MAX_DEPTH + 1), [{"a": nested(MAX_DEPTH - 1)}], nested(5000)):
        with pytest.raises(InvalidRequestError, match="100 levels"):
            dump(value)


def test_the_depth_counts_from_the_states_root() -> None:
    assert dump(nested(MAX_DEPTH - 2), depth=3)
    with pytest.raises(InvalidRequestError, match="100 levels"):
        dump(nested(MAX_DEPTH - 1), depth=3)


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidRequestError):
        dump(loop)
