"""The way in: `make serve`, the line that it prints, and everything still there after a restart.

With this environment in the fast tests; in a fresh clone, which installs everything, in the slow ones.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.acceptance.chat_client import parse_frame
from tests.acceptance.server_process import ROOT, ServerProcess, free_port

INSTALL_SECONDS = 500.0
HERE = [f"VENV={sys.prefix}", f"--assume-old={sys.prefix}/.runtime"]  # installs nothing

Make: TypeAlias = Callable[..., ServerProcess]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git has, or would have if all were committed; links as links, and nothing that it ignores."""
    folder = tmp_path_factory.mktemp("clone") / "firesession"
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if os.path.lexists(ROOT / name):  # removed, and not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    assert os.readlink(folder / "functions" / "store") == "../store"
    return folder


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Runs `make` with these arguments in a folder; the server answers when this returns."""
    started: list[ServerProcess] = []

    def run(folder: Path, *arguments: str) -> ServerProcess:
        port = free_port()
        kept = ("PIP_", "JAVA_", "CLOUDSDK_")
        settings = {name: value for name, value in os.environ.items() if name.startswith(kept)} | {"PORT": str(port)}
        process = ServerProcess(["make", *arguments], tmp_path / f"make-{port}.log", port, settings, folder)
        started.append(process)
        process.launch()
        process.wait_until_it_answers(INSTALL_SECONDS)
        return process

    yield run
    for process in started:
        process.stop()


def curl_line(process: ServerProcess) -> str:
    """The line that it printed."""
    (line,) = [line for line in process.output.splitlines() if line.startswith("curl ")]
    return line


def shell(line: str) -> str:
    """What the line prints."""
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, timeout=60).stdout


def check_streamed_answer(output: str) -> str:
    """The id of the session that the streamed answer belongs to."""
    events = [event for frame in output.split("\n\n")[:-1] if (event := parse_frame(frame))]
    assert [event.name for event in events][:2] == ["turn-start", "text-delta"]
    assert (events[-1].name, events[-1].data["status"]) == ("turn-end", "completed")
    assert events[-1].data["message"]["content"] == [{"text": "echo: Hello"}]
    return str(events[-1].data["sessionId"])


def check_conversation_survives(make: Make, folder: Path, *arguments: str) -> None:
    """Chats by the printed line, restarts, and reads the very same transcript."""
    server = make(folder, "serve", *arguments)
    session_id = check_streamed_answer(shell(curl_line(server)))
    messages = shell(f"curl -s {server.url}/sessions/{session_id}/messages")
    assert '"text":"echo: Hello"' in messages
    server.stop()
    again = make(folder, "serve", *arguments)
    assert shell(f"curl -s {again.url}/sessions/{session_id}/messages") == messages


def test_the_line_that_make_serve_prints_chats_and_the_conversation_survives_a_restart(
    make: Make, tmp_path: Path
) -> None:
    check_conversation_survives(make, ROOT, *HERE, f"STORE_PATH={tmp_path / 'sessions'}")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_make_serve_needs_nothing_but_a_clone(make: Make, clone: Path) -> None:
    assert not (clone / ".venv").exists()
    check_conversation_survives(make, clone)
    assert (clone / ".firesession").is_dir()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_make_serve_emulator_serves_on_an_emulator_of_its_own(make: Make, clone: Path) -> None:
    server = make(clone, "serve-emulator")
    check_streamed_answer(shell(curl_line(server)))
    assert '"status":"ok"' in shell(f"curl -s {server.url}/ready")
