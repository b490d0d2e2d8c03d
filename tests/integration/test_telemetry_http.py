"""What the service tells of itself, read back by an in-memory exporter: metrics of what may become of a turn, spans,
and what it has asked of the database."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode, format_trace_id

from functions.agents.base import AgentEvent, TextDelta, Turn, is_aborted_within, text_of
from functions.agents.echo import EchoAgent
from functions.wiring import application
from store.adapters.own_ids import OwnIds
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.ids import mint_id
from store.models import Claim, Lease, NewSession, Scope
from store.state import Raw
from tests.acceptance.chat_client import ok, send
from tests.acceptance.fated_pair import place_of
from tests.integration.counted import noise
from tests.integration.http_app import App, served
from tests.integration.measured import Measured, measuring

ANN = Scope("local", "local")
SECRET = "what-nobody-may-read-in-a-trace"
TRACE = "0123456789abcdef0123456789abcdef"
MOMENT = 0.001  # seconds; a lease that is older counts as dead for the store that is opened with it


class Waiting:
    """The echo agent, which first waits until it is let go on, where a message says so."""

    name = "waiting"

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self._echo = EchoAgent()

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        if turn.message and text_of(turn.message).startswith("wait"):
            yield TextDelta("waiting")
            while not self.may_go_on.is_set() and not await is_aborted_within(turn, 0.005):
                pass
        async for event in self._echo.run(turn):
            yield event


@pytest.fixture
def measured() -> Iterator[Measured]:
    with measuring() as measured:
        yield measured


@pytest.fixture
def agent() -> Waiting:
    return Waiting()


@pytest.fixture
async def app(measured: Measured, agent: Waiting) -> AsyncIterator[App]:
    async with served(agent) as app:
        yield app


def message(text: str, message_id: str | None = None) -> dict[str, Any]:
    return {"message": {"id": message_id or mint_id(), "role": "user", "content": [{"text": text}]}}


def impatient(app: App) -> DocumentStore:
    """A store on the same documents for which every lease is dead."""
    return OwnIds(DocumentStore(Shelf(app.database, Options(lease_staleness=MOMENT))))


async def claimed(store: DocumentStore, session_id: str | None, last_message_id: str | None = None) -> Lease:
    """A turn that somebody else runs, or has died in."""
    said = Raw.of(message("elsewhere")["message"])
    claim = Claim(
        mint_id(), mint_id(), NewSession("echo"), session_id, message=said, last_message_id=last_message_id, runner="x"
    )
    lease = await store.claim_turn(ANN, claim)
    assert isinstance(lease, Lease)
    return lease


async def test_turns_are_counted_by_how_they_end(app: App, measured: Measured) -> None:
    place = place_of(await send(app.http, message("one")))
    place = place_of(await send(app.http, message("/fail no") | place))
    await send(app.http, message("two") | place)
    async with app.chat(message("wait")) as turn:
        events = turn.events()
        start = await anext(events)
        ok(await app.http.post("/abort", json={"snapshotId": start.data["snapshotId"]}))
        assert [event async for event in events][-1].data["status"] == "aborted"
    ok(await app.http.post("/abort", json={"snapshotId": start.data["snapshotId"]}))
    counters = measured.counters()
    assert {name: value for name, value in counters.items() if name.startswith(("turns", "aborts"))} == {
        "turns completed": 2,
        "turns failed": 1,
        "turns aborted": 1,
        "aborts aborting": 1,
        "aborts aborted": 1,
    }
    count, size = measured.sizes()
    assert count == 3  # a failed turn has no state
    assert size > 100


async def test_refusals_are_counted_by_their_reason(app: App, agent: Waiting, measured: Measured) -> None:
    place = place_of(await send(app.http, message("one", "m1")))
    async with app.chat(message("wait", "m2") | place) as turn:
        events = turn.events()
        await anext(events)
        assert (await app.http.post("/chat", json=message("other") | place)).status_code == 409
        agent.may_go_on.set()
        assert [event async for event in events]
    assert (await app.http.post("/chat", json=message("late") | place)).status_code == 409
    assert (await app.http.post("/chat", content=b"{")).status_code == 400
    assert (await app.http.get("/nowhere")).status_code == 404
    assert (await app.http.post("/agents/nobody", json={"data": message("x")})).status_code == 404
    assert (await app.http.post("/chat", json=message("wait", "m2") | place)).status_code == 200
    assert measured.counters() == {
        "turns completed": 2,
        "refusals busy": 1,
        "refusals stale": 1,
        "refusals invalid_request": 1,
        "refusals not_found": 1,
        "refusals agent_not_found": 1,
        "same_sends": 1,
        **untouched(measured),
    }


def untouched(measured: Measured) -> dict[str, int]:
    """The counts of the database of the whole process, which these tests do not use."""
    return {
        name: value for name, value in measured.counters().items() if name.startswith(("documents", "bytes", "rpcs"))
    }


async def test_a_turn_whose_lease_was_lost_is_counted_and_its_span_has_failed(
    app: App, agent: Waiting, measured: Measured
) -> None:
    place = place_of(await send(app.http, message("one")))
    async with app.chat(message("wait") | place) as turn:
        events = turn.events()
        start = await anext(events)
        await asyncio.sleep(2 * MOMENT)
        await claimed(impatient(app), place["sessionId"], place["lastMessageId"])
        agent.may_go_on.set()
        last = [event async for event in events][-1]
    assert (last.name, last.data["code"]) == ("error", "agent_session_lease_lost")
    counters = measured.counters()
    assert (counters["turns completed"], counters["lease_losses"]) == (1, 1)
    lost = next(span for span in turns(measured) if (span.attributes or {})["snapshot"] == start.data["snapshotId"])
    assert lost.status.status_code is StatusCode.ERROR
    assert (lost.attributes or {})["code"] == "agent_session_lease_lost"


async def test_turns_whose_owner_fell_silent_are_counted_when_they_are_ended(measured: Measured) -> None:
    """By a send that takes the lease over, and by an abort."""
    settings = {"HEARTBEAT_INTERVAL": "0.01", "LEASE_STALENESS": "0.03"}
    async with served(None, **settings) as app:
        dead, other = [await claimed(app.store, None) for _ in range(2)]
        await asyncio.sleep(0.04)
        await send(app.http, message("next") | {"sessionId": dead.session_id})
        assert measured.counters()["expiries"] == 1
        aborted = ok(await app.http.post("/abort", json={"snapshotId": other.snapshot_id}))
        assert (aborted["previousStatus"], aborted["status"]) == ("expired", "aborted")
        assert measured.counters()["expiries"] == 2
        ok(await app.http.post("/abort", json={"snapshotId": other.snapshot_id}))
        assert measured.counters()["expiries"] == 2


def turns(measured: Measured) -> list[ReadableSpan]:
    return [span for span in measured.spans() if span.name == "turn"]


async def test_a_request_and_its_turn_are_spans_of_the_callers_trace(app: App, measured: Measured) -> None:
    headers = {"traceparent": f"00-{TRACE}-0123456789abcdef-01"}
    end = ok(await app.http.post("/chat", json=message("one"), headers=headers))
    turn, request = measured.spans()
    assert request.name == "POST /chat"
    assert dict(request.attributes or {}) == {"function": "chat"}
    assert dict(turn.attributes or {}) == {
        "session": end["sessionId"],
        "snapshot": end["snapshotId"],
        "status": "completed",
    }
    assert request.parent is not None
    assert request.context is not None
    assert turn.parent is not None
    assert (format_trace_id(request.parent.trace_id), request.parent.span_id) == (TRACE, 0x0123456789ABCDEF)
    assert turn.parent.span_id == request.context.span_id


@pytest.mark.parametrize("text", [f"/crash {SECRET}", f"/fail {SECRET}", f"/tool x {{}}\n{SECRET}", SECRET])
async def test_no_span_repeats_what_was_said(app: App, measured: Measured, text: str) -> None:
    """An exception's words, which a tracer records by itself, are not told either."""
    place = place_of(await send(app.http, message("one")))
    await send(app.http, message(text) | place)
    assert (await app.http.post("/chat", json=message(text) | place | {"lastMessageId": "x"})).status_code == 409
    spans = [span.to_json() for span in measured.spans()]
    assert len(spans) == 5
    assert [span for span in spans if SECRET in span] == []
    refused = measured.spans()[-1]
    assert (refused.status.status_code, refused.events) == (StatusCode.ERROR, ())
    assert dict(refused.attributes or {}) == {"function": "chat", "code": "agent_session_stale"}


async def test_documents_and_their_bytes_are_counted(
    emulator_host: str, project_id: str, measured: Measured, agent: Waiting
) -> None:
    """A turn's, beyond what the process had asked before: as much as it may cost, and at least what it carries."""
    settings = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    text = noise(1, 3000)
    async with served(agent, **settings) as app:
        place = place_of(await send(app.http, message("one")))
        await asyncio.gather(*application(app.settings).engine._tasks)  # the cap is checked once a session was made
        before = measured.counters()
        await send(app.http, message(text) | place)
        after = measured.counters()
    spent = {name: after[name] - before[name] for name in after}
    assert (spent["rpcs"], spent["documents read"], spent["documents written"]) == (3, 1, 4)
    assert spent["bytes read"] > 300
    assert spent["bytes written"] > 2 * 2000  # the patch, twice; such text compresses by a quarter
