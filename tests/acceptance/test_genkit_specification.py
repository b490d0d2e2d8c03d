"""Genkit's specification of its agents, against a server on the emulator: the cases that HTTP can express."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.server_process import ROOT, ServerProcess, running, server
from tests.genkit.specification import SPEC, Run, cases, wait_until_ready

CASES = cases()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model's next answers lie."""
    return tmp_path_factory.mktemp("script") / "responses.json"


@pytest.fixture(scope="module")
def served(
    firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory, script: Path
) -> Iterator[ServerProcess]:
    """A server with the agents of the specification."""
    settings = firestore_settings | {
        "AGENT": "tests.genkit.scripted_agents:Agents",
        "MODEL_RESPONSES": str(script),
        "PYTHONPATH": str(ROOT),
        "MAX_TURNS_PER_USER": "50",
    }
    process = server(tmp_path_factory.mktemp("genkit"), settings)
    with running(process):
        wait_until_ready(process.url)
        yield process
    assert "Traceback" not in process.output


@pytest.fixture
def http(served: ServerProcess, user: str) -> Iterator[httpx.Client]:
    """A client as a user that nobody else is."""
    with httpx.Client(base_url=served.url, headers={"x-user-id": user}, timeout=30) as client:
        yield client


def test_the_specification_is_there_and_has_all_its_cases() -> None:
    if not SPEC.is_file():
        pytest.skip(f"the specification of Genkit's agents is not there: {SPEC.name}")
    assert len(CASES) == 37


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_case_of_the_specification_holds(case: dict[str, Any], http: httpx.Client, script: Path) -> None:
    run = Run(http, case["agent"], script)
    for step in copy.deepcopy(case["steps"]):
        run.step(step)
