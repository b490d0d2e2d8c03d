"""The shipped suite fails every backend that breaks a rule, and passes one that offers little and says so."""

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from store import conformance
from store.conformance import database_suite, suite
from store.conformance.capabilities import PROTOCOLS, methods_of
from tests.unit.wrong_backends import WRONG_DATABASES, WRONG_STORES, Wrong, suite_name

ROOT = Path(__file__).resolve().parents[2]
SUITES = "tests/unit/wrong_suites.py"
CHILD = """
import collections, json, sys, pytest

class Outcomes:
    def __init__(self, whole):
        self.whole, self.failed = whole, collections.defaultdict(list)
        self.passed, self.skipped = collections.Counter(), collections.Counter()
    def pytest_runtest_setup(self, item):
        if self.failed[item.cls.__name__] and item.cls.__name__ not in self.whole:
            pytest.skip("one failure is enough")
    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::")[1]
        if report.failed: self.failed[name].append(report.nodeid)
        self.passed[name] += report.when == "call" and report.passed
        self.skipped[name] += report.skipped

names, whole = json.loads(sys.argv[2])
seen = Outcomes(whole)
options = ["-q", "-p", "no:cacheprovider", "--no-header", "--timeout=240"]
pytest.main([*(f"{sys.argv[1]}::{name}" for name in names), *options], plugins=[seen])
print("\\n@" + json.dumps({name: [seen.failed[name], seen.passed[name], seen.skipped[name]] for name in names}))
"""
WRONG = {suite_name(wrong): wrong for wrong in [*WRONG_STORES, *WRONG_DATABASES]}
DECLARED_WRONGLY = ["TestUndeclared", "TestOverdeclared", "TestUndeclaredOwnIds", "TestOverdeclaredOwnIds"]
RIGHT = ["TestLittle", "TestClosed"]


def rules() -> list[tuple[str, str]]:
    """What always holds, rule by rule."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = text.split("## What always holds")[1].split("##")[0]
    return re.findall(r"^(\d+)\. (.+)$", section, re.MULTILINE)


def told(wrong: Wrong) -> str:
    """Which rule the backend breaks, and how."""
    promise = "besides the rules" if wrong.rule is None else f"rule {wrong.rule}"
    return f"{promise}: {wrong.backend.__name__} in {wrong.cases.__name__}"


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[list[str], int, int]]:
    """Of each suite: what failed first, how many cases passed before, how many were skipped."""
    names = json.dumps([[*WRONG, *DECLARED_WRONGLY, *RIGHT], RIGHT])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, SUITES, names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=890,
        start_new_session=True,
        check=True,
    )
    [line] = [line for line in done.stdout.splitlines() if line.startswith("@")]
    return {name: (failed, passed, skipped) for name, (failed, passed, skipped) in json.loads(line[1:]).items()}


def test_every_rule_of_the_design_is_broken_by_a_backend() -> None:
    assert {wrong.rule for wrong in WRONG_STORES} - {None} == {int(number) for number, _ in rules()}
    assert len(rules()) == 11


@pytest.mark.timeout(900)  # the first one waits for all, which is slow where the machine is busy
@pytest.mark.parametrize("name", [pytest.param(name, id=told(wrong)) for name, wrong in WRONG.items()])
def test_a_wrong_backend_fails(outcomes: dict[str, tuple[list[str], int, int]], name: str) -> None:
    failed, _, _ = outcomes[name]
    assert failed


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DECLARED_WRONGLY)
def test_a_backend_that_declares_the_wrong_capabilities_fails(
    outcomes: dict[str, tuple[list[str], int, int]], name: str
) -> None:
    failed, _, _ = outcomes[name]
    assert failed


def test_a_store_that_offers_little_and_says_so_passes(outcomes: dict[str, tuple[list[str], int, int]]) -> None:
    failed, passed, skipped = outcomes["TestLittle"]
    assert failed == []
    assert passed > 50
    assert skipped > 100


def test_a_store_that_shows_no_documents_passes(outcomes: dict[str, tuple[list[str], int, int]]) -> None:
    failed, passed, skipped = outcomes["TestClosed"]
    assert failed == []
    assert passed > 400
    assert skipped < passed


def modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(conformance.__path__)]


def test_every_case_of_the_kit_is_in_one_of_its_suites_and_hides_no_other() -> None:
    """Two mixins with a case of the same name would run one of them."""
    found = [
        each
        for name in modules()
        for each in vars(importlib.import_module(f"store.conformance.{name}")).values()
        if isinstance(each, type) and each.__name__.endswith("Cases")
    ]
    suites = (suite.StoreConformance, database_suite.DatabaseConformance)
    assert {each for each in found if not any(issubclass(whole, each) for whole in suites)} == set()
    for whole in suites:
        names = [name for each in {*found} & {*whole.__mro__} for name in vars(each) if name.startswith("test_")]
        assert sorted(names) == sorted(set(names))


def test_every_capability_is_asked_of_by_the_kit() -> None:
    """A capability without a case would be a word."""
    sources = [Path(conformance.__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in modules()]
    text = "\n".join(sources)
    for capability, protocol in PROTOCOLS.items():
        unused = {method for method in methods_of(protocol) if f".{method}(" not in text}
        assert unused == set(), f"no case of {capability.value!r} calls {unused}"
