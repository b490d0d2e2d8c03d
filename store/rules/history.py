"""What a transcript says: its last message, its messages by id, and what an agent is shown of it."""

from collections.abc import Sequence

from store.canonical import Json
from store.errors import TooManyMessagesError
from store.state import Raw, State


def last_message_id(state: State | None) -> str | None:
    """The id of the newest message; None for an empty transcript."""
    messages = messages_of(state)
    return messages[-1].key if messages else None


def messages_of(state: State | None) -> Sequence[Raw]:
    """The transcript's messages, oldest first."""
    return () if state is None or state.messages is None else state.messages


def has_message(state: State | None, message_id: str) -> bool:
    """Whether the transcript holds a message of that id."""
    return state is not None and state.messages is not None and state.messages.has(message_id)


def require_room(state: State | None, limit: int) -> None:
    """TooManyMessagesError where the transcript has `limit` messages or more already."""
    if len(messages_of(state)) >= limit:
        raise TooManyMessagesError(limit)


def is_compaction(message: Json) -> bool:
    """Whether the message is a checkpoint that stands for everything before it."""
    metadata = message.get("metadata") if isinstance(message, dict) else None
    return isinstance(metadata, dict) and metadata.get("isCompaction") is True


def since_compaction(messages: Sequence[Raw]) -> Sequence[Raw]:
    """The messages that an agent is shown: from the newest compaction on, or all."""
    for index in range(len(messages) - 1, -1, -1):
        # The text is searched first, so that a long transcript need not be parsed message by message.
        if b"isCompaction" in messages[index].text and is_compaction(messages[index].value()):
            return messages[index:]
    return messages


def visible_history(state: State | None) -> list[Json]:
    """What an agent is shown: freshly parsed messages from the newest compaction on, or all."""
    return [raw.value() for raw in since_compaction(messages_of(state))]


def open_requests(messages: Sequence[Raw]) -> list[Json]:
    """The tool requests that an agent would be shown without a response, in order, as `{name, ref, input}`.

    Not only the newest model message can have them: a turn may go on after a request that somebody else has to answer.
    """
    waiting: list[Json] = []
    for raw in since_compaction(messages):
        if b"toolRe" not in raw.text:
            continue
        message = raw.value()
        if role_of(message) == "model":
            waiting += calls_in(parts_of(message), "toolRequest")
        waiting = without_answered(waiting, parts_of(message))
    return waiting


def without_answered(requests: Sequence[Json], parts: Sequence[Json]) -> list[Json]:
    """The requests that the responses among `parts` leave open; each response answers one request."""
    waiting = list(requests)
    for response in calls_in(parts, "toolResponse"):
        answered = next((request for request in waiting if _name_of(request) == _name_of(response)), None)
        if answered is not None:
            waiting.remove(answered)
    return waiting


def _name_of(call: Json) -> tuple[str, Json]:
    """What pairs a response with its request: the ref, or the tool's name where an agent gives no refs."""
    ref = call.get("ref")
    return ("name", call.get("name")) if ref is None else ("ref", ref)


def calls_in(parts: Sequence[Json], kind: str) -> list[Json]:
    """The tool requests or tool responses among `parts`."""
    return [part[kind] for part in parts if isinstance(part, dict) and isinstance(part.get(kind), dict)]


def role_of(message: Json) -> Json:
    """The message's role; None for what has none, since a state that was saved may hold anything."""
    return message.get("role") if isinstance(message, dict) else None


def parts_of(message: Json) -> list[Json]:
    """The message's parts; none for what has none."""
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, list) else []


def interrupted_responses(requests: Sequence[Json]) -> list[Json]:
    """The parts of a tool message that closes requests which will never have a result."""
    output = {"interrupted": True, "message": "The turn ended before this call had a result."}
    return [
        {
            "toolResponse": {name: request[name] for name in ("name", "ref") if name in request} | {"output": output},
            "metadata": {"interrupted": True},
        }
        for request in requests
    ]


_PREVIEW_CHARACTERS = 100


def preview_of(message: Raw | None) -> str | None:
    """The beginning of a message's text; None where it has none."""
    text = "" if message is None else text_of(message.value())
    return " ".join(text[: 4 * _PREVIEW_CHARACTERS].split())[:_PREVIEW_CHARACTERS] or None


def text_of(message: Json) -> str:
    """The text parts of a message, joined by spaces."""
    parts = [part for part in parts_of(message) if isinstance(part, dict)]
    return " ".join(part["text"] for part in parts if isinstance(part.get("text"), str))
