"""What docs/conformance.md tells a third party to write is all that it takes: run as it stands there, by a pytest that
knows nothing of this project's configuration."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from store.conformance.capabilities import Capability

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
THEIRS = """
from store.memory.database import MemoryDatabase

def YourDatabase(url):
    return MemoryDatabase()
"""
SOME = "TestYourDatabase or takeover or saved or tenant or capabil or declared"


def run_as_told(folder: Path, *options: str) -> str:
    """What pytest says of the page's classes in the end."""
    folder.joinpath("test_yours.py").write_text("".join([*BLOCKS, THEIRS]), encoding="utf-8")
    folder.joinpath("pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_yours.py"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout.strip().splitlines()[-1]


def test_the_harness_has_at_most_forty_lines() -> None:
    [harness] = [
        node for node in ast.parse(BLOCKS[0]).body if isinstance(node, ast.ClassDef) and "Harness" in node.name
    ]
    assert (harness.end_lineno or 0) - harness.lineno < 40
    assert len(BLOCKS[0].splitlines()) <= 40


def test_every_capability_is_told() -> None:
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", PAGE, re.MULTILINE)) == {each.name for each in Capability}


def test_what_the_page_says_is_enough(tmp_path: Path) -> None:
    passed = re.match(r"(\d+) passed", run_as_told(tmp_path, "-k", SOME))
    assert passed is not None
    assert int(passed[1]) > 130


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_whole_suite_passes_as_the_page_says(tmp_path: Path) -> None:
    passed = re.match(r"(\d+) passed", run_as_told(tmp_path))
    assert passed is not None
    assert int(passed[1]) > 700
