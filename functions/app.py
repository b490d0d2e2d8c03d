"""Routing and the error table: from a request to a handler, from an error to an answer."""

import logging
from enum import Enum, auto
from typing import Final, NamedTuple
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from functions.cors import cors_headers, is_preflight, preflight_headers
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
from functions.identity import Caller
from functions.replies import JsonReply
from functions.security import harden
from functions.settings import Settings
from functions.wiring import Application, application
from store.errors import InvalidRequestError, StoreError

_LOG = logging.getLogger("firesession.app")


class Access(Enum):
    """Who is let in to a route. Whose session it is comes later, and is the store's to decide."""

    CALLER = auto()
    SCHEDULER = auto()
    ANYBODY = auto()


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
    Route("turn", "POST", "/turn", turn),
    Route("abort", "POST", "/abort", abort),
    Route("snapshot", "GET", "/snapshot", snapshot),
    Route("sessions", "POST", "/sessions", create_session),
    Route("sessions", "GET", "/sessions", list_sessions),
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
    headers = cors_headers(settings.cors_origins, request.headers.get("origin"))
    if is_preflight(request.method, request.headers):
        preflight = preflight_headers(settings.cors_origins, request.headers.get("origin"))
        return harden(Response(status_code=204, headers=preflight))
    try:
        route, values = find_route(request, function)
        parts = application(settings)
        caller = await admit(parts, route.access, request)  # before the body is read: strangers get no parser to work
        response = await route.handler(Context(parts, request, values, caller))
    except ClientDisconnect:
        response = Response(status_code=499)  # the client left while its body was being read
    except Exception as error:
        response = _failure(request, error)
    response.headers.update(headers)
    return harden(response)


async def admit(parts: Application, access: Access, request: Request) -> Caller | None:
    """Who sent the request, where its route wants to know. UnauthenticatedError, PermissionDeniedError."""
    if access is Access.CALLER:
        return await parts.authentication.caller(request.headers)
    if access is Access.SCHEDULER:
        await parts.authentication.require_scheduler(request.headers)
    return None


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
        _LOG.exception("%s %s failed", request.method, request.scope["path"], exc_info=error)
    elif status >= 500:
        _LOG.error("%s %s: %s: %s", request.method, request.scope["path"], error.code, error.message)
    return JsonReply(error_body(error), status, headers=error_headers(error))
