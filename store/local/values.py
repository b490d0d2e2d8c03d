"""Which values a local document may hold, how they compare and sort, and how they are copied. Pure.

The limits are Firestore's, so that what works here works there: integers of 64 bits, no list directly in a list, no
field `__x__`, no float (no document of ours has one), times in UTC.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from store.database import SERVER_TIME, Fields, Value

_INT64 = 1 << 63
_RESERVED = re.compile(r"__.*__", re.DOTALL)


def utc_now() -> datetime:
    """The present by this machine's clock, in UTC."""
    return datetime.now(UTC)


def checked_fields(fields: Fields, time: datetime) -> dict[str, Value]:
    """A deep, normalised copy of `fields` with SERVER_TIME replaced; TypeError or ValueError names the field."""
    return {
        _checked_name(name, "The document"): time if value is SERVER_TIME else checked(value, name)
        for name, value in fields.items()
    }


def checked(value: Value, where: str) -> Value:
    """A deep copy of `value` made of the plain types only; TypeError or ValueError naming `where`."""
    if value is None or type(value) is bool or type(value) is bytes:
        return value
    for kind, check in _CHECKS:
        if isinstance(value, kind):
            return check(value, where)
    raise TypeError(f"{where}: a document cannot hold a {type(value).__name__}.")


def _checked_text(value: str, where: str) -> str:
    text = str.__str__(value)  # an enum's member becomes the plain text that Firestore would give back
    if not text.isascii():
        text.encode()  # a lone surrogate raises UnicodeEncodeError, which is a ValueError
    return text


def _checked_int(value: int, where: str) -> int:
    if not -_INT64 <= value < _INT64:
        raise ValueError(f"{where}: an integer must fit in 64 bits.")
    return int(value)


def _checked_time(value: datetime, where: str) -> datetime:
    if value.utcoffset() is None:
        raise ValueError(f"{where}: a time needs a time zone.")
    utc = value.astimezone(UTC)
    return datetime.combine(utc.date(), utc.time(), UTC)  # a subclass with nanoseconds becomes a plain time


def _checked_list(value: list[Value], where: str) -> list[Value]:
    if any(isinstance(item, list) for item in value):
        raise ValueError(f"{where}: a list cannot hold a list.")
    return [checked(item, where) for item in value]


def _checked_map(value: Mapping[str, Value], where: str) -> dict[str, Value]:
    return {_checked_name(name, where): checked(item, f"{where}.{name}") for name, item in value.items()}


def _checked_name(name: object, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where} has a field whose name is not a string.")
    if not name or _RESERVED.fullmatch(name):
        raise ValueError(f"{where} has a field named {name!r}, which is reserved.")
    return _checked_text(name, where)


_CHECKS: tuple[tuple[type[Any], Callable[[Any, str], Value]], ...] = (
    (str, _checked_text),
    (int, _checked_int),
    (datetime, _checked_time),
    (list, _checked_list),
    (dict, _checked_map),
)


def clone(value: Value) -> Value:
    """A copy of a checked value that shares nothing mutable with it."""
    if type(value) is list:
        return [clone(item) for item in value]
    if type(value) is dict:
        return {name: clone(item) for name, item in value.items()}
    return value


def order_key(value: Value) -> tuple[int, Any]:
    """Sorts as Firestore does: by type first, then by value. Equal keys mean the same value of the same type."""
    kind = type(value)
    if kind is str:
        return 4, value
    if kind is int:
        return 2, value
    if kind is datetime:
        return 3, value
    if value is None or kind is bool:
        return (0, 0) if value is None else (1, value)
    if kind is bytes:
        return 5, value
    if kind is list:
        return 6, [order_key(item) for item in value]
    return 7, [(name, order_key(value[name])) for name in sorted(value)]


def is_same(left: Value, right: Value) -> bool:
    """Whether two values are equal and of the same types throughout: 1 is not True."""
    return order_key(left) == order_key(right)
