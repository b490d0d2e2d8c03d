"""What a deployment uploads, built with the tools that upload it, and where it is installed. Holds no test."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from filelock import FileLock

from tests.commands import run_command

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "deploy"
FIREBASE = FOLDER / "node_modules" / ".bin" / "firebase"
INSTALL_SECONDS = 900


def run(command: list[str], folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """What a command printed; AssertionError with all that it said where it failed."""
    return run_command(command, folder, INSTALL_SECONDS, environ)


def gcloud(folder: Path, *arguments: str, root: Path = ROOT) -> str:
    """What the Google Cloud SDK answers in `root`, with its configuration in `folder`; skips the test without it."""
    command = shutil.which("gcloud")
    if command is None:
        pytest.skip("the Google Cloud SDK is not installed: there is no gcloud on PATH")
    settings = {"CLOUDSDK_CONFIG": str(folder / "gcloud"), "CLOUDSDK_CORE_DISABLE_PROMPTS": "1"}
    return run([command, *arguments], root, {**settings, "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true"})


def packed_by_gcloud(folder: Path, root: Path = ROOT) -> Path:
    """The folder with the files that `gcloud run deploy` and `gcloud functions deploy` upload from the root."""
    target = folder / "uploaded"
    for name in gcloud(folder, "meta", "list-files-for-upload", ".", root=root).splitlines():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target / name)  # what a link shows, as both archivers do
    return target


def packed_by_firebase(folder: Path, root: Path = ROOT) -> Path:
    """The folder with the files that `firebase deploy` uploads."""
    said = run(["node", str(firebase_cli().parents[2] / "pack.mjs"), str(root)], folder, {"TMPDIR": str(folder)})
    target = folder / "uploaded"
    with zipfile.ZipFile(said.splitlines()[-1]) as archive:
        archive.extractall(target)
    return target


def firebase_cli() -> Path:
    """The Firebase CLI, as locked; installed at the first use."""
    modules, lock = FOLDER / "node_modules", FOLDER / "package-lock.json"
    with FileLock(FOLDER / ".lock"):
        installed = modules / ".locked.json"
        if not installed.is_file() or installed.read_bytes() != lock.read_bytes():
            run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"], FOLDER)
            shutil.copy(lock, installed)
    return FIREBASE


def installed(folder: Path, requirements: Path, python: str = sys.executable) -> Path:
    """The commands of a new environment that holds what `requirements` names, every file checked by its hash."""
    run([python, "-m", "venv", "--without-pip", str(folder)], ROOT)
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    run([*command, "--require-hashes", "--no-compile", "--requirement", str(requirements)], requirements.parent)
    return folder / "bin"


def python_of(version: str) -> str:
    """A Python of this version on this machine; the test is skipped where there is none."""
    name = f"python{version}"
    if shutil.which(name) is not None:
        asked = [name, "-c", "import sys; print(sys.executable)"]
        environ = {**os.environ, "PYENV_VERSION": version}  # where pyenv stands before several
        found = subprocess.run(asked, env=environ, capture_output=True, text=True, timeout=60, check=False)
        if found.returncode == 0:
            return found.stdout.strip()
    pytest.skip(f"there is no Python {version} on this machine")
