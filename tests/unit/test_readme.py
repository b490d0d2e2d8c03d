"""The README's Python runs as it stands, and the files that it names are there."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_example_without_http_runs_as_printed() -> None:
    """What a reader pastes first has to work."""
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    run = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.stderr == ""
    assert run.stdout == "m2 [{'text': 'Hello, Mia.'}]\n"


def test_every_linked_file_exists() -> None:
    """A link into the repository leads somewhere."""
    links = re.findall(r"\]\(([^):]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
