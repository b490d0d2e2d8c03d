"""Values ⇄ Firestore's messages. Pure.

Works on the raw protobuf messages: their wrappers cost several times as much, and a state is many values. Times are
kept to the microsecond, which is also Firestore's precision.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from store.database import Document, Path, Value
from store.errors import DataLossError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode(value: Value, message: Any) -> None:
    """Writes `value` into an empty Value message.

    TypeError for what Firestore does not hold, ValueError for an integer beyond 64 bits or a time without a zone.
    """
    if value is None:
        message.null_value = 0
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, bool):  # before int, of which it is a subclass
        message.boolean_value = value
    elif isinstance(value, int):
        message.integer_value = value
    elif isinstance(value, bytes):
        message.bytes_value = value
    elif isinstance(value, datetime):
        encode_time(value, message.timestamp_value)
    elif isinstance(value, list):
        encode_array(value, message.array_value)
    elif isinstance(value, dict):
        _encode_map(value, message.map_value)
    else:
        raise TypeError(f"A {type(value).__name__} cannot be stored as a field's value.")


def encode_array(values: list[Value], message: Any) -> None:
    """Writes `values` into an empty ArrayValue message."""
    message.SetInParent()  # an empty array is not the absence of one
    for value in values:
        encode(value, message.values.add())


def _encode_map(members: dict[str, Value], message: Any) -> None:
    message.SetInParent()
    for name, value in members.items():
        encode(value, message.fields[name])


def encode_time(value: datetime, message: Any) -> None:
    """Writes a time into a Timestamp message; it needs a time zone."""
    if value.tzinfo is None:
        raise ValueError("A stored time needs a time zone.")
    since = value - EPOCH
    message.SetInParent()  # the epoch itself has no fields set
    message.seconds = since.days * 86_400 + since.seconds
    message.nanos = since.microseconds * 1_000


def decode(message: Any) -> Value:
    """The value of a Value message; TypeError for the kinds that we never write."""
    kind = message.WhichOneof("value_type")
    if kind in ("string_value", "integer_value", "boolean_value", "bytes_value", "double_value"):
        return getattr(message, kind)
    if kind == "timestamp_value":
        return decode_time(message.timestamp_value)
    if kind == "null_value":
        return None
    if kind == "array_value":
        return [decode(value) for value in message.array_value.values]
    if kind == "map_value":
        return {name: decode(value) for name, value in message.map_value.fields.items()}
    raise TypeError(f"a value of the kind {kind} is not read here")


def decode_time(message: Any) -> datetime:
    """The time of a Timestamp message, in UTC."""
    return EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1_000)


def decode_document(path: Path, message: Any, mask: Iterable[str] | None = None) -> Document:
    """A Document message, with the masked fields only where a mask is given; DataLossError where it cannot be read."""
    fields = message.fields
    names = fields if mask is None else [name for name in mask if name in fields]
    try:
        decoded = {name: decode(fields[name]) for name in names}
    except TypeError as error:
        raise DataLossError(str(path), str(error)) from error
    return Document(path, decoded, decode_time(message.update_time))
