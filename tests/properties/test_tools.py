"""The explorer's own tools: what it finds is worth what they are."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from store.database import CommitUnansweredError, Kind, Path, Put, Read
from store.errors import UnavailableError
from store.memory.database import MemoryDatabase
from tests.properties.choices import Choices, next_script, shrink
from tests.properties.faulty_database import Fault, FaultyDatabase
from tests.properties.ledger import status_is_kept
from tests.properties.scripted import Script, Step
from tests.properties.virtual_loop import run_virtually

ROW = Path(Kind.SNAPSHOTS, "acme", "row")


async def stored(database: MemoryDatabase) -> bool:
    return (await database.get([ROW])).documents[ROW] is not None


def test_a_seed_makes_the_same_choices_again_and_its_script_too() -> None:
    first, second = Choices(7), Choices(7)
    taken = [first.pick((1, 2, 3)) for _ in range(50)]
    assert taken == [second.pick((1, 2, 3)) for _ in range(50)]
    assert set(taken) == {0, 1, 2}
    repeated = Choices(script=first.script)
    assert [repeated.pick((1, 2, 3)) for _ in range(50)] == taken


def test_a_script_that_has_ended_goes_on_with_what_is_boring() -> None:
    choices = Choices(script=[1])
    assert [choices.pick((1, 1)) for _ in range(3)] == [1, 0, 0]


def test_shrinking_leaves_the_decisions_that_matter() -> None:
    script = [0, 3, 1, 2, 0, 7, 1, 1, 0, 4]
    assert shrink(script, lambda found: 7 in found) == [7]


def test_an_exhaustive_search_takes_every_path_once() -> None:
    paths = []
    script: list[int] | None = []
    while script is not None:
        choices = Choices(script=script)
        first = choices.pick((1, 1))
        paths.append((first, choices.pick((1, 1, 1)) if first else None))
        script = next_script(choices.made)
    assert paths == [(0, None), (1, 0), (1, 1), (1, 2)]


def test_an_hour_on_the_virtual_loop_takes_no_time_and_threads_are_waited_for() -> None:
    async def work() -> tuple[float, str]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3600)
        return loop.time(), await loop.run_in_executor(thread, lambda: "done")

    start = time.monotonic()
    with ThreadPoolExecutor(max_workers=1) as thread:
        passed, result = run_virtually(work())
    assert passed == pytest.approx(3600)
    assert result == "done"
    assert time.monotonic() - start < 60


@pytest.mark.parametrize(
    ("fault", "is_there"), [(Fault.LOST_ANSWER, True), (Fault.DROPPED, False), (Fault.LATE, False)]
)
async def test_an_unanswered_commit_has_landed_or_not(fault: Fault, is_there: bool) -> None:
    database = MemoryDatabase()
    script = Script(Step("commit", fault))
    with pytest.raises(CommitUnansweredError):
        await FaultyDatabase(database, script).commit([Put(ROW, {})])
    assert await stored(database) is is_there
    await script.land_late()
    assert await stored(database) is (fault is not Fault.DROPPED)


async def test_a_read_that_is_lost_is_unavailable_and_any_other_call_is_passed_on() -> None:
    database = FaultyDatabase(MemoryDatabase(), Script(Step("get", Fault.DROPPED)))
    with pytest.raises(UnavailableError):
        await database.get([ROW])
    assert isinstance(await database.get([ROW]), Read)


def test_a_row_that_was_flagged_ends_aborted_and_a_settled_one_stays() -> None:
    assert status_is_kept("pending", "completed")
    assert status_is_kept("aborting", "aborted")
    assert not status_is_kept("aborting", "completed")
    assert not status_is_kept("failed", "pending")
