"""Session records and transcripts."""

import base64
import binascii

from starlette.background import BackgroundTask
from starlette.responses import Response

from functions.agents.catalogue import require_known_model
from functions.handlers.context import Context
from functions.replies import JsonReply, session_reply, sessions_reply
from functions.wire.queries import MessagesQuery, SessionsQuery
from functions.wire.sessions import CreateSessionRequest
from store.canonical import Json
from store.errors import InvalidRequestError, SessionNotFoundError
from store.models import NewSession
from store.rules.history import messages_of
from store.state import State

_SECONDS_PER_HOUR = 3600.0


async def create_session(context: Context) -> Response:
    """A session without any turn; the same id again is the same session."""
    request = await context.body(CreateSessionRequest)
    application = context.application
    require_known_model(application.agent, request.model)
    seconds = application.settings.temporary_hours * _SECONDS_PER_HOUR
    new = NewSession(
        agent=application.agent.name,
        title=request.title or "",
        model=request.model or application.settings.model,
        lifetime=seconds if request.temporary and seconds else None,
        temporary=request.temporary,
    )
    custom = State.of({"messages": [], "custom": request.custom}) if request.has_custom else None
    session = await application.store.create_session(context.scope, request.id, new, custom)
    trimming = BackgroundTask(application.engine.trim_sessions, context.scope)
    return JsonReply(session_reply(session), 201, background=trimming)


async def list_sessions(context: Context) -> Response:
    """The caller's persisted sessions, the most recently used first."""
    query = context.query(SessionsQuery)
    page = await context.application.store.list_sessions(context.scope, query.limit, query.cursor)
    return JsonReply(sessions_reply(page))


async def get_session(context: Context) -> Response:
    """One session's metadata."""
    session_id = context.path["sessionId"]
    session = await context.application.store.get_session(context.scope, session_id)
    if session is None:
        raise SessionNotFoundError(session_id)
    return JsonReply(session_reply(session))


async def list_messages(context: Context) -> Response:
    """The transcript, oldest first."""
    query = context.query(MessagesQuery)
    session_id = context.path["sessionId"]
    transcript = await context.application.store.get_transcript(context.scope, session_id)
    if transcript is None:
        raise SessionNotFoundError(session_id)
    messages = messages_of(transcript.state)
    start = 0 if query.cursor is None else _open_cursor(query.cursor)
    end = start + query.limit
    reply: dict[str, Json] = {"messages": [message.value() for message in messages[start:end]]}
    if end < len(messages):
        reply["nextCursor"] = _cursor(end)
    return JsonReply(reply)


def _cursor(position: int) -> str:
    return base64.urlsafe_b64encode(str(position).encode()).decode().rstrip("=")


def _open_cursor(cursor: str) -> int:
    try:
        position = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
    except (ValueError, binascii.Error) as error:
        raise InvalidRequestError("The cursor was not made here.") from error
    if not position.isdecimal() or len(position) > 12:
        raise InvalidRequestError("The cursor was not made here.")
    return int(position)
