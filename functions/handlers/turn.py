"""POST /turn: the queue delivers a detached turn, which runs as long as this request is open."""

from starlette.responses import Response

from functions.errors import error_body
from functions.handlers.context import Context
from functions.replies import JsonReply
from functions.wire.turns import QueuedTurnRequest
from store.errors import UnavailableError
from store.models import Adoption, Scope

_PATIENT_DELIVERIES = 10  # a delivery can overtake its claim; one that never finds its row has none


async def turn(context: Context) -> Response:
    """200 once the turn is over, or is not to be run here; 503 asks the queue to come again."""
    request = await context.body(QueuedTurnRequest)
    scope = Scope(request.tenant, request.user)
    adoption = await context.application.engine.run_queued(scope, request.snapshot_id)
    if adoption is Adoption.UNKNOWN and _deliveries(context) < _PATIENT_DELIVERIES:
        # Nothing is wrong: it is answered as an error for the queue, and not logged as one.
        return JsonReply(error_body(UnavailableError("There is no such turn yet.")), 503)
    return JsonReply({"snapshotId": request.snapshot_id, "result": "ran" if adoption is None else adoption.value})


def _deliveries(context: Context) -> int:
    count = context.request.headers.get("x-cloudtasks-taskretrycount", "0")
    return int(count[:6]) if count.isascii() and count.isdigit() else 0
