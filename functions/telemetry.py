"""Spans and metrics, through the OpenTelemetry API: nothing happens unless an exporter is configured.

`OTEL_EXPORTER_OTLP_ENDPOINT` (and the other `OTEL_*` variables of the SDK) configure one; the extra `otel` installs it.
Attributes are ids, statuses and codes, never what a message says.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation

_NAME: Final = "firesession"
_CODES: Final = {
    "agent_session_busy": "busy",
    "agent_session_stale": "stale",
    "agent_session_lease_lost": "lease_lost",
}


class Counted(Protocol):
    """What documents a store has read and written so far."""

    @property
    def read(self) -> int: ...

    @property
    def written(self) -> int: ...

    @property
    def sent(self) -> int: ...


class Telemetry:
    """The instruments of one application; made at its first use, after the process has chosen its providers.

    `documents` is asked for the running count whenever the metrics are read; other providers than the process's can be
    handed in."""

    def __init__(
        self,
        documents: Callable[[], Counted] | None = None,
        *,
        meters: metrics.MeterProvider | None = None,
        tracers: trace.TracerProvider | None = None,
    ) -> None:
        meter = (meters or metrics.get_meter_provider()).get_meter(_NAME)
        self._tracer = (tracers or trace.get_tracer_provider()).get_tracer(_NAME)
        self._turns = meter.create_counter("firesession.turns", unit="{turn}", description="Turns that ended.")
        self._refusals = meter.create_counter("firesession.refusals", unit="{request}", description="Refused requests.")
        self._same_sends = meter.create_counter("firesession.same_sends", unit="{request}")
        self._aborts = meter.create_counter("firesession.aborts", unit="{request}")
        self._takeovers = meter.create_counter("firesession.takeovers", unit="{turn}", description="Expired turns.")
        self._bytes = meter.create_histogram("firesession.state.size", unit="By", description="Settled states.")
        if documents is not None:
            self._observe(meter, documents)

    @staticmethod
    def _observe(meter: metrics.Meter, documents: Callable[[], Counted]) -> None:
        def observed(_: CallbackOptions) -> Iterable[Observation]:
            tally = documents()
            return [Observation(tally.read, {"kind": "read"}), Observation(tally.written, {"kind": "written"})]

        def sent(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(documents().sent)]

        meter.create_observable_counter("firesession.documents", [observed], unit="{document}")
        meter.create_observable_counter("firesession.rpcs", [sent], unit="{call}")

    def turn_ended(self, status: str, state_size: int | None) -> None:
        """A turn that was settled, with the bytes of its state."""
        self._turns.add(1, {"status": status})
        if state_size is not None:
            self._bytes.record(state_size)

    def refused(self, code: str) -> None:
        """A request that was answered with an error."""
        self._refusals.add(1, {"code": _CODES.get(code, code)})

    def sent_again(self) -> None:
        """A message that had its turn already."""
        self._same_sends.add(1)

    def aborted(self, status: str) -> None:
        """An abort, by what it led to."""
        self._aborts.add(1, {"status": status})

    def took_over(self) -> None:
        """A turn that expired, and whose lease another one has taken."""
        self._takeovers.add(1)

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, str]) -> Iterator[Any]:
        """A span around what is done inside."""
        with self._tracer.start_as_current_span(name, attributes=dict(attributes)) as span:
            yield span


def configure_telemetry(environ: Mapping[str, str]) -> None:
    """Sets exporters up where the environment names a collector; RuntimeError where the extra is missing."""
    if not environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise RuntimeError("OTEL_EXPORTER_OTLP_ENDPOINT is set: install firesession[otel].") from error
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())]))
