"""Firebase's emulators of functions, Firestore and hosting, with what `firebase deploy` uploads. Holds no test.

The CLI takes `java` from PATH, 21 or newer, and starts Firestore's emulator with `java -jar`, which the Google Cloud
SDK's jar is not made for: a jar around it names its main class. Functions run in `functions/venv`, each request that
finds no idle one in a process pair of its own, and some are left behind at the end: all are found by a mark.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from functions.cli.emulator import EmulatorNotFoundError, find_jar
from tests.acceptance.server_process import free_port
from tests.deploy.packages import ROOT, firebase_cli

JAVA = 21
START_SECONDS = 120.0
STOP_SECONDS = 20.0

_MARK = "FIRESESSION_TEST_SUITE"
_MAIN = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
_EMULATED = ("functions", "firestore", "hosting")
_PORTS = (*_EMULATED, "hub", "logging", "eventarc", "tasks")


class Suite(NamedTuple):
    """Where the emulators answer."""

    project: str
    functions: str
    firestore: str
    hosting: str

    @property
    def mark(self) -> str:
        """What all of its processes have in their environment."""
        return f"{_MARK}={self.project}"

    def function(self, name: str) -> str:
        """The URL of a function."""
        return f"{self.functions}/{self.project}/us-central1/{name}"


@contextmanager
def emulator_suite(folder: Path, package: Path, commands: Path, **settings: str) -> Iterator[Suite]:
    """The running suite, in a project of its own; `settings` go where the CLI looks for local ones."""
    java, ports, project = _java(), {name: free_port() for name in _PORTS}, f"demo-{uuid.uuid4().hex[:12]}"
    _lay_out(folder, package, commands, ports, settings)
    at = {name: f"http://127.0.0.1:{ports[name]}" for name in _EMULATED}
    suite = Suite(project, at["functions"], at["firestore"], at["hosting"])
    environ = {"PATH": f"{java.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "CI": "true"}
    environ |= {"FIRESTORE_EMULATOR_BINARY_PATH": str(folder / "firestore.jar"), _MARK: project}
    command = [str(firebase_cli()), "emulators:start", "--only", ",".join(_EMULATED), "--project", project]
    log_file = folder / "suite.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_until(process, log_file, lambda: "All emulators ready" in log_file.read_text(errors="replace"))
        _wait_until(process, log_file, lambda: _is_ready(suite))
        yield suite
    finally:
        _end(process, suite.mark)


def left_behind(mark: str) -> list[int]:
    """The processes that were started with this mark in their environment and have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def _java() -> Path:
    """A Java that the CLI accepts; the test is skipped where there is none."""
    homes = [os.environ.get("JAVA_HOME", ""), *map(str, sorted(Path("/usr/lib/jvm").glob("*"), reverse=True))]
    found = [shutil.which("java"), *(shutil.which("java", path=f"{home}/bin") for home in homes if home)]
    versions = {java: _version(java) for java in found if java is not None}
    for java, version in versions.items():
        if version >= JAVA:
            return Path(java)
    seen = ", ".join(f"{java} is {version}" for java, version in versions.items()) or "no Java is installed"
    pytest.skip(f"the Firebase CLI needs Java {JAVA} or newer: {seen}")


def _version(java: str) -> int:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    number = re.search(r'version "(\d+)', said)
    return int(number[1]) if number else 0


def _lay_out(folder: Path, package: Path, commands: Path, ports: dict[str, int], settings: dict[str, str]) -> None:
    """What the CLI finds in its project: the package in place of functions/, and our firebase.json at free ports."""
    shutil.copytree(package, folder / "functions")
    (folder / "functions" / "venv").symlink_to(commands.parent)
    (folder / "functions" / ".env.local").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    shutil.copytree(ROOT / "emulator_config", folder / "emulator_config")
    config: dict[str, Any] = json.loads((ROOT / "firebase.json").read_text(encoding="utf-8"))
    at: dict[str, Any] = {name: {"host": "127.0.0.1", "port": port} for name, port in ports.items()}
    at["firestore"]["websocketPort"] = free_port()
    config["emulators"] = config["emulators"] | at
    (folder / "firebase.json").write_text(json.dumps(config), encoding="utf-8")
    _wrap(folder / "firestore.jar")


def _wrap(target: Path) -> None:
    """A jar that starts the Google Cloud SDK's; the test is skipped where there is none."""
    try:
        jar = find_jar(os.environ).path
    except EmulatorNotFoundError as error:
        pytest.skip(str(error))
    manifest = ["Manifest-Version: 1.0", f"Main-Class: {_MAIN}", f"Class-Path: {jar.as_uri()}"]
    # Lines of a manifest are at most 72 bytes long; the rest goes on behind a space.
    folded = ["\r\n ".join(re.findall(".{1,70}", line)) for line in manifest]
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "\r\n".join(folded) + "\r\n")


def _wait_until(process: subprocess.Popen[bytes], log: Path, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"The emulator suite did not come up.\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.1)


def _is_ready(suite: Suite) -> bool:
    """Whether a function reads from Firestore, whose first answer takes some ten seconds on a busy machine."""
    with suppress(httpx.TransportError):
        return httpx.get(f"{suite.function('app')}/ready", timeout=60, trust_env=False).status_code == 200
    return False


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """Ends it as Ctrl-C does, and then whatever it has left behind."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    deadline = time.monotonic() + STOP_SECONDS
    while (left := left_behind(mark)) and time.monotonic() < deadline:
        for each in left:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.05)  # a killed process is there until the system has taken it down
    process.wait(STOP_SECONDS)
