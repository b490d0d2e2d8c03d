"""The emulator as a process: started, stopped, paused, killed; and the command that runs another beside it."""

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from functions.cli.emulator import HOST_VARIABLE, Emulator, EmulatorFailedError, Jar, find_jar

UNUSED = "127.0.0.1:1"  # named, so never started and never asked
EXIT_ON_SIGNAL = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
print("ready", flush=True)
sys.exit(signal.sigwait({signal.SIGINT, signal.SIGTERM}) + 40)
"""


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(find_jar(os.environ)) as emulator:
        yield emulator


def status(host: str) -> int:
    """Of `GET /`; OSError where nothing listens, TimeoutError where nothing answers."""
    connection = http.client.HTTPConnection(host, timeout=0.5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    finally:
        connection.close()


class Start(Protocol):
    """Runs the command line with these arguments, and with `host` as the running emulator, or with none."""

    def __call__(self, *arguments: str, host: str = "") -> subprocess.Popen[str]: ...


@pytest.fixture
def start() -> Iterator[Start]:
    started = []

    def run(*arguments: str, host: str = "") -> subprocess.Popen[str]:
        line = [sys.executable, "-m", "functions.cli.emulator", *arguments]
        environ = {**os.environ, HOST_VARIABLE: host}
        process = subprocess.Popen(
            line, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield run
    for process in started:  # ended by now, unless the test failed
        process.terminate()
        process.communicate(timeout=30)


def test_a_started_emulator_answers(emulator: Emulator) -> None:
    assert status(emulator.host) == 200


def test_a_paused_emulator_answers_only_after_it_is_resumed(emulator: Emulator) -> None:
    emulator.pause()
    with pytest.raises(TimeoutError):
        status(emulator.host)
    emulator.resume()
    assert status(emulator.host) == 200


def test_a_killed_emulator_comes_back_on_the_same_port(emulator: Emulator) -> None:
    host = emulator.host
    emulator.kill()
    with pytest.raises(ConnectionRefusedError):
        status(host)
    emulator.restart()
    assert (emulator.host, status(host)) == (host, 200)


def test_a_paused_emulator_can_be_stopped() -> None:
    with Emulator(find_jar(os.environ)) as emulator:
        emulator.pause()
    with pytest.raises(ConnectionRefusedError):
        status(emulator.host)


def test_one_that_ends_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\necho no such class\nexit 3\n", encoding="utf-8")
    broken.chmod(0o755)
    with pytest.raises(EmulatorFailedError, match=r"(?s)exit code 3.*no such class"):
        Emulator(Jar(tmp_path / "emulator.jar", broken)).start()


def test_the_command_gets_the_host_and_its_exit_code_is_passed_on(start: Start) -> None:
    code = f"import os, sys; print(os.environ['{HOST_VARIABLE}']); sys.exit(3)"
    process = start("--", sys.executable, "-c", code, host=UNUSED)
    assert process.communicate(timeout=30) == (f"{UNUSED}\n", "")
    assert process.returncode == 3


def test_the_emulator_lives_as_long_as_the_command(start: Start) -> None:
    code = f"""
import http.client, os
host = os.environ["{HOST_VARIABLE}"]
connection = http.client.HTTPConnection(host, timeout=5)
connection.request("GET", "/")
print(host, connection.getresponse().status)
"""
    output, errors = start("--", sys.executable, "-c", code).communicate(timeout=60)
    host, answer = output.split()
    assert (answer, errors) == ("200", "")
    with pytest.raises(ConnectionRefusedError):
        status(host)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_to_the_command(start: Start, number: signal.Signals) -> None:
    process = start("--", sys.executable, "-c", EXIT_ON_SIGNAL, host=UNUSED)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == number + 40


def test_a_command_that_a_signal_ended_gives_128_and_the_signal(start: Start) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    process = start("--", sys.executable, "-c", code, host=UNUSED)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGKILL


def test_a_missing_command_is_one_line(start: Start) -> None:
    process = start("--", "no-such-command", host=UNUSED)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.count("\n")) == (69, 1)


def test_wrong_arguments_are_answered_with_the_usage(start: Start) -> None:
    process = start("no-such-option", host=UNUSED)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert errors.startswith("usage:")
