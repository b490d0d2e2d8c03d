"""What is kept and for how long: the tenant's rules, the sweep, and the erasure of all that a caller has."""

import asyncio
import random

from starlette.responses import Response

from functions.handlers.context import Context
from functions.replies import JsonReply
from functions.wire.retention import RetentionRequest, SweepQuery, SweepRequest
from store.models import RetentionRules

_LONGEST_SLEEP = 60.0  # seconds; instances that are woken by the same clock shall not sweep in step


async def get_retention(context: Context) -> Response:
    """The tenant's rules."""
    return JsonReply(_rules(await context.application.store.get_retention(context.scope.tenant)))


async def put_retention(context: Context) -> Response:
    """Changes the tenant's rules; for administrators."""
    context.require_admin()
    request = await context.body(RetentionRequest)
    rules = await context.application.store.set_retention(
        context.scope.tenant, request.max_idle_days, request.max_count_per_user
    )
    return JsonReply(_rules(rules))


def _rules(rules: RetentionRules) -> dict[str, int]:
    return {"maxIdleDays": rules.max_idle_days, "maxCountPerUser": rules.max_count_per_user}


async def sweep(context: Context) -> Response:
    """One bounded sweep; sleeps up to a minute first unless `now=1`."""
    query = context.query(SweepQuery)
    request = await context.body(SweepRequest)
    if not query.now:
        await asyncio.sleep(random.uniform(0, _LONGEST_SLEEP))
    report = await context.application.store.sweep(request.limit, dry_run=request.dry_run)
    return JsonReply(
        {
            "examined": report.examined,
            "deleted": report.deleted,
            "spared": report.spared,
            "done": report.is_done,
            "reasons": dict(report.reasons),
        }
    )


async def erase(context: Context) -> Response:
    """Erases all sessions of the caller: 202 while some are left, 204 once none is."""
    is_done = await context.application.store.erase_user(context.scope)
    return Response(status_code=204) if is_done else JsonReply({"done": False}, 202)
