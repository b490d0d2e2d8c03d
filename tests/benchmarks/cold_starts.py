"""Fresh processes, measured: one that serves, up to its first answer, and one that only imports what that one has
imported of other people. Holds no test.

Neither inherits the tester's environment, so that both keep their compiled code as a deployment does.
"""

import http.client
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tests.acceptance.server_process import ROOT, running, server

PATIENCE: Final = 60.0  # seconds
PAUSE: Final = 0.002

LOCAL: Final = (  # what any server imports of other people, by its first answer
    "functions_framework.aio",
    "functions_framework._http.gunicorn",
    "jsonpatch",
    "opentelemetry.metrics",
    "opentelemetry.trace",
    "pydantic.fields",
    "pydantic.main",
    "starlette.responses",
    "zstandard",
)
CLOUD: Final = (*LOCAL, "google.cloud.firestore_v1")
_SERVE: Final = """
import asyncio
import functions_framework._http.gunicorn
import functions.main
from starlette.requests import Request

async def health():
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": [], "query_string": b""}
    return (await functions.main.app(Request(scope))).status_code

assert asyncio.run(health()) == 200
"""
_LIST: Final = """
import json, sys
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names)))
"""


class Seconds(NamedTuple):
    """As a clock on the wall tells them, and those in which a processor worked for it: on a busy machine the latter say
    more."""

    wall: float
    cpu: float


def served_packages(settings: Mapping[str, str], folder: Path) -> set[str]:
    """The packages that a server with `settings` has imported by its first answer, but our own."""
    return _packages(_SERVE, settings, folder) - {"functions", "store"}


def imported_packages(modules: Sequence[str], folder: Path) -> set[str]:
    """The packages that these modules bring."""
    return _packages(_imports(modules), {}, folder)


def cost_of_imports(modules: Sequence[str], folder: Path) -> Seconds:
    """From the start of a process to its end, which comes at once when it has imported these and nothing else."""
    started, before = time.perf_counter(), _cpu_of_children()
    _python(f"{_imports(modules)}\nimport os\nos._exit(0)", {}, folder)
    return Seconds(time.perf_counter() - started, _cpu_of_children() - before)


def cost_of_answer(settings: Mapping[str, str], folder: Path, method: str, path: str, body: object = None) -> Seconds:
    """From the start of a server's process to the end of its first answer."""
    process = server(folder, settings)
    started = time.perf_counter()
    process.launch()
    try:
        _first_answer(process.port, method, path, body)
        return Seconds(time.perf_counter() - started, _cpu_of_group(process.group))
    finally:
        process.stop()


def settle_in(settings: Sequence[Mapping[str, str]], folder: Path) -> None:
    """Lets each server run once, so that compiled code and file caches are there for all that is measured."""
    for given in settings:
        with running(server(folder, given)):
            pass


def _cpu_of_children() -> float:
    """Of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_of_group(group: int) -> float:
    """Of the processes of a group so far, in steps of a hundredth."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = stat.read_text("ascii", "replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _imports(modules: Sequence[str]) -> str:
    return "\n".join(f"import {module}" for module in modules)


def _packages(script: str, settings: Mapping[str, str], folder: Path) -> set[str]:
    found: list[str] = json.loads(_python(f"{script}\n{_LIST}", settings, folder))
    return {name for name in found if not name.startswith("_")}  # accelerators, and what an installation adds


def _python(script: str, settings: Mapping[str, str], folder: Path) -> str:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **settings}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, check=True).stdout


def _first_answer(port: int, method: str, path: str, body: object) -> None:
    for _ in _moments():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.connect()
        except ConnectionRefusedError:
            continue
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
        connection.close()
        return


def _moments() -> Iterator[None]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
        time.sleep(PAUSE)
    raise AssertionError(f"no server within {PATIENCE:.0f} seconds")
