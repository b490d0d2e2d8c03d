"""The page of settings lists what the code reads, no more and no less."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_names_exactly_the_settings_that_are_read() -> None:
    """A setting that nobody can find out about is none; one that is not read misleads."""
    code = (ROOT / "functions" / "settings.py").read_text()
    read = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', code))
    page = (ROOT / "docs" / "settings.md").read_text()
    named = {
        name
        for row in page.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([A-Z_]{4,})`", row.split("|")[1])
    }
    assert read - {"GCLOUD_PROJECT"} == named
