"""Telemetry that a test reads back, in place of a collector. Holds no test."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from functions.telemetry import Telemetry


class Measured:
    """What the applications that were made meanwhile have told."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._spans = InMemorySpanExporter()
        self.meters = MeterProvider([self._reader])
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))

    def counters(self) -> dict[str, int]:
        """Every counter that was touched, as in "turns completed": its name and its attribute, if it has one."""
        return {
            " ".join([name, *map(str, (point.attributes or {}).values())]): int(point.value)
            for name, points in self._points().items()
            for point in points
            if hasattr(point, "value")
        }

    def sizes(self) -> tuple[int, int]:
        """How many settled states were measured, and the bytes of all."""
        points = self._points()["state.size"]
        return sum(point.count for point in points), int(sum(point.sum for point in points))

    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, in that order."""
        return list(self._spans.get_finished_spans())

    def _points(self) -> dict[str, list[Any]]:
        data = self._reader.get_metrics_data()
        found = [] if data is None else data.resource_metrics
        metrics = [metric for resource in found for scope in resource.scope_metrics for metric in scope.metrics]
        return {metric.name.removeprefix("firesession."): list(metric.data.data_points) for metric in metrics}


@contextmanager
def measuring() -> Iterator[Measured]:
    """Applications that are made inside are measured."""
    measured = Measured()
    made = partial(Telemetry, meters=measured.meters, tracers=measured.tracers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("functions.wiring.Telemetry", made)
        yield measured
    measured.meters.shutdown()
    measured.tracers.shutdown()
