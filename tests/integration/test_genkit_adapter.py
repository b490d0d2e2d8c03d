"""Genkit's own suites pass with our store in the place of theirs."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.genkit.packages import PYTHON_FOLDER, ROOT, genkit_python, genkit_sources

SPEC = ROOT.parent / "shared" / "data" / "genkit_agent_spec.yaml"
SUITE_SECONDS = 280

pytestmark = [pytest.mark.genkit, pytest.mark.timeout(1200)]


def run(script: str, *arguments: str) -> str:
    """What a script printed that ran with Genkit's packages."""
    done = subprocess.run(
        [str(genkit_python()), str(PYTHON_FOLDER / script), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of Genkit's tests with the specification where they look for it."""
    if not SPEC.is_file():
        pytest.skip(f"the specification of Genkit's agents is not there: {SPEC.name}")
    folder = tmp_path_factory.mktemp("genkit")
    shutil.copytree(genkit_sources() / "tests", folder / "tests")
    (folder / "tests" / "specs").mkdir(exist_ok=True)
    shutil.copy(SPEC, folder / "tests" / "specs" / "agent.yaml")
    return folder


@pytest.mark.parametrize("kind", ["memory", "firestore"])
def test_the_suite_of_genkit_s_agents_passes(kind: str, sources: Path, emulator_host: str) -> None:
    assert emulator_host
    printed = run("conformance.py", kind, str(sources))
    assert "53 passed" in printed
    [made] = re.findall(r"^(\d+) stores of ours were made$", printed, re.MULTILINE)
    assert int(made) >= 39  # the suite has really run on ours


def test_the_adapter_keeps_its_own_promises() -> None:
    printed = run("adapter_suite.py")
    assert re.search(r"\b[1-9]\d* passed", printed)
    assert "failed" not in printed
