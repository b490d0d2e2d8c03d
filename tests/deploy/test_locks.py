"""The locks name one version of everything, with the hashes of its files, and nothing of the machine that made them."""

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.deploy.packages import ROOT, run
from tools.requirements import DEPLOYED, LOCKS, Lock, is_current

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PIN = re.compile(r"(?P<name>[a-z0-9.-]+)==(?P<version>[0-9a-z.]+)( ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")


def pins(lock: Lock) -> dict[str, str]:
    lines = lock.path.read_text(encoding="utf-8").splitlines()
    return {found["name"]: found["version"] for line in lines if (found := PIN.fullmatch(line))}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.path.name)
def test_a_lock_consists_of_pins_with_hashes(lock: Lock) -> None:
    """No address of an index, no path, no option: pip then refuses whatever is not named here."""
    _, _, *lines = lock.path.read_text(encoding="utf-8").splitlines()
    kinds = "".join("p" if PIN.fullmatch(line) else "h" if HASH.fullmatch(line) else "?" for line in lines)
    assert re.fullmatch("(ph+)+", kinds)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.path.name)
def test_a_lock_satisfies_what_is_asked_of_it(lock: Lock) -> None:
    asked = [Requirement(line) for line in lock.wanted(PYPROJECT) if not line.startswith("python>")]
    assert len(asked) > 10
    found = pins(lock)
    assert [str(each) for each in asked if found.get(each.name.lower(), "missing") not in each.specifier] == []


def test_the_tests_run_with_the_versions_that_are_deployed() -> None:
    [_, tested] = LOCKS
    assert pins(DEPLOYED).items() <= pins(tested).items()


def test_the_root_shows_the_lock_of_the_functions() -> None:
    """A link, so that the two cannot differ."""
    assert (ROOT / "requirements.txt").is_symlink()
    assert (ROOT / "requirements.txt").resolve() == DEPLOYED.path


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.path.name)
def test_a_lock_is_outdated_once_its_sources_or_its_text_change(lock: Lock, tmp_path: Path) -> None:
    """Told without asking an index."""
    copy = Lock(tmp_path / "lock.txt", lock.extras)
    assert not is_current(copy, PYPROJECT)
    shutil.copy(lock.path, copy.path)
    assert is_current(copy, PYPROJECT)
    assert not is_current(copy, _with_dependency("left-pad>=1"))
    copy.path.write_text(copy.path.read_text().replace("==", "==9", 1))
    assert not is_current(copy, PYPROJECT)
    copy.path.write_text("")
    assert not is_current(copy, PYPROJECT)


def _with_dependency(requirement: str) -> dict[str, Any]:
    project = PYPROJECT["project"]
    return PYPROJECT | {"project": project | {"dependencies": [*project["dependencies"], requirement]}}


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_deployed_installs_from_wheels(python: str, machine: str, tmp_path: Path) -> None:
    """On every Python that the platforms offer, on both of their kinds of machine; every hash is known."""
    platforms = [part for tag in ("2_28", "2_17") for part in ("--platform", f"manylinux_{tag}_{machine}")]
    target = ["--target", str(tmp_path), "--python-version", python, "--implementation", "cp", *platforms]
    wheels = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--require-hashes"]
    run([sys.executable, "-m", "pip", "install", "--quiet", *wheels, *target, "-r", str(DEPLOYED.path)], tmp_path)


def test_the_lock_of_the_firebase_cli_names_no_registry() -> None:
    """Every package by version and hash; npm asks the registry that it is set up for."""
    packages = json.loads((ROOT / "tests" / "deploy" / "package-lock.json").read_text())["packages"]
    del packages[""]
    assert len(packages) > 100
    assert [name for name, package in packages.items() if "resolved" in package or "integrity" not in package] == []
