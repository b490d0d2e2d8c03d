"""POST /chat: a turn as a stream of events, or its end as one JSON object."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import Response

from functions.dialects.native import ERROR, MEDIA_TYPE, frame
from functions.engine.attaching import events_of_turn
from functions.engine.broadcast import NumberedEvent
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from functions.errors import status_of_code
from functions.handlers.context import Context
from functions.replies import JsonReply
from functions.streaming import EventStream, wait_for_disconnect
from functions.wire.turns import ChatRequest
from store.errors import DetachUnsupportedError
from store.ids import mint_id
from store.models import NewSession, SameSend, SnapshotStatus


async def chat(context: Context) -> Response:
    """Starts a turn, or attaches to the one that this very message already has."""
    request = await context.body(ChatRequest)
    application = context.application
    if request.detach and not application.settings.works_after_response:
        raise DetachUnsupportedError("This deployment cannot work after its response.")
    scope = context.scope
    turn = await application.engine.start(_turn_request(context, request))
    if request.detach:
        return JsonReply(_pending(turn), 202)
    events = events_of_turn(application.engine, application.store, scope, turn)
    if wants_stream(context):
        return EventStream(_frames(events))
    return await _last_event(context, events)


def wants_stream(context: Context) -> bool:
    """Whether the caller accepts server-sent events."""
    accepted = context.request.headers.get("accept", "").lower()
    return any(entry.partition(";")[0].strip() == MEDIA_TYPE for entry in accepted.split(","))


def _turn_request(context: Context, request: ChatRequest) -> TurnRequest:
    settings = context.application.settings
    message = request.message
    return TurnRequest(
        scope=context.scope,
        message=message if message is None or "id" in message else {"id": mint_id(), **message},
        resume=request.resume,
        message_is_named=message is not None and "id" in message,
        session_id=request.session_id,
        last_message_id=request.last_message_id,
        snapshot_id=request.snapshot_id,
        model=request.model,
        new_session=NewSession(context.application.agent.name, model=request.model or settings.model),
        cancels_on_disconnect=settings.disconnect_policy(request.on_disconnect) == "cancel" and not request.detach,
    )


def _pending(turn: RunningTurn | SameSend) -> dict[str, str]:
    session_id, snapshot_id = (
        (turn.lease.session_id, turn.lease.snapshot_id)
        if isinstance(turn, RunningTurn)
        else (turn.session_id, turn.snapshot_id)
    )
    return {"sessionId": session_id, "snapshotId": snapshot_id, "status": SnapshotStatus.PENDING.value}


async def _frames(events: AsyncGenerator[NumberedEvent, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for number, (name, data) in events:
            yield frame(number, name, data)
    finally:
        await events.aclose()  # a reader that leaves must be seen to leave at once, not when it is collected


async def _last_event(context: Context, events: AsyncGenerator[NumberedEvent, None]) -> Response:
    """Waits for the turn's end; a client that leaves meanwhile stops being a reader."""
    waiting = asyncio.create_task(_last(events))
    leaving = asyncio.create_task(wait_for_disconnect(context.request.receive))
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            return Response(status_code=499)  # nobody reads it
        _, (name, data) = waiting.result()
        return JsonReply(data, status_of_code(data["code"]) if name == ERROR else 200)
    finally:
        leaving.cancel()
        waiting.cancel()
        await asyncio.gather(waiting, leaving, return_exceptions=True)
        await events.aclose()


async def _last(events: AsyncGenerator[NumberedEvent, None]) -> NumberedEvent:
    seen = [numbered async for numbered in events]
    return seen[-1]  # every turn ends with turn-end or error
