"""POST /abort: stops a turn, whichever instance runs it."""

from starlette.responses import Response

from functions.handlers.context import Context
from functions.replies import JsonReply, abort_reply
from functions.wire.turns import AbortRequest


async def abort(context: Context) -> Response:
    """By snapshot, or the turn that the session runs."""
    request = await context.body(AbortRequest)
    store = context.application.store
    if request.snapshot_id is not None:
        result = await store.abort_turn(context.scope, request.snapshot_id)
    else:
        assert request.session_id is not None  # the model has seen to it
        result = await store.abort_session(context.scope, request.session_id)
    context.application.telemetry.aborted(result)
    return JsonReply(abort_reply(result))
