"""Writes functions/requirements.txt, which the packers of a deployment read, from pyproject.toml; owns no version.

Run as `python tools/requirements.py`; with `--check` it writes nothing and fails where the file is not up to date.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "functions" / "requirements.txt"
HEADER = "# Made from pyproject.toml by `make requirements`; do not edit.\n"


def requirements(pyproject: str) -> str:
    """The text of requirements.txt for the text of a pyproject.toml: its runtime dependencies, sorted."""
    dependencies = tomllib.loads(pyproject)["project"]["dependencies"]
    return HEADER + "".join(f"{dependency}\n" for dependency in sorted(dependencies))


def main(arguments: list[str]) -> int:
    """0 when the file is up to date or was written, 1 when `--check` found it outdated, 2 for other arguments."""
    if arguments not in ([], ["--check"]):
        print("usage: requirements.py [--check]", file=sys.stderr)
        return 2
    wanted = requirements((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if not arguments:
        TARGET.write_text(wanted, encoding="utf-8")
    elif not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != wanted:
        print(f"{TARGET.relative_to(ROOT)} is not up to date: run `make requirements`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
