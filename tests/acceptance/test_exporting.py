"""A server that a collector is named to sends what it measures, the last of it as it ends; others send nothing."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.chat_client import client, send
from tests.acceptance.server_process import running, server

SECRET = "tell-nobody"
STOP_SECONDS = 8.0  # less than what the platform leaves a process
LONG = "600000"  # milliseconds; nothing is sent before the end


class Collector:
    """Takes what OTLP over HTTP brings."""

    def __init__(self) -> None:
        self.received: list[tuple[str, bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.received.append((self.path, body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: its requests are looked at as they are."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Collector":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def spans(self) -> list[str]:
        """The names of those that came."""
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.received if path == "/v1/traces"]
        scopes = [scope for request in requests for part in request.resource_spans for scope in part.scope_spans]
        return [span.name for scope in scopes for span in scope.spans]

    def metrics(self) -> dict[str, int]:
        """The newest value of each counter, all attributes together."""
        found: dict[str, int] = {}
        for path, body in self.received:
            if path == "/v1/metrics":
                for part in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in part.scope_metrics:
                        found |= {one.name: sum(at.as_int for at in one.sum.data_points) for one in scope.metrics}
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


async def converse(folder: Path, settings: dict[str, str]) -> str:
    """Two turns on a server of its own, which is ended as the platform does; its output."""
    process = server(folder, {"STORE": "memory", "LOG_FORMAT": "json"} | settings)
    with running(process):
        async with client(process.url) as http:
            for text in (SECRET, f"/crash {SECRET}"):
                await send(http, {"message": text})
        process.terminate()
        assert process.wait_until_it_ends(STOP_SECONDS) == 0
    return process.output


async def test_a_server_sends_what_it_has_measured_before_it_ends(collector: Collector, tmp_path: Path) -> None:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "K_SERVICE": "", "OTEL_BSP_SCHEDULE_DELAY": LONG}
    output = await converse(tmp_path, settings | {"OTEL_METRIC_EXPORT_INTERVAL": LONG, "OTEL_SERVICE_NAME": "my-chat"})
    assert collector.spans().count("turn") == 2
    assert collector.spans().count("POST /chat") == 2
    assert collector.metrics()["firesession.turns"] == 2
    assert all(b"my-chat" in body for _, body in collector.received)
    assert [path for path, body in collector.received if SECRET.encode() in body] == []
    assert SECRET not in output


@pytest.mark.parametrize("disabled", [True, False], ids=["disabled", "no collector named"])
async def test_otherwise_nothing_is_sent(collector: Collector, tmp_path: Path, disabled: bool) -> None:
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SDK_DISABLED": "true"}
    await converse(tmp_path, named if disabled else {})
    assert collector.received == []


async def test_a_collector_that_is_not_there_holds_nothing_up(tmp_path: Path) -> None:
    """Neither turns nor the end of the process; what the exporter says of it has the form of every line."""
    with Collector() as gone:
        named = {"OTEL_EXPORTER_OTLP_ENDPOINT": gone.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    output = await converse(tmp_path, named | {"OTEL_METRIC_EXPORT_INTERVAL": "100"})
    assert all(line.startswith("{") for line in output.splitlines()), output
    assert SECRET not in output
