"""Changes to a session outside of its turns: rename, rewind, branch, compact, delete; and its tree."""

from starlette.background import BackgroundTask
from starlette.responses import Response

from functions.agents.catalogue import require_known_model
from functions.handlers.context import Context
from functions.replies import JsonReply, session_reply, tree_reply
from functions.wire.queries import SnapshotsQuery
from functions.wire.sessions import (
    BranchRequest,
    CompactRequest,
    PatchSessionRequest,
    RestoreRequest,
    TruncateRequest,
)


async def update_session(context: Context) -> Response:
    """Renames, or changes the model."""
    request = await context.body(PatchSessionRequest)
    require_known_model(context.application.agent, request.model)
    session = await context.application.store.update_session(
        context.scope, context.path["sessionId"], title=request.title, model=request.model
    )
    return JsonReply(session_reply(session))


async def delete_session(context: Context) -> Response:
    """Removes the session and everything of it."""
    await context.application.store.delete_session(context.scope, context.path["sessionId"])
    return Response(status_code=204)


async def list_snapshots(context: Context) -> Response:
    """The tree, oldest first."""
    query = context.query(SnapshotsQuery)
    page = await context.application.store.list_snapshots(
        context.scope, context.path["sessionId"], query.limit, query.cursor
    )
    return JsonReply(tree_reply(page))


async def truncate_session(context: Context) -> Response:
    """Rewinds the transcript to a message."""
    request = await context.body(TruncateRequest)
    session = await context.application.store.truncate(
        context.scope, context.path["sessionId"], request.message_id, request.last_message_id
    )
    return JsonReply(session_reply(session))


async def restore_session(context: Context) -> Response:
    """Continues from an earlier snapshot's state."""
    request = await context.body(RestoreRequest)
    session = await context.application.store.restore(
        context.scope, context.path["sessionId"], request.snapshot_id, request.last_message_id
    )
    return JsonReply(session_reply(session))


async def branch_session(context: Context) -> Response:
    """A new session with a prefix of the transcript."""
    request = await context.body(BranchRequest)
    session = await context.application.store.branch(
        context.scope, context.path["sessionId"], request.message_id, request.id
    )
    trimming = BackgroundTask(context.application.engine.trim_sessions, context.scope)
    return JsonReply(session_reply(session), 201, background=trimming)


async def compact_session(context: Context) -> Response:
    """Sums the transcript up."""
    request = await context.body(CompactRequest)
    message = await context.application.engine.compact(context.scope, context.path["sessionId"], request.instructions)
    return JsonReply({"message": message})
