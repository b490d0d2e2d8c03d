"""Locks what is installed: every version, direct or not, with the hashes of all its files, made from pyproject.toml.

`functions/requirements.txt` is what a deployment installs; the link `requirements.txt` shows it to those who look in
the root. `requirements-dev.txt` is what the tests run with: the same versions, and more packages. Both hold for every
platform and for every Python from `requires-python` on.

Run as `python tools/requirements.py`; what is locked already keeps its version unless `--upgrade` is given. `--check`
writes nothing, asks nobody, and fails where a lock was edited by hand or is older than pyproject.toml's lists.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
NOTICE: Final = "# Made from pyproject.toml by `make requirements`; do not edit."
DIGEST: Final = "# digest: "
LOWEST_PYTHON: Final = "3.11"


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file, and the extras of pyproject.toml that it holds besides the dependencies."""

    path: Path
    extras: tuple[str, ...]

    def wanted(self, pyproject: dict[str, Any]) -> list[str]:
        """What the file has to satisfy, sorted."""
        project = pyproject["project"]
        optional = (line for extra in self.extras for line in project["optional-dependencies"][extra])
        return sorted({*project["dependencies"], *optional, f"python{project['requires-python']}"})

    def digest(self, pyproject: dict[str, Any], pins: str) -> str:
        """Stands for what was wanted and what was found for it."""
        return hashlib.sha256(json.dumps([self.wanted(pyproject), pins]).encode()).hexdigest()


# What a setting alone switches on, TASKS_QUEUE or OTEL_*, has to be there.
DEPLOYED: Final = Lock(ROOT / "functions" / "requirements.txt", ("otel", "tasks"))
LOCKS: Final = (DEPLOYED, Lock(ROOT / "requirements-dev.txt", ("conformance", "dev", *DEPLOYED.extras)))


def is_current(lock: Lock, pyproject: dict[str, Any]) -> bool:
    """Whether the file is as it was made, from these very lists."""
    if not lock.path.is_file():
        return False
    head, _, rest = lock.path.read_text(encoding="utf-8").partition("\n" + DIGEST)
    digest, _, pins = rest.partition("\n")
    return head == NOTICE and digest == lock.digest(pyproject, pins)


def make(lock: Lock, pyproject: dict[str, Any], upgrade: bool) -> None:
    """Writes the file."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes"]
    command += ["--python-version", LOWEST_PYTHON, "--no-header", "--no-annotate"]
    command += [part for extra in lock.extras for part in ("--extra", extra)]
    command += ["--upgrade"] if upgrade else []
    if lock is not DEPLOYED:
        command += ["--constraint", str(DEPLOYED.path)]  # what is deployed is what was tested
    command += ["--output-file", str(lock.path), "pyproject.toml"]  # it reads what is there, to keep its versions
    subprocess.run(command, cwd=ROOT, check=True)
    pins = lock.path.read_text(encoding="utf-8")
    lock.path.write_text(f"{NOTICE}\n{DIGEST}{lock.digest(pyproject, pins)}\n{pins}", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """0 when all is up to date or was written, 1 when `--check` found something outdated, 2 for other arguments."""
    if arguments not in ([], ["--upgrade"], ["--check"]):
        print("usage: requirements.py [--upgrade | --check]", file=sys.stderr)
        return 2
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if arguments != ["--check"]:
        for lock in LOCKS:
            make(lock, pyproject, upgrade=arguments == ["--upgrade"])
        return 0
    outdated = [lock.path.relative_to(ROOT) for lock in LOCKS if not is_current(lock, pyproject)]
    for path in outdated:
        print(f"{path} is not up to date: run `make requirements`", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
