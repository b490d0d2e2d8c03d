"""How long a process takes from its start to its first answer, without and with the database, in units of what the
import of its dependencies alone takes: the machine's speed is on both sides of that.

Rounds go through all measurements in turn, so that what else the machine does meets them alike; since that only ever
adds, the fastest of each are compared, by the wall's clock and by the time that a processor worked.
"""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks.cold_starts import (
    CLOUD,
    LOCAL,
    Seconds,
    cost_of_answer,
    cost_of_imports,
    imported_packages,
    served_packages,
    settle_in,
)

ROUNDS: Final = 7
GOAL: Final = 2.0  # times the import of the dependencies, which a server must do in any case
TURN: Final = {"message": "Hello"}

pytestmark = pytest.mark.bench


@pytest.fixture
def measurements(emulator_host: str, project_id: str, tmp_path: Path) -> dict[str, Callable[[], Seconds]]:
    """By name."""
    local = {"STORE": "memory"}
    cloud = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    settle_in([local, cloud], tmp_path)
    return {
        "imports": lambda: cost_of_imports(LOCAL, tmp_path),
        "health": lambda: cost_of_answer(local, tmp_path, "GET", "/health"),
        "turn": lambda: cost_of_answer(local, tmp_path, "POST", "/chat", TURN),
        "imports, with the client": lambda: cost_of_imports(CLOUD, tmp_path),
        "health, with the client": lambda: cost_of_answer(cloud, tmp_path, "GET", "/health"),
        "turn, with the client": lambda: cost_of_answer(cloud, tmp_path, "POST", "/chat", TURN),
    }


def test_the_imports_that_are_measured_are_those_of_a_server(tmp_path: Path) -> None:
    """Else the figures would be ratios to something else."""
    cloud = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": "127.0.0.1:1", "GOOGLE_CLOUD_PROJECT": "demo-imports"}
    assert served_packages({"STORE": "memory"}, tmp_path) == imported_packages(LOCAL, tmp_path)
    assert served_packages(cloud, tmp_path) == imported_packages(CLOUD, tmp_path)


@pytest.mark.timeout(600)
def test_from_the_start_of_a_process_to_its_first_answer(measurements: dict[str, Callable[[], Seconds]]) -> None:
    found: dict[str, list[Seconds]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, measure in measurements.items():
            found[name].append(measure())
    fastest = {name: Seconds(*map(min, zip(*seconds, strict=True))) for name, seconds in found.items()}
    print()
    for name, (wall, cpu) in fastest.items():
        base = fastest[_base(name)]
        ratios = f"{wall / base.wall:4.2f} and {cpu / base.cpu:4.2f} times the imports"
        print(f"{name:<26} {wall * 1000:5.0f} ms, {cpu * 1000:5.0f} ms of a processor: {ratios}")
    assert max(cost.cpu / fastest[_base(name)].cpu for name, cost in fastest.items()) < GOAL


def _base(name: str) -> str:
    return "imports, with the client" if name.endswith("client") else "imports"
