"""Routing and the error table: from a request to a handler, from an error to an answer."""

import logging
import time
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from functions.cors import cors_headers, is_preflight, preflight_headers
from functions.dialects import genkit
from functions.errors import (
    MethodNotAllowedError,
    RouteNotFoundError,
    error_body,
    error_headers,
    status_of,
)
from functions.handlers.abort import abort
from functions.handlers.chat import chat, reattach
from functions.handlers.context import Context, Handler
from functions.handlers.genkit import abort_agent, get_agent_snapshot, run_agent, wait_for_agent_snapshot
from functions.handlers.retention import erase, get_retention, put_retention, sweep
from functions.handlers.sessions import create_session, get_session, list_messages, list_sessions
from functions.handlers.snapshot import snapshot
from functions.handlers.status import health, openapi, ready
from functions.handlers.transcripts import (
    branch_session,
    compact_session,
    delete_session,
    list_snapshots,
    restore_session,
    truncate_session,
    update_session,
)
from functions.handlers.turn import turn
from functions.identity.access import Access, admit
from functions.logs import about, begin, coded
from functions.replies import COSTS_HEADER, TIMING_HEADER, JsonReply
from functions.security import harden
from functions.settings import Settings
from functions.wire.headers import require_small_headers
from functions.wiring import application, made_application
from store.errors import InvalidRequestError, StoreError
from store.firestore.calls import counting

_LOG = logging.getLogger("firesession.app")
GENKIT_PATHS: Final = "/agents/"


class Route(NamedTuple):
    """One method of one path, and the function that serves it when the functions are deployed apart."""

    function: str
    method: str
    path: str
    handler: Handler
    access: Access = Access.CALLER  # so that a route which forgets to say it is closed


ROUTES: Final = (
    Route("chat", "POST", "/chat", chat),
    Route("chat", "GET", "/chat/{snapshotId}", reattach),
    Route("chat", "POST", "/agents/{agent}", run_agent),
    Route("chat", "POST", "/agents/{agent}/getSnapshot", get_agent_snapshot),
    Route("chat", "POST", "/agents/{agent}/abort", abort_agent),
    Route("chat", "POST", "/agents/{agent}/waitForSnapshot", wait_for_agent_snapshot),
    Route("turn", "POST", "/turn", turn, Access.SCHEDULER),
    Route("abort", "POST", "/abort", abort),
    Route("snapshot", "GET", "/snapshot", snapshot),
    Route("sessions", "POST", "/sessions", create_session),
    Route("sessions", "GET", "/sessions", list_sessions),
    Route("sessions", "DELETE", "/sessions", erase),
    Route("sessions", "GET", "/retention", get_retention),
    Route("sessions", "PUT", "/retention", put_retention),
    Route("sweep", "POST", "/sweep", sweep, Access.SCHEDULER),
    Route("sessions", "GET", "/sessions/{sessionId}", get_session),
    Route("sessions", "GET", "/sessions/{sessionId}/messages", list_messages),
    Route("sessions", "PATCH", "/sessions/{sessionId}", update_session),
    Route("sessions", "DELETE", "/sessions/{sessionId}", delete_session),
    Route("sessions", "GET", "/sessions/{sessionId}/snapshots", list_snapshots),
    Route("sessions", "POST", "/sessions/{sessionId}/truncate", truncate_session),
    Route("sessions", "POST", "/sessions/{sessionId}/restore", restore_session),
    Route("sessions", "POST", "/sessions/{sessionId}/branch", branch_session),
    Route("sessions", "POST", "/sessions/{sessionId}/compact", compact_session),
    Route("", "GET", "/health", health, Access.ANYBODY),
    Route("", "GET", "/ready", ready, Access.ANYBODY),
    Route("", "GET", "/healthz", health, Access.ANYBODY),
    Route("", "GET", "/readyz", ready, Access.ANYBODY),
    Route("", "GET", "/openapi.json", openapi, Access.ANYBODY),
)
"""Routes without a function of their own belong to every one."""


async def serve(request: Request, settings: Settings, function: str | None = None) -> Response:
    """Answers one request with the routes of `function`, or with all of them. Never raises."""
    begin(request.headers)
    answering = _costed if COSTS_HEADER in request.headers else _answer
    response = await answering(request, settings, function)
    response.headers.update(cors_headers(settings.cors_origins, request.headers.get("origin")))
    return harden(response)


async def _costed(request: Request, settings: Settings, function: str | None) -> Response:
    """The answer, with what it has cost in its headers. A stream's leave before its turn has run, so they tell the
    claim's cost alone."""
    started = time.perf_counter()
    with counting() as calls:
        response = await _answer(request, settings, function)
        tally = calls.snapshot()
    response.headers[TIMING_HEADER] = f"total;dur={(time.perf_counter() - started) * 1000:.1f}"
    response.headers[COSTS_HEADER] = f"rpcs={tally.sent}, read={tally.read}, written={tally.written}"
    return response


async def _answer(request: Request, settings: Settings, function: str | None) -> Response:
    """The handler's answer, or what an error becomes."""
    try:
        require_small_headers(request.headers.raw)
        if is_preflight(request.method, request.headers):
            preflight = preflight_headers(settings.cors_origins, request.headers.get("origin"))
            return Response(status_code=204, headers=preflight)
        return await _handle(request, settings, function)
    except ClientDisconnect:
        return Response(status_code=499)  # the client left while its body was being read
    except Exception as error:
        made = made_application()  # making it may be what has failed
        if made is not None:
            made.telemetry.refused(getattr(error, "code", StoreError.code))
        return _failure(request, error)


async def _handle(request: Request, settings: Settings, function: str | None) -> Response:
    route, values = find_route(request, function)
    about(session=values.get("sessionId"), snapshot=values.get("snapshotId"))
    parts = application(settings)
    # Before the body is read: a stranger cannot make us parse anything.
    caller = await admit(parts.authentication, route.access, request.headers)
    with parts.telemetry.span(f"{route.method} {route.path}", {"function": route.function}, request.headers):
        return await route.handler(Context(parts, request, values, caller))


def find_route(request: Request, function: str | None) -> tuple[Route, dict[str, str]]:
    """The request's route and the values in its path. RouteNotFoundError, MethodNotAllowedError."""
    segments = _segments(request)
    known = [route for route in ROUTES if function is None or route.function in ("", function)]
    if segments == [""] and function is not None:
        segments = known[0].path.split("/")[1:]  # deployed apart, `/` is the function's first route
    found = [(route, values) for route in known if (values := _values(route, segments)) is not None]
    if not found:
        raise RouteNotFoundError
    method = "GET" if request.method == "HEAD" else request.method
    for route, values in found:
        if route.method == method:
            return route, values
    raise MethodNotAllowedError(route.method for route, _ in found)


def _segments(request: Request) -> list[str]:
    """The path's segments, decoded one by one: an encoded slash is part of a segment, not the end of one."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    try:
        return [unquote(segment, errors="strict") for segment in raw.decode("ascii").split("/")[1:]]
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The path is not UTF-8.") from error


def _values(route: Route, segments: list[str]) -> dict[str, str] | None:
    names = route.path.split("/")[1:]
    if len(names) != len(segments):
        return None
    values: dict[str, str] = {}
    for name, segment in zip(names, segments, strict=True):
        if name.startswith("{"):
            values[name[1:-1]] = segment
        elif name != segment:
            return None
    return values


def _failure(request: Request, error: Exception) -> Response:
    status = status_of(error)
    if not isinstance(error, StoreError):
        known = {"code": StoreError.code}
        _LOG.exception("%s %s failed", request.method, request.scope["path"], exc_info=error, extra=known)
    elif status >= 500:
        _LOG.error("%s %s: %s", request.method, request.scope["path"], error.message, extra=coded(error))
    return JsonReply(_told(request, error), status, headers=error_headers(error))


def _told(request: Request, error: Exception) -> dict[str, Any]:
    """The error in the shape of the dialect that the path belongs to, also where no handler was reached."""
    is_genkits = request.scope["path"].startswith(GENKIT_PATHS)
    return genkit.error_out(error) if is_genkits else error_body(error)
