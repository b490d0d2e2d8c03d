"""Spans and metrics, through the OpenTelemetry API: nothing happens unless an exporter is configured.

`OTEL_EXPORTER_OTLP_ENDPOINT` (and the other `OTEL_*` variables of the SDK) configure one; the extra `otel` installs it.
Attributes are ids, statuses and codes, never what a message says, and of an exception its code alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Final, Protocol

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from store.errors import LeaseLostError, StoreError
from store.models import Abort, SnapshotStatus

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
__all__ = ["Counted", "Span", "Telemetry", "configure_telemetry", "fail_span", "is_wanted", "require_exporter"]

FLUSH_SECONDS: Final = 1.5
_NAME: Final = "firesession"
_CODES: Final = {
    "agent_session_busy": "busy",
    "agent_session_stale": "stale",
    "agent_session_lease_lost": "lease_lost",
}
_PARENT: Final = TraceContextTextMapPropagator()


class Counted(Protocol):
    """What a store has asked its database so far."""

    @property
    def read(self) -> int: ...

    @property
    def written(self) -> int: ...

    @property
    def bytes_read(self) -> int: ...

    @property
    def bytes_written(self) -> int: ...

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
        self._turns = meter.create_counter("firesession.turns", "{turn}", "Turns that were settled, by status.")
        self._refusals = meter.create_counter("firesession.refusals", "{request}", "Refused requests, by code.")
        self._same_sends = meter.create_counter("firesession.same_sends", "{request}", "Messages that had their turn.")
        self._aborts = meter.create_counter("firesession.aborts", "{request}", "Aborts, by what they led to.")
        self._expiries = meter.create_counter("firesession.expiries", "{turn}", "Turns whose owner fell silent.")
        self._losses = meter.create_counter(
            "firesession.lease_losses", "{turn}", "Turns that ended without their lease."
        )
        self._bytes = meter.create_histogram("firesession.state.size", "By", "Sizes of settled states.")
        if documents is not None:
            _observe(meter, documents)

    def turn_ended(self, status: str, state_size: int | None) -> None:
        """A turn that was settled, with the bytes of its state."""
        self._turns.add(1, {"status": status})
        if state_size is not None:
            self._bytes.record(state_size)

    def turn_failed_to_end(self, error: StoreError | None) -> None:
        """A turn that was not settled here; what matters is whether its lease was lost."""
        if isinstance(error, LeaseLostError):
            self._losses.add(1)

    def refused(self, code: str) -> None:
        """A request that was answered with an error."""
        self._refusals.add(1, {"code": _CODES.get(code, code)})

    def sent_again(self) -> None:
        """A message that had its turn already."""
        self._same_sends.add(1)

    def aborted(self, abort: Abort) -> None:
        """An abort, by what it led to."""
        self._aborts.add(1, {"status": abort.status.value})
        if abort.previous is SnapshotStatus.EXPIRED:
            self.expired()

    def expired(self) -> None:
        """A turn whose owner has fallen silent, and that was ended for it."""
        self._expiries.add(1)

    @contextmanager
    def span(
        self, name: str, attributes: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> Iterator[Span]:
        """A span around what is done inside; `headers` may say of what trace it is a part. An exception's words stay
        out of it."""
        parent = None if headers is None else _PARENT.extract(headers)
        with self._tracer.start_as_current_span(
            name, parent, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                fail_span(span, getattr(error, "code", StoreError.code))
                raise


def fail_span(span: Span, code: str) -> None:
    """What the span is about has failed."""
    span.set_attribute("code", code)
    span.set_status(Status(StatusCode.ERROR))


def _observe(meter: metrics.Meter, documents: Callable[[], Counted]) -> None:
    def observed(_: CallbackOptions) -> Iterable[Observation]:
        tally = documents()
        return [Observation(tally.read, {"kind": "read"}), Observation(tally.written, {"kind": "written"})]

    def transferred(_: CallbackOptions) -> Iterable[Observation]:
        tally = documents()
        return [Observation(tally.bytes_read, {"kind": "read"}), Observation(tally.bytes_written, {"kind": "written"})]

    def sent(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(documents().sent)]

    meter.create_observable_counter(
        "firesession.documents", [observed], "{document}", "Read from and written to Firestore."
    )
    meter.create_observable_counter("firesession.bytes", [transferred], "By", "Of documents read and written.")
    meter.create_observable_counter("firesession.rpcs", [sent], "{call}", "Calls of Firestore.")


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment names a collector."""
    return bool(environ.get(ENDPOINT)) and environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def require_exporter(environ: Mapping[str, str]) -> None:
    """The end of the process, with one line, where a collector is named and nothing can send to it. Imports nothing."""
    if is_wanted(environ) and not _has("opentelemetry.exporter.otlp.proto.http"):
        raise SystemExit(f"firesession: {ENDPOINT}: is set, but nothing can send to it: install firesession[otel]")


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # one of the packages that it lies in
        return False


def configure_telemetry(environ: Mapping[str, str]) -> Callable[[], Awaitable[None]]:
    """Sets exporters up where the environment names a collector. What is returned sends the rest: at its end the server
    is killed by the signal that told it to end, so that nothing which Python would do then is done."""
    if not is_wanted(environ):
        return _nothing
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = environ.get("OTEL_SERVICE_NAME") or environ.get("K_SERVICE") or _NAME
    resource = Resource.create({SERVICE_NAME: name})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(tracers)
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource)
    metrics.set_meter_provider(meters)

    async def flush() -> None:
        sending = (asyncio.to_thread(provider.force_flush) for provider in (tracers, meters))
        with suppress(TimeoutError):  # a collector that does not answer must not hold the process up
            await asyncio.wait_for(asyncio.gather(*sending, return_exceptions=True), FLUSH_SECONDS)

    return flush


async def _nothing() -> None:
    """What is left to send where nothing is measured."""
