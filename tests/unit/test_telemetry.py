"""What is measured can be read back, and is nothing at all where nobody asked for it."""

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from functions.agents.echo import EchoAgent
from functions.engine.engine import Engine
from functions.engine.limits import EngineLimits
from functions.engine.requests import TurnRequest
from functions.engine.running import RunningTurn
from functions.telemetry import Telemetry, configure_telemetry, require_exporter
from store.firestore.calls import Calls, Tally, counting
from store.memory.store import MemoryStore
from store.models import Abort, NewSession, SameSend, Scope, SnapshotStatus


def _missing(name: str) -> object:
    raise ModuleNotFoundError(name)


MESSAGE = {"id": "m1", "role": "user", "content": [{"text": "hello"}]}


def points(reader: InMemoryMetricReader) -> dict[tuple[str, str], Any]:
    """Every value by instrument and its attributes' values."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, ",".join(map(str, (point.attributes or {}).values()))): getattr(point, "value", None)
        or getattr(point, "sum", None)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


async def run(engine: Engine) -> RunningTurn | SameSend:
    """One turn to its end, or the one that the message has already."""
    turn = await engine.start(TurnRequest(Scope("t", "u"), MESSAGE, message_is_named=True, new_session=NewSession("e")))
    if isinstance(turn, RunningTurn):
        assert [numbered async for numbered in turn.broadcast.read()]
    return turn


async def test_turns_and_resends_are_counted_and_a_turn_is_a_span() -> None:
    reader, exporter, tracers = InMemoryMetricReader(), InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(lambda: Tally({"Commit": 2}, 5, 4), meters=MeterProvider([reader]), tracers=tracers)
    engine = Engine(MemoryStore(), EchoAgent(), EngineLimits(15, 1, 10, 10), telemetry=telemetry)
    first = await run(engine)
    assert isinstance(await run(engine), SameSend)
    telemetry.refused("agent_session_busy")
    telemetry.aborted(Abort("r", "s", SnapshotStatus.PENDING, SnapshotStatus.ABORTING))
    await engine.close()
    found = points(reader)
    assert found["firesession.turns", "completed"] == 1
    assert found["firesession.same_sends", ""] == 1
    assert found["firesession.refusals", "busy"] == 1
    assert found["firesession.aborts", "aborting"] == 1
    assert (found["firesession.documents", "read"], found["firesession.documents", "written"]) == (5, 4)
    assert found["firesession.state.size", ""] > 50
    (span,) = exporter.get_finished_spans()
    assert isinstance(first, RunningTurn)
    assert span.name == "turn"
    ids = {"session": first.lease.session_id, "snapshot": first.lease.snapshot_id}
    assert dict(span.attributes or {}) == ids | {"status": "completed"}


def test_without_a_collector_nothing_is_configured() -> None:
    """Telemetry that nobody asked for must not need its packages, nor send anything."""
    configure_telemetry({})
    configure_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"})
    Telemetry().turn_ended("completed", 10)


@pytest.mark.parametrize("found", [lambda name: None, _missing], ids=["no module", "no package of it"])
def test_a_collector_that_nothing_can_send_to_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, found: Callable[[str], object]
) -> None:
    monkeypatch.setattr("functions.telemetry.find_spec", found)
    with pytest.raises(SystemExit, match=r"^firesession: OTEL_EXPORTER_OTLP_ENDPOINT: .*install firesession\[otel\]$"):
        require_exporter({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    require_exporter({})
    require_exporter({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"})


def test_calls_are_counted_for_the_task_that_makes_them() -> None:
    """What a request costs is told apart from what the process has cost so far."""
    database = Calls()
    database.count("Commit", written=2)
    with counting() as own:
        database.count("BatchGetDocuments", read=3)
    database.count("Commit", written=1)
    assert own.snapshot() == Tally({"BatchGetDocuments": 1}, 3, 0)
    assert database.snapshot() == Tally({"Commit": 2, "BatchGetDocuments": 1}, 3, 3)
