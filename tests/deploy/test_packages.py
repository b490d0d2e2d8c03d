"""What is uploaded is complete: unpacked elsewhere, beside nothing but its own requirements, it serves a chat."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.chat_client import client, send_streaming
from tests.acceptance.server_process import ServerProcess, free_port, running
from tests.deploy.packages import ROOT, installed, packed_by_firebase, packed_by_gcloud, python_of, run

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]

LOCKED = (ROOT / "functions" / "requirements.txt").read_bytes()
LITTER = (".env", ".env.demo-x", ".env.local", "debug.log", ".firesession/data", "venv/bin/python", "__pycache__/x.pyc")
OPTIONAL = ("google.cloud.tasks_v2", "opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk.trace")


class Package(NamedTuple):
    """An unpacked upload, the environment that it runs in, and what its buildpack is told of it."""

    folder: Path
    commands: Path
    settings: dict[str, str]

    @contextmanager
    def served(self, function: str, data: Path, **settings: str) -> Iterator[str]:
        """The URL of one of its functions, started as the platform starts it, on the file store in `data`."""
        port = free_port()
        chosen = {"HOST": "127.0.0.1", "PORT": str(port), "FUNCTION_TARGET": function, "STORE": "file"}
        command = [str(self.commands / "functions-framework")]
        environ = {"PATH": str(self.commands), **chosen, "STORE_PATH": str(data), **self.settings, **settings}
        process = ServerProcess(command, data.parent / f"{function}-{port}.log", port, environ, self.folder)
        with running(process):
            yield process.url


@pytest.fixture(params=["gcloud", pytest.param("firebase", marks=pytest.mark.node)])
def package(request: pytest.FixtureRequest, commands: Path) -> Package:
    folder: Path = request.getfixturevalue(f"uploaded_by_{request.param}")
    settings = {"FUNCTION_SOURCE": "functions/main.py"} if request.param == "gcloud" else {}
    return Package(folder, commands, settings)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def tracked(*folders: str) -> set[str]:
    """The files of the repository in these folders, whether committed or not, but for what is ignored."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    return {name for name in run(listed, ROOT).splitlines() if (ROOT / name).is_file()}


def test_from_the_root_goes_what_runs_and_nothing_else(uploaded_by_gcloud: Path) -> None:
    """Data, local configuration, tests and caches stay here. None of it lies behind the link to a folder, which one of
    the archivers follows and another does not."""
    assert names(uploaded_by_gcloud) == tracked("functions", "store", "requirements.txt", "LICENSE")


@pytest.mark.node
def test_from_functions_goes_what_runs_and_nothing_else(uploaded_by_firebase: Path) -> None:
    """The link to store/ is followed."""
    functions = {name.removeprefix("functions/") for name in tracked("functions")}
    assert names(uploaded_by_firebase) == functions | tracked("store")


@pytest.fixture
def littered(tmp_path: Path) -> Path:
    """A working copy as it is after some use."""
    root = tmp_path / "root"
    for name in tracked("functions", "store", "firebase.json", ".gcloudignore", "requirements.txt", "LICENSE"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "functions" / "store").symlink_to("../store")
    for name in LITTER:
        for folder in (root, root / "functions", root / "store"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("private")
    return root


def test_litter_is_not_uploaded_from_the_root(littered: Path, uploaded_by_gcloud: Path, tmp_path: Path) -> None:
    assert names(packed_by_gcloud(tmp_path, littered)) == names(uploaded_by_gcloud)


@pytest.mark.node
def test_litter_is_not_uploaded_from_functions(littered: Path, uploaded_by_firebase: Path, tmp_path: Path) -> None:
    """The CLI reads settings from functions/.env and sends them on its own way."""
    assert names(packed_by_firebase(tmp_path, littered)) == names(uploaded_by_firebase)


def test_a_package_brings_the_locked_requirements(package: Package) -> None:
    assert (package.folder / "requirements.txt").read_bytes() == LOCKED


async def test_a_package_holds_a_chat(package: Package, tmp_path: Path) -> None:
    """Two turns, of which the second is served by another process: what the first has stored is there."""
    data = tmp_path / "data"
    with package.served("app", data) as url:
        async with client(url) as http:
            first = await send_streaming(http, {"message": "Hello"})
    with package.served("app", data) as url:
        async with client(url) as http:
            known = {"sessionId": first.end["sessionId"], "lastMessageId": first.end["lastMessageId"]}
            second = await send_streaming(http, known | {"message": "again"})
            transcript = (await http.get(f"/sessions/{first.end['sessionId']}/messages")).json()["messages"]
    assert [message["content"] for message in transcript] == [
        [{"text": "Hello"}],
        [{"text": "echo: Hello"}],
        [{"text": "again"}],
        [{"text": "echo: again"}],
    ]
    assert transcript[-1]["id"] == second.end["lastMessageId"]


async def test_functions_that_are_deployed_apart_share_their_sessions(package: Package, tmp_path: Path) -> None:
    """One answers the chat, under the full path; another lists the session, and knows no chat."""
    data = tmp_path / "data"
    with package.served("chat", data) as chat, package.served("sessions", data) as sessions:
        async with client(chat) as http:
            sent = await send_streaming(http, {"message": "Hello"})
        async with client(sessions) as http:
            listed = (await http.get("/sessions")).json()["sessions"]
            refused = await http.post("/chat", json={"message": "Hello"})
    assert [session["id"] for session in listed] == [sent.end["sessionId"]]
    assert refused.status_code == 404


def test_deployed_without_authentication_a_package_does_not_start(package: Package) -> None:
    """As it would if somebody forgot AUTH: the platform sees a start that fails, with the reason in the log."""
    environ = {"PATH": str(package.commands), "K_SERVICE": "app", "GOOGLE_CLOUD_PROJECT": "demo-x", **package.settings}
    command = [str(package.commands / "functions-framework"), "--target", "app"]
    started = subprocess.run(command, cwd=package.folder, env=environ, capture_output=True, text=True, timeout=60)
    assert started.returncode != 0
    assert "AUTH: none believes every caller" in started.stderr


def test_what_a_setting_switches_on_is_installed(commands: Path) -> None:
    """TASKS_QUEUE and OTEL_* need packages that nothing else imports."""
    run([str(commands / "python"), "-c", f"import {', '.join(OPTIONAL)}"], ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.12", "3.13"])
async def test_a_package_holds_a_chat_on_other_pythons(version: str, uploaded_by_gcloud: Path, tmp_path: Path) -> None:
    """The other runtimes that a deployment may choose, with the same lock."""
    commands = installed(tmp_path / "environment", uploaded_by_gcloud / "requirements.txt", python_of(version))
    package = Package(uploaded_by_gcloud, commands, {"FUNCTION_SOURCE": "functions/main.py"})
    with package.served("app", tmp_path / "data") as url:
        async with client(url) as http:
            sent = await send_streaming(http, {"message": "Hello"})
    assert sent.end["message"]["content"] == [{"text": "echo: Hello"}]
    run([str(commands / "python"), "-c", f"import {', '.join(OPTIONAL)}, google.cloud.firestore"], ROOT)
