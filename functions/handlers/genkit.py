"""Genkit's agent protocol: POST /agents/{agent}, and its /getSnapshot, /abort and /waitForSnapshot."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace

from starlette.responses import Response

from functions.agents.base import Agent
from functions.agents.catalogue import catalogue, keeps_state
from functions.dialects import genkit as dialect
from functions.dialects.genkit import Chunks, PreconditionError
from functions.dialects.native import ERROR, TURN_END
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from functions.errors import error_headers
from functions.handlers.chat import events_for, longest_stream, wants_stream
from functions.handlers.context import Context, Handler
from functions.handlers.genkit_sessions import Place, place_of
from functions.handlers.snapshot import latest
from functions.replies import JsonReply
from functions.streaming import EventStream, wait_for_disconnect
from functions.wire.genkit import AgentCall, OneSnapshotCall, SnapshotCall
from store.canonical import Json
from store.errors import DetachUnsupportedError, NotFoundError, SnapshotNotFoundError, StoreError
from store.ids import mint_id
from store.models import NewSession, Snapshot
from store.state import EMPTY

_LOG = logging.getLogger("firesession.genkit")
_BROKEN: Json = {"error": {"status": "INTERNAL", "message": "The turn could not be ended."}}


class AgentNotFoundError(NotFoundError):
    """No agent of that name is served here."""

    code = "agent_not_found"


def _telling(handler: Handler) -> Handler:
    """The handler, its refusals told as this protocol tells them."""

    async def told(context: Context) -> Response:
        try:
            return await handler(context)
        except StoreError as error:
            context.application.telemetry.refused(error.code)
            return _refusal(error)

    return told


def _refusal(error: StoreError) -> Response:
    told = dialect.error_out(error)
    return JsonReply(told, dialect.HTTP.get(told["status"], 500), headers=error_headers(error))


def _agent(context: Context) -> Agent:
    agent = catalogue(context.application.agent).get(context.path["agent"])
    if agent is None:
        raise AgentNotFoundError("There is no agent of that name.")
    return agent


def _storing_agent(context: Context) -> Agent:
    agent = _agent(context)
    if not keeps_state(agent):
        raise PreconditionError(f"The agent {agent.name} keeps no snapshots: its clients keep their state.")
    return agent


async def run_agent(context: Context) -> Response:
    """One turn, as a stream or as one answer. A refusal is told on the stream too: its readers see no other."""
    is_streamed = wants_stream(context) or context.request.query_params.get("stream") == "true"
    try:
        call = await context.body(AgentCall)
        answers = await _start(context, call)
    except StoreError as error:
        context.application.telemetry.refused(error.code)
        if not is_streamed:
            return _refusal(error)
        answers = _one({"error": dialect.error_out(error)})
    if is_streamed:
        return EventStream(_frames(answers), comment=None, longest=longest_stream(context))
    return await _last(context, answers)


async def _start(context: Context, call: AgentCall) -> AsyncGenerator[Json, None]:
    """The answers of a turn that was started; of one that was refused by what is stored, a failed turn's."""
    agent = _agent(context)
    if not keeps_state(agent):
        return await _start_without_store(context, call, agent)
    if call.init.state is not None:
        raise PreconditionError(f"Cannot send 'state' to agent {agent.name}: it keeps its state here.")
    if call.data.detach and not context.application.settings.works_after_response:
        raise DetachUnsupportedError("This deployment cannot work after its response.")
    place = await place_of(context.application.store, context.scope, call.init)
    request = _request(context, call, agent, place)
    try:
        if place.refusal is not None:
            raise place.refusal
        if call.data.detach:
            session_id, snapshot_id = await context.application.engine.start_detached(request)
            told = {"sessionId": session_id, "snapshotId": snapshot_id}
            return _one({"result": told | {"finishReason": "detached"}})
        turn = await context.application.engine.start(request)
    except StoreError as error:
        return _one(_failed(context, error, place))
    assert isinstance(turn, RunningTurn)  # a message that nobody named has no earlier send
    return _answers(context, turn, turn.lease.session_id, keeps=True)


async def _start_without_store(context: Context, call: AgentCall, agent: Agent) -> AsyncGenerator[Json, None]:
    for name, given in (("sessionId", call.init.session_id), ("snapshotId", call.init.snapshot_id)):
        if given is not None:
            raise PreconditionError(f"Cannot use '{name}' with agent {agent.name}: its clients keep their state.")
    if call.data.detach:
        raise PreconditionError(f"Cannot detach from agent {agent.name}: nothing would keep the result.")
    given_id = (call.init.state or {}).get("sessionId")
    state = EMPTY if call.init.state is None else dialect.state_in(call.init.state)
    # Nothing keeps what it produces once its reader has left.
    request = replace(_request(context, call, agent, Place()), cancels_on_disconnect=True)
    try:
        turn = context.application.engine.start_without_store(request, state)
    except StoreError as error:
        return _one(_failed(context, error, Place()))
    return _answers(context, turn, given_id or turn.lease.session_id, keeps=False)


def _request(context: Context, call: AgentCall, agent: Agent, place: Place) -> TurnRequest:
    settings, message = context.application.settings, call.data.message
    return TurnRequest(
        scope=context.scope,
        message=message if message is None or "id" in message else {"id": mint_id(), **message},
        resume=call.data.resume,
        session_id=place.session_id,
        new_session_id=place.new_session_id,
        snapshot_id=call.init.snapshot_id,
        new_session=NewSession(agent.name, model=settings.model),
        cancels_on_disconnect=settings.disconnect_policy() == "cancel" and not call.data.detach,
        check_tail=False,
        agent=agent,
    )


def _failed(context: Context, error: StoreError, place: Place) -> Json:
    """A turn that was refused: the client goes on from where it was."""
    context.application.telemetry.refused(error.code)
    told = {"sessionId": place.session_id or place.new_session_id, "snapshotId": place.good_snapshot_id}
    known = {name: value for name, value in told.items() if value is not None}
    return {"result": known | {"finishReason": "failed", "error": dialect.error_out(error)}}


async def _one(answer: Json) -> AsyncGenerator[Json, None]:
    yield answer


async def _answers(context: Context, turn: RunningTurn, session_id: str, *, keeps: bool) -> AsyncGenerator[Json, None]:
    """The turn's chunks, and its result or an error, whatever happens."""
    chunks = Chunks()
    events = events_for(context, turn, is_kept=keeps)
    try:
        async for _, (name, data) in events:
            if name == ERROR:
                yield {"error": _event_error(data, session_id)}
                return
            if name == TURN_END and turn.settled is not None:
                settled = turn.settled
                yield {"message": _turn_end(settled, keeps)}
                message = data.get("message")
                before = turn.lease.state
                yield {"result": dialect.output(session_id, settled, message, keeps_state=keeps, before=before)}
                return
            chunk = chunks.of(name, data)
            if chunk is not None:
                yield {"message": chunk}
        yield _BROKEN
    except Exception:
        _LOG.exception("turn %s was not told to its end", turn.lease.snapshot_id)
        yield _BROKEN
    finally:
        await events.aclose()


def _event_error(data: Json, session_id: str) -> Json:
    """Where the turn goes on without this reader, with what it can be found by."""
    error: dict[str, Json] = {"status": dialect.status_of_code(data["code"]), "message": data["message"]}
    if "snapshotId" not in data:
        return error
    return error | {"details": {"sessionId": session_id, "snapshotId": data["snapshotId"]}}


def _turn_end(settled: Snapshot, keeps: bool) -> Json:
    told = {"snapshotId": settled.snapshot_id} if keeps and settled.state is not None else {}
    return {"turnEnd": told | {"finishReason": settled.finish_reason}}


async def _frames(answers: AsyncGenerator[Json, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for answer in answers:
            yield dialect.frame(answer)
    finally:
        await answers.aclose()


async def _last(context: Context, answers: AsyncGenerator[Json, None]) -> Response:
    """The turn's end as one answer; a client that leaves meanwhile stops being a reader."""
    waiting = asyncio.create_task(_end_of(answers))
    leaving = asyncio.create_task(wait_for_disconnect(context.request.receive))
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            return Response(status_code=499)  # nobody reads it
        answer = waiting.result()
        if "error" in answer:
            return JsonReply(answer["error"], dialect.HTTP.get(answer["error"]["status"], 500))
        return JsonReply(answer)
    finally:
        leaving.cancel()
        waiting.cancel()
        await asyncio.gather(waiting, leaving, return_exceptions=True)
        await answers.aclose()


async def _end_of(answers: AsyncGenerator[Json, None]) -> Json:
    seen = [answer async for answer in answers]
    return seen[-1]


async def _get_snapshot(context: Context) -> Response:
    _storing_agent(context)
    lookup = (await context.body(SnapshotCall)).data
    store = context.application.store
    found: Snapshot | None
    if lookup.session_id is not None:
        found = await latest(store, context.scope, lookup.session_id, lookup.metadata_only)
    else:
        assert lookup.snapshot_id is not None  # the model has seen to it
        read = store.get_snapshot_metadata if lookup.metadata_only else store.get_snapshot
        found = await read(context.scope, lookup.snapshot_id)
    if found is None:
        raise SnapshotNotFoundError(str(lookup.snapshot_id or lookup.session_id))
    return _snapshot(context, found)


async def _abort(context: Context) -> Response:
    """Answers once the turn has stopped, with the status that it had before: what its clients expect of an abort."""
    _storing_agent(context)
    snapshot_id = (await context.body(OneSnapshotCall)).data.snapshot_id
    try:
        aborted = await context.application.store.abort_turn(context.scope, snapshot_id)
    except SnapshotNotFoundError:
        return JsonReply({"result": {"snapshotId": snapshot_id}})
    context.application.telemetry.aborted(aborted)
    if not aborted.status.is_terminal:
        await _until_settled(context, snapshot_id, 2 * context.application.settings.abort_grace + 1)
    return JsonReply({"result": {"snapshotId": snapshot_id, "status": aborted.previous.value}})


async def _wait_for_snapshot(context: Context) -> Response:
    """Held until the snapshot is settled, or for as long as a request may be."""
    _storing_agent(context)
    snapshot_id = (await context.body(OneSnapshotCall)).data.snapshot_id
    store = context.application.store
    if await store.get_snapshot_metadata(context.scope, snapshot_id) is None:
        raise SnapshotNotFoundError(snapshot_id)
    waiting = _until_settled(context, snapshot_id, context.application.settings.wait_max)
    await context.application.engine.until_closing(waiting)
    found = await store.get_snapshot(context.scope, snapshot_id)
    if found is None:
        raise SnapshotNotFoundError(snapshot_id)
    return _snapshot(context, found)


def _snapshot(context: Context, found: Snapshot) -> Response:
    return JsonReply({"result": dialect.snapshot_out(found)})


async def _until_settled(context: Context, snapshot_id: str, seconds: float) -> None:
    statuses = context.application.store.on_snapshot_status_change(context.scope, snapshot_id)
    try:
        async with asyncio.timeout(seconds), statuses as following:
            async for status in following:
                if status.is_terminal:
                    return
    except TimeoutError:
        return


get_agent_snapshot = _telling(_get_snapshot)
abort_agent = _telling(_abort)
wait_for_agent_snapshot = _telling(_wait_for_snapshot)
