"""Finds, starts and stops the Firestore emulator. Knows nothing of sessions; never stops what it did not start.

Looked for in this order: a running one named by FIRESTORE_EMULATOR_HOST, the Google Cloud SDK's, the Firebase CLI's.
Java is started directly: its launcher scripts take seconds, and leave Java running when they are ended.

    python -m functions.cli.emulator -- COMMAND...

runs COMMAND with FIRESTORE_EMULATOR_HOST set, passes signals to it, and ends with its exit code.
"""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

HOST_VARIABLE = "FIRESTORE_EMULATOR_HOST"
START_SECONDS = 60.0
STOP_SECONDS = 5.0

_SDK = "google-cloud-sdk"
_JAR_IN_SDK = Path("platform", "cloud-firestore-emulator", "cloud-firestore-emulator.jar")
_JAR_IN_CACHE = re.compile(r"cloud-firestore-emulator-v(\d+(?:\.\d+)*)\.jar")
_JAVA_FLAGS = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.language=en")
_MAIN_CLASS = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"


class EmulatorNotFoundError(Exception):
    """There is none on this machine, or no Java to run it; the message is one line that says how to get it."""


class EmulatorFailedError(Exception):
    """It was started and did not come up; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Running:
    """An emulator that somebody else runs at `host` ("address:port")."""

    host: str


@dataclass(frozen=True, slots=True)
class Jar:
    """An installed emulator, and the Java that can run it."""

    path: Path
    java: Path


def find_emulator(environ: Mapping[str, str]) -> Running | Jar:
    """What FIRESTORE_EMULATOR_HOST names, unasked whether it answers; otherwise what is installed."""
    host = environ.get(HOST_VARIABLE)
    return Running(host) if host else find_jar(environ)


def find_jar(environ: Mapping[str, str]) -> Jar:
    """The installed emulator, whatever FIRESTORE_EMULATOR_HOST says; EmulatorNotFoundError where there is none."""
    path = _jar_of_sdk(environ) or _jar_of_firebase(environ)
    if path is None:
        raise EmulatorNotFoundError(
            "No Firestore emulator found: install one with `gcloud components install cloud-firestore-emulator`, the "
            "package google-cloud-cli-firestore-emulator, or `firebase setup:emulators:firestore`, or set "
            f"{HOST_VARIABLE} to a running one."
        )
    java = _find_java(environ)
    if java is None:
        raise EmulatorNotFoundError(
            f"The Firestore emulator at {path} needs Java 17 or newer: put `java` on PATH or set JAVA_HOME."
        )
    return Jar(path, java)


def _jar_of_sdk(environ: Mapping[str, str]) -> Path | None:
    return next((root / _JAR_IN_SDK for root in _sdk_roots(environ) if (root / _JAR_IN_SDK).is_file()), None)


def _sdk_roots(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where the SDK may be installed, the likeliest first; gcloud itself, which is slow, is not asked."""
    if environ.get("CLOUDSDK_ROOT_DIR"):
        yield Path(environ["CLOUDSDK_ROOT_DIR"])
    gcloud = shutil.which("gcloud", path=environ.get("PATH", ""))
    if gcloud:
        yield from _sdk_roots_of_command(Path(gcloud))
    for directory in filter(None, environ.get("PATH", "").split(os.pathsep)):
        prefix = Path(directory).parent
        yield from (prefix, *(prefix / folder / _SDK for folder in ("", "lib", "share", "opt")))
    if environ.get("HOME"):
        yield Path(environ["HOME"], _SDK)


def _sdk_roots_of_command(gcloud: Path) -> Iterator[Path]:
    real = gcloud.resolve()
    yield real.parent.parent
    with suppress(OSError, UnicodeDecodeError):  # a binary is no wrapper script, and names nothing
        for root in re.findall(r"(/[^\s\"'=:]+)/bin/gcloud\b", real.read_text(encoding="utf-8")):
            yield Path(root)


def _jar_of_firebase(environ: Mapping[str, str]) -> Path | None:
    """The newest in the Firebase CLI's cache."""
    cache = environ.get("FIREBASE_EMULATORS_PATH")
    if not cache and not environ.get("HOME"):
        return None
    folder = Path(cache) if cache else Path(environ["HOME"], ".cache", "firebase", "emulators")
    jars = [path for path in folder.glob("*.jar") if _JAR_IN_CACHE.fullmatch(path.name)]
    return max(jars, key=_version, default=None)


def _version(jar: Path) -> tuple[int, ...]:
    match = _JAR_IN_CACHE.fullmatch(jar.name)
    return tuple(int(number) for number in match[1].split(".")) if match else ()


def _find_java(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("JAVA_HOME")
    folders = [str(Path(home, "bin"))] if home else []
    java = shutil.which("java", path=os.pathsep.join([*folders, environ.get("PATH", "")]))
    return Path(java) if java else None


class Emulator:
    """One emulator process with a port of its own, at 127.0.0.1 only; a context manager that starts and stops it.

    Its documents live in its memory: they outlast pause(), and are gone after stop(), kill() and restart().
    """

    def __init__(self, jar: Jar) -> None:
        self._jar = jar
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def host(self) -> str:
        """Address and port, as in "127.0.0.1:8085"; the same for the object's whole life."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> "Emulator":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when it answers; EmulatorFailedError when it ended before, or has not answered after 60 seconds."""
        if self._process:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="firestore-emulator-")
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    self._command(),
                    cwd=self._folder.name,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._wait_until_it_answers(self._process)
        except BaseException:
            self._end(signal.SIGKILL)
            raise

    def stop(self) -> None:
        """Ends it, also when paused; nothing happens when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a crash would: connections break and nobody is told."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stops it if it runs, and starts it empty on the same port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Connections stay open and nothing is answered, until resume()."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undoes pause(); what was sent meanwhile is answered now."""
        self._signal(signal.SIGCONT)

    @property
    def _log(self) -> Path:
        return Path(self._folder.name if self._folder else "", "log")

    def _command(self) -> list[str]:
        start = (_MAIN_CLASS, "start", "--host=127.0.0.1", f"--port={self._port}")
        return [str(self._jar.java), *_JAVA_FLAGS, "-cp", str(self._jar.path), *start]

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(self._port):
            if process.poll() is not None:
                self._fail(f"ended with exit code {process.returncode} before it answered")
            if time.monotonic() > deadline:
                self._fail(f"did not answer within {START_SECONDS:.0f} seconds")
            time.sleep(0.05)

    def _fail(self, what: str) -> None:
        tail = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        lines = (f"The Firestore emulator at {self.host} {what}. Its log ends with:", *tail)
        raise EmulatorFailedError("\n".join(lines))

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if self._process and self._process.poll() is None:
                os.killpg(self._process.pid, number)

    def _end(self, number: signal.Signals) -> None:
        if self._process:
            self._signal(number)
            self._signal(signal.SIGCONT)  # a paused process would not see SIGTERM
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
            self._process = None
        if self._folder:
            self._folder.cleanup()
            self._folder = None


def _free_port() -> int:
    # The emulator's own `--port=0` does not tell which port it took.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def running_emulator(environ: Mapping[str, str]) -> Iterator[str]:
    """The host of an emulator: the one that `environ` names, or one started now and stopped at the end."""
    found = find_emulator(environ)
    if isinstance(found, Running):
        yield found.host
        return
    with Emulator(found) as emulator:
        yield emulator.host


class _Signals:
    """Passes the signals that would end this process on to `command`, also those that came before it was started."""

    def __init__(self) -> None:
        self.early: list[int] = []
        self._command: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._take)

    def pass_to(self, command: subprocess.Popen[bytes]) -> None:
        self._command = command
        while self.early:
            command.send_signal(self.early.pop(0))

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._command:
            self._command.send_signal(number)
        else:
            self.early.append(number)


def _run(command: Sequence[str], host: str, signals: _Signals) -> int:
    if signals.early:  # ended while the emulator came up
        return 128 + signals.early[0]
    # In a session of its own: a terminal would send Ctrl-C to it too, and it would get every signal twice.
    process = subprocess.Popen(command, env={**os.environ, HOST_VARIABLE: host}, start_new_session=True)
    signals.pass_to(process)
    code = process.wait()
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """The exit code of the command; 128 + N when signal N ended it; 2 for wrong arguments, 69 without an emulator."""
    if len(arguments) < 2 or arguments[0] != "--":
        print("usage: python -m functions.cli.emulator -- COMMAND...", file=sys.stderr)
        return 2
    signals = _Signals()
    try:
        with running_emulator(os.environ) as host:
            return _run(arguments[1:], host, signals)
    except (EmulatorNotFoundError, EmulatorFailedError, FileNotFoundError, PermissionError) as error:
        print(error, file=sys.stderr)
        return 69


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
