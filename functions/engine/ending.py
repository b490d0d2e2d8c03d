"""How a turn's end is told: the `turn-end` event, the error of a failed turn, and the events of a turn that is over."""

from collections.abc import Iterator
from typing import Any, Final

from functions.agents.base import AgentError
from functions.dialects.native import (
    REASONING_DELTA,
    TEXT_DELTA,
    TOOL_REQUEST,
    TOOL_RESPONSE,
    TURN_END,
    TURN_START,
)
from functions.engine.assembly import Event
from store.canonical import Json, dump
from store.errors import InvalidRequestError, StateTooLargeError
from store.models import Snapshot
from store.rules.history import messages_of

INTERNAL: Final = "INTERNAL"


def turn_end(snapshot: Snapshot, message: Json | None, tail: str | None = None) -> Event:
    """The last event of a turn, from its settled row; `message` is the newest message of the model in it. `tail` is the
    last message before the turn, which is the last one still where the turn has left the transcript as it was."""
    data: dict[str, Json] = {
        "sessionId": snapshot.session_id,
        "snapshotId": snapshot.snapshot_id,
        "status": snapshot.status.value,
        "finishReason": snapshot.finish_reason,
        "lastMessageId": snapshot.last_message_id or tail,
        "message": message if snapshot.state is not None else None,
        "usage": None if snapshot.usage is None else dict(snapshot.usage),
        "error": None if snapshot.error is None else dict(snapshot.error),
    }
    return Event(TURN_END, {name: value for name, value in data.items() if value is not None})


def error_of(failure: BaseException) -> dict[str, Any]:
    """What is stored and told of an agent's failure: its own words where it chose them, else nothing of the cause."""
    match failure:
        case AgentError():
            error: dict[str, Any] = {"status": failure.status, "message": failure.message}
            return _storable(error if failure.details is None else error | {"details": failure.details})
        case StateTooLargeError():
            return {"status": "RESOURCE_EXHAUSTED", "message": failure.message}
        case InvalidRequestError():
            return {"status": "INVALID_ARGUMENT", "message": f"The agent's answer cannot be stored. {failure.message}"}
        case _:
            return {"status": INTERNAL, "message": "The agent failed."}


def _storable(error: dict[str, Any]) -> dict[str, Any]:
    """The error, or what is told instead where it cannot be stored: the turn must end all the same."""
    try:
        dump(error)
    except InvalidRequestError as problem:
        return {"status": INTERNAL, "message": f"The agent failed. Its error cannot be stored: {problem.message}"}
    return error


def events_of(snapshot: Snapshot) -> Iterator[Event]:
    """The events of a settled turn whose own are no longer kept, made from its stored messages. `snapshot` carries its
    state."""
    messages = _messages_of_turn(snapshot)
    produced = [message for message in messages if message["id"] != snapshot.message_id]
    model = [message for message in produced if message["role"] == "model"]
    start: dict[str, Json] = {"sessionId": snapshot.session_id, "snapshotId": snapshot.snapshot_id}
    if snapshot.parent_id is not None:
        start["parentId"] = snapshot.parent_id
    if snapshot.message_id is not None:
        start["userMessageId"] = snapshot.message_id
    if model:
        start["messageId"] = model[0]["id"]
    yield Event(TURN_START, start)
    for message in produced:
        yield from _events_of_message(message)
    yield turn_end(snapshot, model[-1] if model else None)


def last_model_message(snapshot: Snapshot) -> Json | None:
    """The newest message of the model in a settled turn."""
    model = [message for message in _messages_of_turn(snapshot) if message["role"] == "model"]
    return model[-1] if model else None


def _messages_of_turn(snapshot: Snapshot) -> list[Json]:
    """The messages from the turn's own user message on; of a turn without one, those behind the newest user's."""
    newest: list[Json] = []
    for raw in reversed(messages_of(snapshot.state)):
        message = raw.value()
        newest.append(message)
        if message.get("role") == "user" and snapshot.message_id in (None, message.get("id")):
            break
    newest.reverse()
    return newest


def _events_of_message(message: Json) -> Iterator[Event]:
    for part in message["content"]:
        if isinstance(part.get("text"), str):
            yield Event(TEXT_DELTA, {"messageId": message["id"], "text": part["text"]})
        elif isinstance(part.get("reasoning"), str):
            yield Event(REASONING_DELTA, {"messageId": message["id"], "text": part["reasoning"]})
        elif isinstance(part.get("toolRequest"), dict):
            yield Event(TOOL_REQUEST, {"messageId": message["id"], **part["toolRequest"]})
        elif isinstance(part.get("toolResponse"), dict):
            yield Event(TOOL_RESPONSE, {"messageId": message["id"], **part["toolResponse"]})
