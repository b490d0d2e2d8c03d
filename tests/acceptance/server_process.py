"""Server processes for tests: started as a user would, in a session of their own, ended by process group.

Holds no test. A server listens on 127.0.0.1 only, at a port of its own.
"""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
CLOSED = {"STORE": "memory", "AUTH": "firebase", "GOOGLE_CLOUD_PROJECT": "demo-closed"}
"""Settings of a server that lets nobody in without a token."""
STOP_SECONDS = 5.0

_FRAMEWORK = Path(sys.executable).with_name("functions-framework")
_COMPLAINTS = re.compile(r"Traceback|never retrieved|never awaited|was destroyed")
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")  # a setting of the tester's own shell must not reach the server


class ServerFailedError(Exception):
    """It ended, or did not answer in time; the message ends with the tail of its log."""


class ServerProcess:
    """A command that serves HTTP at `port`, with its output in `log`; a context manager that ends it."""

    def __init__(
        self, command: Sequence[str], log: Path, port: int, settings: Mapping[str, str], folder: Path = ROOT
    ) -> None:
        self.port = port
        self.log = log
        self._command = command
        self._folder = folder
        self._environ = {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """As in "http://127.0.0.1:8080"."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        """Everything that it has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def group(self) -> int:
        """The id of its process group."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended since."""
        return self._process is not None

    def __enter__(self) -> "ServerProcess":
        self.launch()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def launch(self) -> None:
        """Starts it and returns at once."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_it_answers(self, seconds: float = START_SECONDS) -> None:
        """Returns once GET /health is answered; ServerFailedError when it ends before, or stays silent."""
        deadline = time.monotonic() + seconds
        while not is_healthy(self.port):
            if self._process is None or self._process.poll() is not None:
                raise ServerFailedError(f"The server ended before it answered.\n{self._tail()}")
            if time.monotonic() > deadline:
                raise ServerFailedError(f"The server did not answer within {seconds:.0f} seconds.\n{self._tail()}")
            time.sleep(0.02)

    def terminate(self) -> None:
        """Asks it to end, as the platform does: the first process alone is told."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def wait_until_it_ends(self, seconds: float) -> int:
        """The exit code; ServerFailedError where it has not ended by then."""
        assert self._process is not None
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise ServerFailedError(f"The server did not end within {seconds:.0f} seconds.\n{self._tail()}") from error
        self._process = None
        return code

    def stop(self) -> None:
        """Ends the whole group, at the latest by force; nothing happens when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the whole group as a crash would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freezes the whole group: it does nothing, and knows of nothing, until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Thaws it; nothing happens where it is not frozen."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it does not run"
        os.killpg(self._process.pid, number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):  # workers that outlived the process that started them
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def _tail(self) -> str:
        return "\n".join(self.output.splitlines()[-30:])


class Pair(NamedTuple):
    """Two servers of one deployment: they share the database and nothing else."""

    first: ServerProcess
    second: ServerProcess


def server(folder: Path, settings: Mapping[str, str], name: str = "server") -> ServerProcess:
    """A server of the working tree with `settings`, not started yet; its log goes to `folder`."""
    port = free_port()
    command = [str(_FRAMEWORK), "--target", "app", "--source", "functions/main.py"]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    return ServerProcess([*command, *address], folder / f"{name}-{port}.log", port, settings)


@contextmanager
def running_pair(folder: Path, settings: Mapping[str, str]) -> Iterator[Pair]:
    """Two servers with the same settings; whatever a test does to them, neither may log a failure of its own."""
    pair = Pair(server(folder, settings, "first"), server(folder, settings, "second"))
    with running(*pair):
        yield pair
    for process in pair:
        assert not _COMPLAINTS.search(process.output), process.output


@contextmanager
def running(*servers: ServerProcess) -> Iterator[None]:
    """All of them started together, answering, and ended at the end."""
    try:
        for process in servers:
            process.launch()
        for process in servers:
            process.wait_until_it_answers()
        yield
    finally:
        for process in servers:
            process.stop()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_healthy(port: int) -> bool:
    """Whether GET /health is answered with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
