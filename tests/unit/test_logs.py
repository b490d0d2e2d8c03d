"""Log lines say what a request is about, in the names that Cloud Logging knows, and never what a message says."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from functions.agents.echo import EchoAgent
from functions.engine.engine import Engine
from functions.engine.limits import EngineLimits
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from functions.logs import JsonFormatter, about, begin, trace_of
from store.errors import UnavailableError
from store.memory.store import MemoryStore
from store.models import Beat, Lease, NewSession, Scope

ROOT = Path(__file__).resolve().parents[2]
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


class Lines(logging.Handler):
    """What a logger has written, formatted where it was written."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(JsonFormatter(None))
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(self.format(record))

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.written]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Of our logger, however it is configured by then."""
    lines, logger = Lines(), logging.getLogger("firesession")
    former = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.DEBUG)
    yield lines
    logger.setLevel(former)
    logger.removeHandler(lines)


@pytest.mark.parametrize("command", ["", "/fail ", "/crash ", "/tool lookup "])
async def test_no_log_of_a_turn_repeats_its_messages(command: str, lines: Lines) -> None:
    """Whatever happens in a turn, what was said stays out of the logs; a crash logs where it happened."""
    text = f'{command}"{SECRET}"' if command.startswith("/tool") else f"{command}{SECRET}"
    engine = Engine(MemoryStore(), EchoAgent(), EngineLimits(15, 1, 10, 10))
    message = {"id": "m1", "role": "user", "content": [{"text": text}]}
    turn = await engine.start(TurnRequest(Scope("t", "u"), message, new_session=NewSession("echo")))
    assert isinstance(turn, RunningTurn)
    events = [numbered async for numbered in turn.broadcast.read()]
    await engine.close()
    assert events[-1].event.name == "turn-end"
    assert [line for line in lines.written if SECRET in line] == []
    has_failed = command.startswith(("/crash", "/fail"))
    told = [(line.get("code"), "stack_trace" in line, line["snapshot"]) for line in lines.entries()]
    assert told == [("INTERNAL", True, turn.lease.snapshot_id)] * has_failed + [(None, False, turn.lease.snapshot_id)]


class Unavailable(MemoryStore):
    """Neither beats nor watches."""

    async def heartbeat(self, leases: Sequence[Lease]) -> Sequence[Beat]:
        raise UnavailableError("not now")

    def watch_aborts(self, runner: str) -> AbstractAsyncContextManager[AsyncIterator[list[str]]]:
        raise UnavailableError("not now")


async def test_what_an_instance_does_for_all_turns_is_about_none(lines: Lines) -> None:
    """The heart and the listener are started by the first turn, and go on when that is over."""
    limits = EngineLimits(heartbeat_interval=0.001, abort_grace=1, turns_per_instance=10, turns_per_user=10)
    engine = Engine(Unavailable(), EchoAgent(), limits)
    begin({"traceparent": f"00-{TRACE}-0123456789abcdef-01"})
    message = {"id": "m1", "role": "user", "content": [{"text": "/sleep 5"}]}
    turn = await engine.start(TurnRequest(Scope("t", "u"), message, new_session=NewSession("echo")))
    assert isinstance(turn, RunningTurn)
    async with asyncio.timeout(10):
        awaited = {"firesession.heart", "firesession.listener"}
        while not awaited <= {line["logger"] for line in lines.entries()}:  # noqa: ASYNC110 - a logger tells no event
            await asyncio.sleep(0)
    turn.request_stop()
    await engine.close()
    names = ("session", "snapshot", "logging.googleapis.com/trace")
    found = {line["logger"]: [name for name in names if name in line] for line in lines.entries()}
    assert found["firesession.heart"] == found["firesession.listener"] == []
    assert found["firesession.engine"] == list(names)  # the turn's own end


def test_a_request_is_not_taken_for_the_one_before_it() -> None:
    begin({"traceparent": f"00-{TRACE}-0123456789abcdef-01"})
    about(session="s1", snapshot="r1")
    begin({})
    assert set(formatted(record("next"))) == {"severity", "time", "logger", "message"}


LIBRARIES = f"""
import asyncio, gc, logging
from functions.logs import configure_logging
from functions.settings import read_settings

logging.getLogger("uvicorn.error").addHandler(logging.StreamHandler())
logging.getLogger("uvicorn.error").propagate = False
configure_logging(read_settings({{"LOG_FORMAT": "json"}}))
logging.getLogger("store.firestore.listen").warning("the stream broke")

async def fail():
    raise RuntimeError("{SECRET}")

async def forget():
    asyncio.create_task(fail())
    await asyncio.sleep(0)

asyncio.run(forget())
gc.collect()
try:
    asyncio.run(fail())
except RuntimeError:
    logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
logging.getLogger("firesession.turns").info("ours")
"""


def test_libraries_are_logged_in_the_same_form_and_without_their_exceptions_words() -> None:
    """Of an exception that nobody took care of, asyncio would show the words even in its message."""
    command = [sys.executable, "-c", LIBRARIES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    entries = {line["logger"]: line for line in map(json.loads, done.stderr.splitlines())}
    assert set(entries) == {"store.firestore.listen", "asyncio", "uvicorn.error", "firesession.turns"}
    assert SECRET not in done.stderr
    assert entries["asyncio"]["message"] == "Task exception was never retrieved"
    assert entries["uvicorn.error"]["stack_trace"].endswith("RuntimeError")
    assert entries["store.firestore.listen"]["severity"] == "WARNING"
