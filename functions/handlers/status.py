"""Health, readiness, and the description of the contract."""

from functools import cache

from starlette.responses import Response

from functions.handlers.context import Context
from functions.openapi.document import openapi_document
from functions.replies import JsonReply
from store.models import Scope

_PROBE = Scope("firesession-probe", "firesession-probe")


async def health(context: Context) -> Response:
    """The process answers; no I/O."""
    return JsonReply({"status": "ok"})


async def ready(context: Context) -> Response:
    """The store answers: one read."""
    await context.application.store.get_session(_PROBE, "firesession-probe")
    return JsonReply({"status": "ok"})


async def openapi(context: Context) -> Response:
    """The OpenAPI description."""
    return JsonReply(_document())


_document = cache(openapi_document)
