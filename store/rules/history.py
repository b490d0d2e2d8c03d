"""What a transcript says: its last message, its messages by id, and what an agent is shown of it."""

from collections.abc import Sequence
from typing import Any

from store.canonical import Json
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
    return any(message.key == message_id for message in messages_of(state))


def is_compaction(message: dict[str, Any]) -> bool:
    """Whether the message is a checkpoint that stands for everything before it."""
    metadata = message.get("metadata")
    return isinstance(metadata, dict) and metadata.get("isCompaction") is True


def visible_history(state: State | None) -> list[Json]:
    """What an agent is shown: freshly parsed messages from the newest compaction on, or all."""
    shown: list[Json] = []
    for raw in reversed(messages_of(state)):
        message = raw.value()
        shown.append(message)
        if isinstance(message, dict) and is_compaction(message):
            break
    shown.reverse()
    return shown


def open_requests(messages: Sequence[Json]) -> list[Json]:
    """The tool requests of the newest model message that no later message answers, as `{name, ref, input}`."""
    answered: set[Json] = set()
    for message in reversed(messages):
        parts = [part for part in message.get("content", []) if isinstance(part, dict)]
        answered |= {part["toolResponse"].get("ref") for part in parts if isinstance(part.get("toolResponse"), dict)}
        if message.get("role") == "model":
            requests = [part["toolRequest"] for part in parts if isinstance(part.get("toolRequest"), dict)]
            return [request for request in requests if request.get("ref") not in answered]
    return []


def interrupted_responses(requests: Sequence[Json]) -> list[Json]:
    """The parts of a tool message that closes requests which will never have a result."""
    output = {"interrupted": True, "message": "The turn ended before this call had a result."}
    return [
        {
            "toolResponse": {"name": request["name"], "ref": request["ref"], "output": output},
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
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else []
    return " ".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
