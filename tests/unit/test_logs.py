"""Log lines say what a request is about, in the names that Cloud Logging knows, and never what a message says."""

import json
import logging
from typing import Any

import pytest

from functions.agents.echo import EchoAgent
from functions.engine.engine import Engine
from functions.engine.limits import EngineLimits
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from functions.logs import JsonFormatter, about, trace_of
from store.memory.store import MemoryStore
from store.models import NewSession, Scope

TRACE = "0123456789abcdef0123456789abcdef"
SECRET = "a-secret-that-nobody-may-read-in-a-log"


def formatted(record: logging.LogRecord) -> dict[str, Any]:
    """The line as a log reader parses it."""
    line: dict[str, Any] = json.loads(JsonFormatter("my-project").format(record))
    return line


def record(message: str, level: int = logging.WARNING) -> logging.LogRecord:
    """A record as the logger makes it."""
    return logging.LogRecord("firesession.turns", level, __file__, 1, message, None, None)


async def test_a_line_carries_severity_and_what_its_task_is_about() -> None:
    about(trace=TRACE, session="s1", snapshot="r1")
    about(session=None)
    line = formatted(record("the turn was not settled"))
    assert line["severity"] == "WARNING"
    assert line["message"] == "the turn was not settled"
    assert (line["session"], line["snapshot"]) == ("s1", "r1")
    assert line["logging.googleapis.com/trace"] == f"projects/my-project/traces/{TRACE}"


async def test_a_line_about_nothing_names_nothing() -> None:
    line = formatted(record("started", logging.INFO))
    assert set(line) == {"severity", "time", "logger", "message"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"traceparent": f"00-{TRACE}-0123456789abcdef-01"}, TRACE),
        ({"x-cloud-trace-context": f"{TRACE}/123;o=1"}, TRACE),
        ({"traceparent": "nonsense"}, None),
        ({}, None),
    ],
)
def test_the_trace_is_read_from_either_header(headers: dict[str, str], expected: str | None) -> None:
    assert trace_of(headers) == expected


@pytest.mark.parametrize("command", ["", "/fail ", "/crash ", "/tool lookup "])
async def test_no_log_of_a_turn_repeats_its_messages(command: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever happens in a turn, what was said stays out of the logs; a crash logs where it happened."""
    text = f'{command}"{SECRET}"' if command.startswith("/tool") else f"{command}{SECRET}"
    engine = Engine(MemoryStore(), EchoAgent(), EngineLimits(15, 1, 10, 10))
    message = {"id": "m1", "role": "user", "content": [{"text": text}]}
    with caplog.at_level(logging.DEBUG, "firesession"):
        turn = await engine.start(TurnRequest(Scope("t", "u"), message, new_session=NewSession("echo")))
        assert isinstance(turn, RunningTurn)
        events = [numbered async for numbered in turn.broadcast.read()]
    await engine.close()
    assert events[-1].event.name == "turn-end"
    lines = [JsonFormatter(None).format(record) for record in caplog.records]
    assert [line for line in lines if SECRET in line] == []
    assert any("stack_trace" in line for line in lines) == command.startswith(("/crash", "/fail"))
