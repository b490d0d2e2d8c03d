"""Genkit's agent protocol: our records and events as its clients read them. Pure.

Its clients are strict: one space behind `data:`, LF, one line of JSON, no comments, and always a result or an error at
the end; Python's refuse members that they do not know. They decode the bytes chunk by chunk, so JSON is ASCII.
Messages have no ids there: ours travel in `metadata.id`.
"""

import json
from typing import Any, Final

from functions.dialects.native import ARTIFACT, REASONING_DELTA, STATE_PATCH, TEXT_DELTA, TOOL_REQUEST, TOOL_RESPONSE
from functions.errors import (
    INTERNAL_MESSAGE,
    HeadersTooLargeError,
    MethodNotAllowedError,
    PayloadTooLargeError,
    PermissionDeniedError,
    RateLimitedError,
    UnauthenticatedError,
    UnsupportedMediaTypeError,
)
from store.canonical import Json
from store.errors import (
    ConflictError,
    DataLossError,
    DeadlineExceededError,
    DetachUnsupportedError,
    InvalidRequestError,
    MessageIdConflictError,
    NotFoundError,
    NotResumableError,
    StateTooLargeError,
    StoreError,
    UnavailableError,
)
from store.models import Snapshot
from store.rules.history import messages_of
from store.state import Raw, State

_MESSAGE_DEPTH = 3
_STATE_MEMBERS: Final = ("custom", "artifacts")


class PreconditionError(StoreError):
    """The request does not fit the way in which this agent keeps its state."""

    code = "failed_precondition"


STATUSES: Final[tuple[tuple[type[StoreError], str], ...]] = (
    (PreconditionError, "FAILED_PRECONDITION"),
    (NotResumableError, "FAILED_PRECONDITION"),
    (InvalidRequestError, "INVALID_ARGUMENT"),
    (MethodNotAllowedError, "INVALID_ARGUMENT"),
    (UnsupportedMediaTypeError, "INVALID_ARGUMENT"),
    (UnauthenticatedError, "UNAUTHENTICATED"),
    (PermissionDeniedError, "PERMISSION_DENIED"),
    (NotFoundError, "NOT_FOUND"),
    (ConflictError, "ABORTED"),
    (MessageIdConflictError, "ALREADY_EXISTS"),
    (HeadersTooLargeError, "RESOURCE_EXHAUSTED"),
    (PayloadTooLargeError, "RESOURCE_EXHAUSTED"),
    (StateTooLargeError, "RESOURCE_EXHAUSTED"),
    (RateLimitedError, "RESOURCE_EXHAUSTED"),
    (DetachUnsupportedError, "UNIMPLEMENTED"),
    (DataLossError, "DATA_LOSS"),
    (UnavailableError, "UNAVAILABLE"),
    (DeadlineExceededError, "DEADLINE_EXCEEDED"),
)
HTTP: Final = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The HTTP status of a canonical one; 500 for the rest."""


def error_out(error: Exception) -> dict[str, Json]:
    """`{status, message, details?}`; of what is no error of ours, nothing is told."""
    if not isinstance(error, StoreError):
        return {"status": "INTERNAL", "message": INTERNAL_MESSAGE}
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), "INTERNAL")
    message = error.message.encode("utf-8", "backslashreplace").decode()
    return {"status": status, "message": message} | ({"details": error.details} if error.details else {})


def status_of_code(code: Json) -> str:
    """The canonical status of an error that is known by its code only."""
    return next((status for kind, status in STATUSES if code in _codes(kind)), "INTERNAL")


def _codes(kind: type[StoreError]) -> set[str]:
    return {kind.code}.union(*(_codes(child) for child in kind.__subclasses__()))


def frame(data: Json) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode() + b"\n\n"


class Chunks:
    """The chunks of one turn; each message of it has an index."""

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}

    def of(self, name: str, data: Json) -> Json | None:
        """The chunk of one event; None where this protocol has none for it."""
        if name == TEXT_DELTA:
            return self._model("model", data, {"text": data["text"]})
        if name == REASONING_DELTA:
            return self._model("model", data, {"reasoning": data["text"]})
        if name == TOOL_REQUEST:
            return self._model("model", data, {"toolRequest": _call(data, "input")})
        if name == TOOL_RESPONSE:
            return self._model("tool", data, {"toolResponse": _call(data, "output")})
        if name == STATE_PATCH:
            return {"customPatch": data}
        return {"artifact": data} if name == ARTIFACT else None

    def _model(self, role: str, data: Json, part: dict[str, Json]) -> Json:
        index = self._indexes.setdefault(data["messageId"], len(self._indexes))
        return {"modelChunk": {"role": role, "index": index, "content": [part]}}


def _call(data: Json, member: str) -> dict[str, Json]:
    return {"name": data["name"], "ref": data["ref"], member: data[member]}


def message_out(message: Json) -> Json:
    """A message of ours, its id in its metadata."""
    if not isinstance(message, dict) or "id" not in message:
        return message
    rest = {name: value for name, value in message.items() if name != "id"}
    metadata = rest.get("metadata")
    return rest | {"metadata": {**(metadata if isinstance(metadata, dict) else {}), "id": message["id"]}}


def message_in(message: Json) -> Json:
    """A message of Genkit's as one of ours; without an id where its metadata holds none."""
    metadata = message.get("metadata") if isinstance(message, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("id"), str):
        return message
    rest = {name: value for name, value in message.items() if name != "metadata"}
    others = {name: value for name, value in metadata.items() if name != "id"}
    return {"id": metadata["id"], **rest} | ({"metadata": others} if others else {})


def state_in(state: dict[str, Json]) -> State:
    """The state that a client keeps itself. InvalidRequestError where JSON cannot hold it, or it is no state."""
    for name, kind in (("messages", list), ("artifacts", list), ("sessionId", str)):
        if name in state and not isinstance(state[name], kind):
            raise InvalidRequestError(f"init.state.{name} is not a {'text' if kind is str else 'list'}.")
    if not all(isinstance(message, dict) for message in state.get("messages", [])):
        raise InvalidRequestError("init.state.messages holds something that is no message.")
    kept = State.of({name: value for name, value in state.items() if name in _STATE_MEMBERS})
    return kept.with_messages(Raw.of(message_in(message), _MESSAGE_DEPTH) for message in state.get("messages", []))


def state_out(state: State, session_id: str) -> dict[str, Json]:
    """A state with the members that Genkit knows."""
    known: dict[str, Json] = {"sessionId": session_id}
    known["messages"] = [message_out(raw.value()) for raw in messages_of(state)]
    return known | {name: state.get(name) for name in _STATE_MEMBERS if name in state.order}


def snapshot_out(snapshot: Snapshot) -> dict[str, Json]:
    """A snapshot; its state where it is settled and has one."""
    has_state = snapshot.state is not None and snapshot.status.is_terminal
    fields: dict[str, Any] = {
        "snapshotId": snapshot.snapshot_id,
        "sessionId": snapshot.session_id,
        "parentId": snapshot.parent_id,
        "createdAt": _time(snapshot.created_at),
        "updatedAt": _time(snapshot.updated_at),
        "heartbeatAt": _time(snapshot.heartbeat_at),
        "status": snapshot.status.value,
        "finishReason": snapshot.finish_reason,
        "error": None if snapshot.error is None else dict(snapshot.error),
        "state": state_out(snapshot.state, snapshot.session_id) if has_state and snapshot.state is not None else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _time(time: Any) -> str | None:
    return None if time is None else time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def output(session_id: str, settled: Snapshot, message: Json | None, *, keeps_state: bool, before: State) -> Json:
    """How a turn ended. A failed one names the last good snapshot, from which the next turn goes on, or gives the state
    `before` it back."""
    is_failed = settled.state is None and settled.error is not None
    state = before if settled.state is None else settled.state
    fields: dict[str, Json] = {
        "sessionId": session_id,
        "snapshotId": (settled.parent_id if is_failed else settled.snapshot_id) if keeps_state else None,
        "state": None if keeps_state else state_out(state, session_id),
        "message": None if is_failed or message is None else message_out(message),
        "artifacts": None if is_failed else state.get("artifacts"),
        "finishReason": settled.finish_reason,
        "error": None if settled.error is None else dict(settled.error),
    }
    return {name: value for name, value in fields.items() if value is not None}
