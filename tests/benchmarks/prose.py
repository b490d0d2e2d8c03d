"""Text to fill conversations with. Holds no test.

The recorded sessions repeat themselves: each begins with the same instructions, and many ask for the same flights. So
there is a second text, the language reference that comes with every Python, which does not.
"""

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from pydoc_data.topics import topics

import pytest

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "airline_sessions.jsonl"


def recorded_prose() -> str:
    """Everything that was said in the recorded sessions, in order; the test is skipped where they are absent."""
    if not RECORDINGS.exists():
        pytest.skip("the recorded sessions are not here: ../shared/data/airline_sessions.jsonl")
    with RECORDINGS.open(encoding="utf-8") as lines:
        sessions = [json.loads(line) for line in lines]
    parts = [part for session in sessions for message in session["messages"] for part in message["content"]]
    return "\n".join(text for part in parts if (text := _said(part)))


def _said(part: dict[str, object]) -> str:
    response = part.get("toolResponse")
    return str(response["output"]) if isinstance(response, dict) else str(part.get("text", ""))


def reference_prose() -> str:
    """The topics of Python's own help."""
    return "\n".join(topics[name] for name in sorted(topics))


def cut_in_order(text: str, size: int, count: int) -> Iterator[str]:
    """`count` pieces of `size` characters; the text begins anew where it ends."""
    return islice(cycle(text[start : start + size] for start in range(0, len(text) - size + 1, size)), count)
