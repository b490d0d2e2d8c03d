"""What a fresh process imports, before its first request and by it: nothing heavy that its settings do not use."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATABASE: Final = {"google.cloud.firestore_v1", "google.api_core", "grpc", "proto"}
TOKENS: Final = {"jwt"}
OTHERS: Final = {  # of extras, of agents, of tests and tools: no setting below asks for them
    "ag_ui",
    "firebase_admin",
    "firebase_functions",
    "genkit",
    "google.cloud.firestore",  # the same client under its other name, with what is built upon it
    "google.cloud.tasks",
    "google.cloud.tasks_v2",
    "google.genai",
    "httpx",
    "hypothesis",
    "openai",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "pydantic_ai",
    "pytest",
    "schemathesis",
}
HEAVY: Final = DATABASE | TOKENS | OTHERS | {"cryptography", "requests"}
SCRIPT: Final = """
import asyncio, json, sys
import functions.main
from starlette.requests import Request

def heavy():
    return sorted(set(json.loads(sys.argv[1])) & sys.modules.keys())

async def health():
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": [], "query_string": b""}
    return (await functions.main.app(Request(scope))).status_code

before = heavy()
assert asyncio.run(health()) == 200
print(json.dumps([before, heavy()]))
"""


def imported(settings: Mapping[str, str], folder: Path) -> tuple[set[str], set[str]]:
    """Which of HEAVY a fresh process has imported once it could be asked, and which more by its first answer, for which
    it has built everything that the settings name."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "STORE_PATH": str(folder / "sessions")}
    command = [sys.executable, "-c", SCRIPT, json.dumps(sorted(HEAVY))]
    done = subprocess.run(
        command, cwd=folder, env={**environ, **settings}, capture_output=True, text=True, check=True, timeout=60
    )
    before, after = map(set, json.loads(done.stdout))
    return before, after - before


@pytest.mark.parametrize("store", ["memory", "file"])
def test_a_local_store_imports_nothing_of_the_cloud(store: str, tmp_path: Path) -> None:
    assert imported({"STORE": store, "AUTH": "none"}, tmp_path) == (set(), set())


def test_the_database_client_is_imported_by_the_first_request_that_needs_it(tmp_path: Path) -> None:
    """Where it is configured, and with what it brings itself; neither tokens nor queue nor exporters come along."""
    settings = {"STORE": "firestore", "GOOGLE_CLOUD_PROJECT": "demo-imports", "FIRESTORE_EMULATOR_HOST": "127.0.0.1:1"}
    before, by_request = imported(settings, tmp_path)
    assert before == set()
    assert by_request >= DATABASE
    assert by_request <= DATABASE | {"cryptography", "requests"}


def test_checking_tokens_is_what_imports_the_library_for_them(tmp_path: Path) -> None:
    settings = {"STORE": "memory", "AUTH": "firebase", "GOOGLE_CLOUD_PROJECT": "demo-imports"}
    assert imported(settings, tmp_path) == (set(), {"jwt", "cryptography"})
