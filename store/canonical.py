"""JSON text ⇄ values, without losing or changing anything (rule 11 of the design). Pure.

What is kept: key order, `null` versus absent, every Unicode scalar, integers to 4,300 digits, doubles by value, nesting
to 100. What is refused with InvalidRequestError: NaN, Infinity, numbers beyond a double, lone surrogates, duplicate or
non-string keys, and every Python type that is not JSON's own (a tuple or an enum would come back as something else).
"""

import json
import math
from typing import Any, TypeAlias

from store.errors import InvalidRequestError

Json: TypeAlias = (
    Any  # None | bool | int | float | str | list[Json] | dict[str, Json]; recursive aliases cost mypy dearly
)

MAX_DEPTH = 100
MAX_INT_DIGITS = 4300


def parse(text: bytes | str) -> Json:
    """The value of one JSON text (UTF-8)."""
    try:
        # Bytes are decoded here: json.loads would guess UTF-16 or UTF-32 from their first bytes.
        characters = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(
            characters, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
        )
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The text is not UTF-8.") from error
    except json.JSONDecodeError as error:
        raise InvalidRequestError(f"The text is not JSON: {error}.") from error
    except RecursionError as error:
        raise InvalidRequestError(f"JSON may be nested {MAX_DEPTH} levels deep.") from error


def parse_stored(text: bytes) -> Json:
    """The value of a text that `dump` made: no checks besides syntax, at the speed of the plain parser."""
    return json.loads(text.decode("utf-8"))


def dump(value: Json, depth: int = 1) -> bytes:
    """`value` as compact UTF-8 text; `depth` is the level at which it stands, counted from the state's root."""
    _check(value, depth, "")
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError("A string contains a lone surrogate.") from error


def _check(value: Json, depth: int, where: str) -> None:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return
    if kind is dict or kind is list:
        _check_children(value, depth, where)
    elif kind is float:
        if not math.isfinite(value):
            raise InvalidRequestError(f"{where or 'The value'} is not a finite number.")
    elif kind is int:
        _check_int(value, where)
    else:
        raise InvalidRequestError(f"{where or 'The value'} is a {kind.__name__}, which JSON cannot hold.")


def _check_int(value: int, where: str) -> None:
    if value.bit_length() <= 14_000:  # always under 4,300 digits, and far cheaper than counting them
        return
    if abs(value) >= 10**MAX_INT_DIGITS:
        raise InvalidRequestError(f"{where or 'The value'} has more than {MAX_INT_DIGITS} digits.")


def _check_children(value: dict[str, Json] | list[Json], depth: int, where: str) -> None:
    if depth > MAX_DEPTH:
        raise InvalidRequestError(f"JSON may be nested {MAX_DEPTH} levels deep.")
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, depth + 1, f"{where}/{index}")
        return
    for key, item in value.items():
        if type(key) is not str:
            raise InvalidRequestError(f"{where or 'The value'} has a key that is not a string.")
        _check(item, depth + 1, f"{where}/{key}")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidRequestError("An object has the same key twice.")
    return members


def _constant(name: str) -> Json:
    raise InvalidRequestError(f"{name} is not JSON.")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InvalidRequestError(f"The number {text[:40]} is beyond the range of a double.")
    return value


def _int(text: str) -> int:
    if len(text.lstrip("-")) > MAX_INT_DIGITS:
        raise InvalidRequestError(f"A number has more than {MAX_INT_DIGITS} digits.")
    return int(text)
