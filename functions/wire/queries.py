"""Query strings: the models of those we take, and their parser. A name that is unknown or comes twice is refused."""

import re
from typing import Annotated, Any, Final, Self, TypeVar
from urllib.parse import parse_qsl

from pydantic import BeforeValidator, Field, model_validator

from functions.settings import LONGEST_WAIT
from functions.wire.validation import SessionId, SnapshotId, WireModel, problem, require_model, require_printable, shown
from store.errors import InvalidRequestError

MAX_FIELDS: Final = 32
MAX_CURSOR_CHARACTERS: Final = 4096

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_BOOLEANS: Final = {"true": True, "false": False}


def _integer(text: Any) -> Any:
    return int(text) if isinstance(text, str) and _INTEGER.fullmatch(text) else text


def _number(text: Any) -> Any:
    return float(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else text


def _boolean(text: Any) -> Any:
    return _BOOLEANS.get(text, text) if isinstance(text, str) else text


def _cursor(text: Any) -> Any:
    return require_printable(text, MAX_CURSOR_CHARACTERS) if isinstance(text, str) else text


Integer = Annotated[int, BeforeValidator(_integer)]
Number = Annotated[float, BeforeValidator(_number)]
Boolean = Annotated[bool, BeforeValidator(_boolean)]
Cursor = Annotated[str, BeforeValidator(_cursor)]


class SnapshotQuery(WireModel):
    """Which snapshot, how much of it, and how long to wait for its end."""

    snapshot_id: SnapshotId | None = Field(None, description="This snapshot; instead of `sessionId`.")
    session_id: SessionId | None = Field(None, description="The session's latest snapshot; instead of `snapshotId`.")
    metadata_only: Boolean = Field(False, description="Leave `state` out.")
    wait: Number = Field(0.0, ge=0, le=LONGEST_WAIT, description="Seconds to hold the answer until the turn has ended.")

    @model_validator(mode="after")
    def _one_selector(self) -> Self:
        return require_one(self, self.snapshot_id, self.session_id)


MAX_EVENT_ID: Final = 10**12


class ReattachQuery(WireModel):
    """Where a stream goes on."""

    after: Integer | None = Field(
        None, ge=0, le=MAX_EVENT_ID, description="The last event that was seen; instead of `Last-Event-ID`."
    )


def last_event_id(header: str | None) -> int:
    """The event number in a `Last-Event-ID` header, 0 for none. InvalidRequestError for what is no number."""
    if header is None or header == "":
        return 0
    if not header.isascii() or not header.isdigit() or int(header[:15]) > MAX_EVENT_ID:
        raise InvalidRequestError("Last-Event-ID must be the id of an event.")
    return int(header)


class MessagesQuery(WireModel):
    """One page of a transcript."""

    limit: Integer = Field(100, ge=1, le=1000, description="Messages on a page.")
    cursor: Cursor | None = Field(None, description="`nextCursor` of the page before.")


class SessionsQuery(WireModel):
    """One page of the caller's sessions."""

    limit: Integer = Field(20, ge=1, le=100, description="Sessions on a page.")
    cursor: Cursor | None = Field(None, description="`nextCursor` of the page before.")


class SnapshotsQuery(WireModel):
    """One page of a session's tree."""

    limit: Integer = Field(100, ge=1, le=1000, description="Snapshots on a page.")
    cursor: Cursor | None = Field(None, description="`nextCursor` of the page before.")


_Query = TypeVar("_Query", bound=WireModel)
_Any = TypeVar("_Any")


def parse_query(model: type[_Query], query: bytes) -> _Query:
    """The raw query string (as in the ASGI scope, still percent-encoded) as a `model`, or InvalidRequestError."""
    return require_model(model, _fields(query))


def require_one(selected: _Any, snapshot_id: str | None, session_id: str | None) -> _Any:
    """For a validator: `selected` if exactly one of its two selectors is given."""
    if (snapshot_id is None) == (session_id is None):
        raise problem("must name either snapshotId or sessionId")
    return selected


def _fields(query: bytes) -> dict[str, str]:
    try:
        # Strict, unlike the web framework's own parser, which would replace what is not UTF-8 by U+FFFD.
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=MAX_FIELDS
        )
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The query is not UTF-8.") from error
    except ValueError as error:
        raise InvalidRequestError(f"The query may have at most {MAX_FIELDS} values.") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequestError(f"{shown(twice)} may be given only once.")
    return fields
