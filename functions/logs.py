"""Log lines: plain text on a terminal, JSON that Cloud Logging understands where deployed. Never a message's text.

What a request is about (trace, session, snapshot) comes from a context variable, so that no module has to pass it; the
code of an error goes along as `extra=coded(error)`.
"""

import json
import logging
import re
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from functions.settings import Settings
from store.errors import StoreError

FIELDS: Final = ("session", "snapshot")
SERVERS: Final = ("uvicorn.error", "gunicorn.error")  # loggers with handlers of their own
_about: ContextVar[dict[str, str] | None] = ContextVar("firesession_about", default=None)
_TRACE: Final = re.compile(r"([0-9a-f]{32})/\d+", re.ASCII)
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def begin(headers: Any) -> None:
    """The current task serves a new request: what was known of another one is forgotten."""
    trace = trace_of(headers)
    _about.set({} if trace is None else {"trace": trace})


def about(**fields: str | None) -> None:
    """Says what the current task is about, on top of what is known; None leaves a field as it is."""
    known = {name: value for name, value in fields.items() if value is not None}
    _about.set({**(_about.get() or {}), **known})


def coded(error: StoreError) -> dict[str, str]:
    """The `extra` of a log call that tells of an error."""
    return {"code": error.code}


def trace_of(headers: Any) -> str | None:
    """The trace that a request belongs to, from `traceparent` or Google's own header."""
    for header, pattern in (("traceparent", _TRACEPARENT), ("x-cloud-trace-context", _TRACE)):
        found = pattern.match(headers.get(header, ""))
        if found:
            return found.group(1)
    return None


def configure_logging(settings: Settings) -> None:
    """Sets the `firesession` logger up, once per process; on a terminal other libraries' loggers are left alone."""
    logger = logging.getLogger("firesession")
    if logger.handlers:
        return
    _enable_all()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(settings.project) if settings.log_format == "json" else TextFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if settings.log_format == "json":
        _configure_others(handler)


def _enable_all() -> None:
    """Where LOG_EXECUTION_ID is set, as the platform does for functions, the framework silences every logger that there
    was before it configured its own."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.disabled = False


def _configure_others(handler: logging.Handler) -> None:
    """Gives the lines of the store, of libraries and of the server the same form: a collector takes every line of the
    process for an entry of its own, and an exception that a library logs may quote what a user said."""
    if not logging.root.handlers:
        logging.root.addHandler(handler)
    for name in (None, *SERVERS):
        for found in logging.getLogger(name).handlers:
            found.setFormatter(handler.formatter)


def _message_of(record: logging.LogRecord) -> str:
    """Of asyncio's the first line alone: the others show the objects that are concerned, an exception with its words
    among them."""
    message = record.getMessage()
    return message.partition("\n")[0] if record.name == "asyncio" else message


class _Formatter(logging.Formatter):
    """Tells of an exception where it came from and of which type it is, not its own words: an agent's or a library's
    may quote what a user said."""

    def formatException(self, ei: Any) -> str:
        kind, _, place = ei
        return "".join(traceback.format_tb(place)) + (kind.__qualname__ if kind else "")


class TextFormatter(_Formatter):
    """One line for people."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        line = f"{time} {record.levelname.lower()} {record.name}: {_message_of(record)}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(_Formatter):
    """One JSON object a line, with the names that Cloud Logging gives a meaning to."""

    def __init__(self, project: str | None) -> None:
        super().__init__()
        self._project = project

    def format(self, record: logging.LogRecord) -> str:
        known = _about.get() or {}
        line: dict[str, Any] = {
            "severity": record.levelname,
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "logger": record.name,
            "message": _message_of(record),
            **{name: known[name] for name in FIELDS if name in known},
        }
        code = getattr(record, "code", None)
        if code is not None:
            line["code"] = code
        if "trace" in known:
            project = f"projects/{self._project}/traces/" if self._project else ""
            line["logging.googleapis.com/trace"] = project + known["trace"]
        if record.exc_info:
            # The heading is what error reporting knows a trace of Python by.
            line["stack_trace"] = f"Traceback (most recent call last):\n{self.formatException(record.exc_info)}"
        return json.dumps(line, ensure_ascii=True)
