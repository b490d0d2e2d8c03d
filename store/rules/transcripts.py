"""Where a transcript may be cut, and how a copy of it gets ids of its own. Pure.

A cut never comes between a tool request and its response: tool messages count as part of the model message before them.
"""

from collections.abc import Callable, Mapping, Sequence

from store.canonical import Json
from store.errors import MessageNotFoundError
from store.rules.history import interrupted_responses, messages_of, open_requests, parts_of, role_of
from store.state import Raw, State

_MESSAGE_DEPTH = 3


def kept_count(messages: Sequence[Raw], message_id: str) -> int:
    """How many messages stay when the transcript is rewound to `message_id`: a user message goes with all after it, a
    model message stays with its tool messages. MessageNotFoundError."""
    for index, raw in enumerate(messages):
        if raw.key == message_id:
            return index if role_of(raw.value()) == "user" else _end_of_group(messages, index)
    raise MessageNotFoundError(message_id)


def _end_of_group(messages: Sequence[Raw], index: int) -> int:
    end = index + 1
    while end < len(messages) and role_of(messages[end].value()) == "tool":
        end += 1
    return end


def with_calls_closed(messages: Sequence[Raw], mint: Callable[[], str]) -> list[Raw]:
    """The messages, with what closes the tool requests that still wait for a response."""
    closing = interrupted_responses(open_requests(messages))
    if not closing:
        return list(messages)
    return [*messages, Raw.of({"id": mint(), "role": "tool", "content": closing}, _MESSAGE_DEPTH)]


def rewound(state: State, message_id: str) -> State:
    """The state with its transcript rewound to `message_id`; the very same state where nothing goes."""
    messages = messages_of(state)
    kept = kept_count(messages, message_id)
    return state if kept == len(messages) else state.with_messages(messages[:kept])


def branched(state: State, message_id: str, mint: Callable[[], str]) -> State:
    """A copy of the state up to `message_id`, every message under a new id; metadata that names a message follows."""
    kept = messages_of(state)[: kept_count(messages_of(state), message_id)]
    closed = with_calls_closed(kept, mint)
    names = {raw.key: mint() for raw in closed if raw.key is not None}
    return state.with_messages(_renamed(raw, names) for raw in closed)


def _renamed(raw: Raw, names: Mapping[str, str]) -> Raw:
    """The message under its new id, with the ids in its metadata and its parts' metadata replaced."""
    copy = raw.value()
    if not isinstance(copy, dict):
        return raw
    if raw.key is not None:
        copy["id"] = names[raw.key]
    if "metadata" in copy:
        copy["metadata"] = _remapped(copy["metadata"], names)
    for part in parts_of(copy):
        if isinstance(part, dict) and "metadata" in part:
            part["metadata"] = _remapped(part["metadata"], names)
    return Raw.of(copy, _MESSAGE_DEPTH)


def _remapped(value: Json, names: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_remapped(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _remapped(item, names) for key, item in value.items()}
    return value
