"""The shipped suite fails every backend that breaks a rule, and passes one that offers little and says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.wrong_backends import CAUGHT_BY

ROOT = Path(__file__).resolve().parents[2]
SUITES = "tests/unit/wrong_suites.py"
CHILD = """
import json, sys, pytest

class Failed:
    def __init__(self): self.names, self.passed, self.skipped = [], 0, 0
    def pytest_runtest_logreport(self, report):
        if report.failed: self.names.append(report.nodeid)
        self.passed += report.when == "call" and report.passed
        self.skipped += report.skipped

for name in sys.argv[2:]:
    seen = Failed()
    stop = [] if name == "TestLittle" else ["-x"]
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "--timeout=60", *stop]
    pytest.main([f"{sys.argv[1]}::{name}", *options], plugins=[seen])
    print("\\n@" + json.dumps([name, seen.names, seen.passed, seen.skipped]), flush=True)
"""
WRONG = [f"Test{each.__name__}" for each in CAUGHT_BY] + ["TestUndeclared", "TestOverdeclared"]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[list[str], int, int]]:
    """Of each suite: what failed first, how many cases passed before, how many were skipped."""
    command = [sys.executable, "-c", CHILD, SUITES, *WRONG, "TestLittle"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=290, start_new_session=True, check=True
    )
    found = [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("@")]
    return {name: (failed, passed, skipped) for name, failed, passed, skipped in found}


@pytest.mark.timeout(300)  # the first one waits for all, which is slow where the machine is busy
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_backend_fails(outcomes: dict[str, tuple[list[str], int, int]], name: str) -> None:
    failed, _, _ = outcomes[name]
    assert failed


def test_a_store_that_offers_little_and_says_so_passes(outcomes: dict[str, tuple[list[str], int, int]]) -> None:
    failed, passed, skipped = outcomes["TestLittle"]
    assert failed == []
    assert passed > 50
    assert skipped > 100
