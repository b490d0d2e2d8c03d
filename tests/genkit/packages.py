"""Genkit's real packages for tests: installed once, at the first use, beside the tests that need them. Holds no test.

Python's go to an environment of their own, with the working tree in it; JavaScript's to tests/node/node_modules.
"""

import hashlib
import json
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from tests.commands import run_command

ROOT = Path(__file__).resolve().parents[2]
PYTHON_FOLDER = ROOT / "tests" / "genkit"
NODE_FOLDER = ROOT / "tests" / "node"
GENKIT = "genkit==0.12.0"

_ENVIRONMENT = PYTHON_FOLDER / ".venv"
_SOURCES = PYTHON_FOLDER / ".sources"
_INSTALL_SECONDS = 900
_RUN_SECONDS = 300


def genkit_python() -> Path:
    """The interpreter that has Genkit and this project."""
    python = _ENVIRONMENT / "bin" / "python"
    with FileLock(PYTHON_FOLDER / ".lock"):
        stamp = _stamp(PYTHON_FOLDER / "requirements.txt", ROOT / "pyproject.toml")
        if not _is_made(_ENVIRONMENT, stamp):
            venv.create(_ENVIRONMENT, clear=True, with_pip=True)
            # The pip that comes with Python refuses a package whose only releases are previews.
            _install(python, "--upgrade", "pip")
            _install(python, "--requirement", str(PYTHON_FOLDER / "requirements.txt"), "--editable", str(ROOT))
            _mark(_ENVIRONMENT, stamp)
    return python


def genkit_sources() -> Path:
    """The folder of Genkit's own source distribution, which holds its tests."""
    with FileLock(PYTHON_FOLDER / ".lock-sources"):
        if not _is_made(_SOURCES, GENKIT):
            _SOURCES.mkdir(exist_ok=True)
            command = [str(genkit_python()), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
            run_command([*command, "--dest", str(_SOURCES), GENKIT], _SOURCES, _INSTALL_SECONDS)
            [archive] = _SOURCES.glob("genkit-*.tar.gz")
            run_command(["tar", "-xzf", str(archive)], _SOURCES, _INSTALL_SECONDS)
            _mark(_SOURCES, GENKIT)
    [folder] = (path for path in _SOURCES.glob("genkit-*") if path.is_dir())
    return folder


def node_folder() -> Path:
    """The folder whose scripts find Genkit for JavaScript."""
    with FileLock(NODE_FOLDER / ".lock"):
        modules, stamp = NODE_FOLDER / "node_modules", _stamp(NODE_FOLDER / "package.json")
        if not _is_made(modules, stamp):
            quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel", "error"]
            run_command(["npm", "install", *quiet], NODE_FOLDER, _INSTALL_SECONDS)
            _mark(modules, stamp)
    return NODE_FOLDER


def run_script(script: Path, given: Any, environ: Mapping[str, str]) -> Any:
    """What a script of ours prints as JSON, after it was given `given` as JSON; Python or JavaScript by its name."""
    if script.suffix == ".py":
        command, folder = [str(genkit_python()), str(script)], ROOT
    else:
        command, folder = ["node", str(script)], node_folder()
    return json.loads(run_command(command, folder, _RUN_SECONDS, environ, json.dumps(given)))


def _install(python: Path, *what: str) -> None:
    run_command(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what], ROOT, _INSTALL_SECONDS
    )


def _stamp(*files: Path) -> str:
    content = b"\0".join(path.read_bytes() for path in files)
    return f"{sys.version_info[:2]} {hashlib.sha256(content).hexdigest()}"


def _is_made(folder: Path, stamp: str) -> bool:
    mark = folder / ".stamp"
    return mark.is_file() and mark.read_text(encoding="utf-8") == stamp


def _mark(folder: Path, stamp: str) -> None:
    (folder / ".stamp").write_text(stamp, encoding="utf-8")
