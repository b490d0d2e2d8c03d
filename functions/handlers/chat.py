"""POST /chat: a turn as a stream of events, or its end as one JSON object."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import Response

from functions.dialects.native import ERROR, MEDIA_TYPE, frame
from functions.engine.attaching import events_of_turn
from functions.engine.broadcast import NumberedEvent
from functions.engine.deadlines import until_deadline
from functions.engine.following import can_continue
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from functions.errors import status_of_code
from functions.handlers.context import Context
from functions.replies import JsonReply
from functions.streaming import EventStream, wait_for_disconnect
from functions.wire.queries import ReattachQuery, last_event_id
from functions.wire.turns import ChatRequest
from store.errors import DeadlineExceededError, DetachUnsupportedError, SnapshotNotFoundError
from store.ids import mint_id
from store.models import NewSession, SameSend, SnapshotStatus

_LAST_WORDS = 5.0  # seconds that a reader has for taking them


async def chat(context: Context) -> Response:
    """Starts a turn, or attaches to the one that this very message already has."""
    request = await context.body(ChatRequest)
    application = context.application
    if request.detach and not application.settings.works_after_response:
        raise DetachUnsupportedError("This deployment cannot work after its response.")
    if request.detach:
        session_id, snapshot_id = await application.engine.start_detached(_turn_request(context, request))
        pending = {"sessionId": session_id, "snapshotId": snapshot_id, "status": SnapshotStatus.PENDING.value}
        return JsonReply(pending, 202)
    turn = await application.engine.start(_turn_request(context, request))
    return await _reply(context, events_for(context, turn))


async def reattach(context: Context) -> Response:
    """The turn's events behind `Last-Event-ID`, here or from whichever instance runs it."""
    after = context.query(ReattachQuery).after
    if after is None:
        after = last_event_id(context.request.headers.get("last-event-id"))
    snapshot_id, store = context.path["snapshotId"], context.application.store
    snapshot = await store.get_snapshot_metadata(context.scope, snapshot_id)
    if snapshot is None:
        raise SnapshotNotFoundError(snapshot_id)
    turn = SameSend(snapshot.session_id, snapshot_id, is_running=not snapshot.status.is_terminal)
    if not await can_continue(store, context.scope, snapshot, after):
        return Response(status_code=204)
    return await _reply(context, events_for(context, turn, after))


def events_for(
    context: Context, turn: RunningTurn | SameSend, after: int = 0, *, is_kept: bool = True
) -> AsyncGenerator[NumberedEvent, None]:
    """The turn's events behind number `after`, for as long as a request may be open. `is_kept` is whether the turn can
    be found again then."""
    parts = context.application
    events = events_of_turn(parts.engine, parts.store, context.scope, turn, after)
    seconds = parts.settings.stream_max
    error = DeadlineExceededError(f"A request may be open for {seconds:g} seconds.")
    return until_deadline(events, seconds, _told_more(error, turn) if is_kept else error, after)


def _told_more(error: DeadlineExceededError, turn: RunningTurn | SameSend) -> DeadlineExceededError:
    named = turn.lease if isinstance(turn, RunningTurn) else turn
    where = f"Re-attach to the turn {named.snapshot_id} with the last event's id."
    return DeadlineExceededError(f"{error.message} {where}", sessionId=named.session_id, snapshotId=named.snapshot_id)


def longest_stream(context: Context) -> float:
    """Seconds after which a stream is cut whose reader has not taken its last event."""
    return context.application.settings.stream_max + _LAST_WORDS


async def _reply(context: Context, events: AsyncGenerator[NumberedEvent, None]) -> Response:
    if wants_stream(context):
        return EventStream(_frames(events), longest=longest_stream(context))
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
        last = waiting.result()
        if last is None:
            return Response(status_code=204)
        name, data = last.event
        return JsonReply(data, status_of_code(data["code"]) if name == ERROR else 200)
    finally:
        leaving.cancel()
        waiting.cancel()
        await asyncio.gather(waiting, leaving, return_exceptions=True)
        await events.aclose()


async def _last(events: AsyncGenerator[NumberedEvent, None]) -> NumberedEvent | None:
    """The turn's end; None where the reader said that it knows it already."""
    last = None
    async for numbered in events:
        last = numbered
    return last
