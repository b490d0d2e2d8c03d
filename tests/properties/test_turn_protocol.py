"""The turn protocol under random orders, faults, stalls, restarts and late commits, on every backend.

A failure is printed as the shortest list of steps that was found, with the script that repeats it:
`Explorer().trace(script=[…])`; so does the seed.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from store.adapters.own_ids import OwnIds
from store.documents import apart
from store.documents.store import DocumentStore
from tests.properties.backends import Backend, FileBackend, FirestoreBackend, MemoryBackend
from tests.properties.explorer import Explorer, Failure
from tests.properties.scenarios import (
    FAIR,
    ONE_MISHAP,
    SCENARIOS,
    SHORT,
    Scenario,
    explore_all,
    explore_some,
    first_message_twice,
)


class Runs(NamedTuple):
    """How many interleavings to run on each backend, and of the one meeting that has too many to run them all."""

    memory: int
    file: int
    firestore: int
    own_ids: int = 0
    first_message: int = 0


FAST = Runs(memory=265, file=25, firestore=10, own_ids=60)
SLOW = Runs(memory=10_000, file=400, firestore=200, first_message=5_000)
EXHAUSTIVE_LIMIT = 40_000


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large changes are worked on at once, so that a seed is the same run each time."""
    monkeypatch.setattr(apart, "LARGE", 2**40)


def require_no_failure(explorer: Explorer, first_seed: int, runs: int) -> None:
    """Exactly `runs` interleavings were run, and none has broken a promise."""
    seeds = range(first_seed, first_seed + runs)
    done, failure = explorer.first_failure(seeds)
    if failure is not None:
        pytest.fail(str(explorer.shrunk(failure)), pytrace=False)
    assert done == runs


def in_memory() -> Explorer:
    return Explorer(MemoryBackend)


def in_files(directory: Path) -> Explorer:
    """Every run in a folder of its own."""
    numbers = count()
    return Explorer(lambda: FileBackend(directory / str(next(numbers))))


def on_firestore(host: str, new_project: Callable[[], str]) -> Explorer:
    """Every run in a project of its own, in real time: the emulator's clock is not ours."""

    def backend() -> Backend:
        return FirestoreBackend(host, new_project())

    return Explorer(backend, most_senders=2, loop_factory=asyncio.new_event_loop)


def test_no_promise_is_broken_in_memory() -> None:
    require_no_failure(in_memory(), 0, FAST.memory)


def test_no_promise_is_broken_in_files(tmp_path: Path) -> None:
    require_no_failure(in_files(tmp_path), 0, FAST.file)


def test_no_promise_is_broken_where_users_have_ids_of_their_own() -> None:
    """As over HTTP: a session has another id where it is stored than where it is named."""
    explorer = Explorer(MemoryBackend, store=lambda shelf: OwnIds(DocumentStore(shelf)))
    require_no_failure(explorer, 400_000, FAST.own_ids)


def test_no_promise_is_broken_on_firestore(emulator_host: str, project_id: str) -> None:
    numbers = count()
    explorer = on_firestore(emulator_host, lambda: f"{project_id}-{next(numbers)}")
    require_no_failure(explorer, 0, FAST.firestore)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_no_order_of_two_clients_breaks_a_promise(scenario: Scenario) -> None:
    explored = explore_all(scenario, FAIR, EXHAUSTIVE_LIMIT)
    assert explored.failure is None, str(explored.failure)
    assert explored.is_complete
    assert explored.runs > 5  # a scenario whose clients never meet would prove nothing


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_promise_is_broken_in_memory_in_ten_thousand_runs(part: int) -> None:
    runs = SLOW.memory // 4
    require_no_failure(in_memory(), 100_000 + part * runs, runs)


@pytest.mark.slow
def test_no_promise_is_broken_in_files_in_many_runs(tmp_path: Path) -> None:
    require_no_failure(in_files(tmp_path), 200_000, SLOW.file)


@pytest.mark.slow
def test_no_promise_is_broken_on_firestore_in_many_runs(emulator_host: str, project_id: str) -> None:
    numbers = count()
    explorer = on_firestore(emulator_host, lambda: f"{project_id}-{next(numbers)}")
    require_no_failure(explorer, 300_000, SLOW.firestore)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SHORT, ids=lambda scenario: scenario.__name__)
def test_no_order_of_two_clients_with_one_mishap_breaks_a_promise(scenario: Scenario) -> None:
    explored = explore_all(scenario, ONE_MISHAP, EXHAUSTIVE_LIMIT)
    assert explored.failure is None, str(explored.failure)
    assert explored.is_complete


@pytest.mark.slow
def test_a_first_message_that_is_sent_twice_with_one_mishap_breaks_no_promise() -> None:
    explored = explore_some(first_message_twice, ONE_MISHAP, range(SLOW.first_message))
    assert explored.failure is None, str(explored.failure)
    assert explored.runs == SLOW.first_message


def test_a_failure_is_told_by_the_steps_that_lead_to_it() -> None:
    failure = Failure(7, ValueError("broken"), [1, 0], ["sender 0: get row"])
    assert str(failure) == "seed 7: ValueError('broken')\n  sender 0: get row\nscript [1, 0]"


def test_a_script_repeats_its_run() -> None:
    explorer = Explorer(MemoryBackend)
    first = explorer.trace(seed=5)
    assert first.trace
    assert explorer.trace(seed=5) == first
    assert explorer.trace(script=first.script) == first
