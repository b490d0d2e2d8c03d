"""What conversations and large states cost, side by side with Genkit's own Firestore store, on the same emulator.

Writes the section "Stores" of docs/benchmarks.md and its picture.
"""

import json
import os
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.measurements import Talk, big, increments, new_project, stored_bytes, talk
from tests.benchmarks.prose import cut_in_order, recorded_prose
from tests.benchmarks.store_report import Figures, section_of, with_section
from tests.genkit.packages import ROOT, genkit_python

pytestmark = pytest.mark.bench

TURNS = [1, 10, 25, 100, 300, 1000]
MEBIBYTES = [2, 8, 64]
PATIENCE = 100  # seconds that the other store has for one large state
TASKS = 8
DRAWN = 100  # turns whose documents are drawn one by one
HERE = Path(__file__).parent
DOCUMENT, PICTURE = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "store-costs.png"


class Genkit:
    """Genkit's store, in a process with its own packages."""

    def __init__(self, host: str) -> None:
        self._host = host

    def run(self, project: str, **job: Any) -> Any:
        """What came of a job."""
        names = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
        environ = {"FIRESTORE_EMULATOR_HOST": self._host, **dict.fromkeys(names, project)}
        return json.loads(run_with(genkit_python(), str(HERE / "genkit_costs.py"), given=job, environ=environ))

    async def talk(self, texts: list[str]) -> Talk:
        """The same conversation as ours, a row a turn."""
        project, added = new_project(), [messages_of(text, number) for number, text in enumerate(texts)]
        found = self.run(project, job="turns", turns=added)
        size = await stored_bytes(project, self._host)
        one_more = self.run(project, job="one more", newest=found["newest"], turns=added)
        return Talk(size, found["documents"], {name: found[name] for name in ("load", "latest", "metadata")} | one_more)


def messages_of(text: str, number: int) -> list[dict[str, Any]]:
    """One turn's messages."""
    said = (("user", text[:400]), ("model", text[400:]))
    return [{"role": role, "content": [{"text": part}], "metadata": {"id": f"m{number}"}} for role, part in said]


async def test_costs_of_stores(emulator_host: str) -> None:
    genkit, texts = Genkit(emulator_host), list(cut_in_order(recorded_prose(), 2048, max(TURNS)))
    figures = Figures()
    for count in TURNS:
        figures.ours[count] = await talk(emulator_host, texts[:count])
        figures.unshared[count] = await talk(emulator_host, texts[:count], measures=False, share_runs=False)
        figures.theirs[count] = await genkit.talk(texts[:count])
    for size in MEBIBYTES:
        figures.big[size] = (await big(emulator_host, size << 20), their_big(genkit, size, figures))
    theirs = genkit.run(new_project(), job="increments", count=TASKS)
    figures.increments = (await increments(emulator_host, TASKS), theirs)
    section = section_of(figures)
    print(f"\n{section}")
    DOCUMENT.write_text(with_section(DOCUMENT.read_text(encoding="utf-8"), section), encoding="utf-8")
    draw(figures)
    (seconds, lost), _ = figures.increments
    assert lost == 0
    assert seconds < 2


def their_big(genkit: Genkit, mebibytes: int, figures: Figures) -> Mapping[str, Any]:
    """What Genkit's store takes for a large state; larger ones are not tried once one has failed."""
    if any("error" in theirs for _, theirs in figures.big.values()):
        return {"error": "not tried"}
    found: Mapping[str, Any] = genkit.run(new_project(), job="big", size=mebibytes << 20, patience=PATIENCE)
    return found


def draw(figures: Figures) -> None:
    """The picture."""
    named = {
        "firesession": figures.ours,
        "without shared runs": figures.unshared,
        "genkit-google-cloud": figures.theirs,
    }
    longest = max(TURNS)
    stores = [
        {
            "name": name,
            "documents": talks[longest].documents[:100] if talks is not figures.unshared else [],
            "bytes": {count: each.bytes for count, each in talks.items()},
        }
        for name, talks in named.items()
    ]
    given = {"file": str(PICTURE), "stores": stores}
    run_with(plotting_python(), str(HERE / "plot_costs.py"), given=given)


def plotting_python() -> Path:
    """The interpreter that has matplotlib, installed at the first use."""
    environment = HERE / ".venv"
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run_with(python, *install, "--requirement", str(HERE / "requirements.txt"))
    return python


def run_with(python: Path, *arguments: str, given: object = None, environ: Mapping[str, str] | None = None) -> str:
    """What a script or a module prints, run to its end."""
    done = subprocess.run(
        [python, *arguments],
        input=json.dumps(given),
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,
    )
    return done.stdout
