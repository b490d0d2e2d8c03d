"""Commands of other programs, run to their end. Holds no test."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def run_command(
    command: list[str], folder: Path, seconds: float, environ: Mapping[str, str] | None = None, given: str = ""
) -> str:
    """What the command printed within so many seconds; AssertionError with all that it said where it failed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environ or {})},
        input=given,
        capture_output=True,
        text=True,
        timeout=seconds,
        start_new_session=True,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} failed.\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout
