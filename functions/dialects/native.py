"""The native dialect: a turn's events as server-sent events. Owns the events' names and the frame's form."""

import json
from typing import Final

from store.canonical import Json

TURN_START: Final = "turn-start"
TEXT_DELTA: Final = "text-delta"
REASONING_DELTA: Final = "reasoning-delta"
TOOL_REQUEST: Final = "tool-request"
TOOL_RESPONSE: Final = "tool-response"
STATE_PATCH: Final = "state-patch"
ARTIFACT: Final = "artifact"
TURN_END: Final = "turn-end"
ERROR: Final = "error"

EVENTS: Final = (
    TURN_START,
    TEXT_DELTA,
    REASONING_DELTA,
    TOOL_REQUEST,
    TOOL_RESPONSE,
    STATE_PATCH,
    ARTIFACT,
    TURN_END,
    ERROR,
)
"""Every event of a stream, in the order of the documentation."""

MEDIA_TYPE: Final = "text/event-stream"
COMMENT: Final = b": keep-alive\n\n"


def frame(event_id: int, event: str, data: Json) -> bytes:
    """One event. `data` is one ASCII line: escaped, so that U+2028, U+0085 or a lone carriage return in a text cannot
    be taken for a line's end by any reader. ValueError for NaN and infinities."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return f"id: {event_id}\nevent: {event}\ndata: {text}\n\n".encode("ascii")
