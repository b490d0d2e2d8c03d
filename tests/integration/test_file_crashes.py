"""A process that is killed between any two steps of a commit leaves all of it or nothing."""

import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path as Directory
from typing import Any

import pytest

from store.database import CommitUnansweredError, Document, Path, Query, Update
from store.file.database import FileDatabase
from tests.integration.file_child import BEFORE, GONE, KEPT, LONG, NEW, ONE, SEVERAL

ROOT = Directory(__file__).parents[2]
ALL = (KEPT, GONE, NEW, LONG)
OLD_STATE = {KEPT: 1, GONE: 1, NEW: None, LONG: 1}
NEW_STATE = {KEPT: 2, GONE: None, NEW: 2, LONG: 2}


@pytest.fixture
async def directory(tmp_path: Directory) -> Directory:
    """A store that holds the documents from before the commit."""
    database = FileDatabase(tmp_path / "store")
    await database.commit(BEFORE)
    await database.close()
    return tmp_path / "store"


@pytest.fixture
async def open_database() -> AsyncIterator[Callable[..., FileDatabase]]:
    """Opens databases that are closed after the test."""
    opened: list[FileDatabase] = []

    def open_one(*arguments: Any, **keywords: Any) -> FileDatabase:
        opened.append(FileDatabase(*arguments, **keywords))
        return opened[-1]

    yield open_one
    for database in opened:
        await database.close()


def run_child(action: str, directory: Directory, number: int) -> int:
    """The exit code of a process that does `action`."""
    command = [sys.executable, "-m", "tests.integration.file_child", action, str(directory), str(number)]
    return subprocess.run(command, cwd=ROOT, start_new_session=True, timeout=60, check=False).returncode


def left_behind(directory: Directory) -> list[Directory]:
    """The files that were being written."""
    return list(directory.rglob(".new"))


async def state_of(database: FileDatabase) -> dict[Path, int | None]:
    """The `n` of every document."""
    documents = (await database.get(ALL)).documents
    return {path: None if document is None else document.fields["n"] for path, document in documents.items()}


async def steps_of(directory: Directory, writes: list[Any]) -> list[str]:
    """The steps of a commit, found by doing it in a copy of the store."""
    steps: list[str] = []
    copy = shutil.copytree(directory, directory.with_name("copy"))
    database = FileDatabase(copy, before_step=steps.append)
    await database.commit(writes)
    await database.close()
    return steps


async def test_a_commit_of_several_documents_is_whole_wherever_it_was_killed(
    directory: Directory, open_database: Callable[..., FileDatabase]
) -> None:
    steps = await steps_of(directory, SEVERAL)
    decided = steps.index("rename .journal")
    for number in range(len(steps)):
        store = shutil.copytree(directory, directory.with_name(str(number)))
        assert run_child("several", store, number) == -signal.SIGKILL
        expected = NEW_STATE if number > decided else OLD_STATE
        database = open_database(store)
        assert await state_of(database) == expected, steps[number]
        assert not (store / ".journal").exists()
        await database.commit([Update(KEPT, {"n": 3})])
        assert await state_of(database) == {**expected, KEPT: 3}
    assert run_child("several", directory, len(steps)) == 0


async def test_a_commit_of_one_document_is_whole_wherever_it_was_killed(
    directory: Directory, open_database: Callable[..., FileDatabase]
) -> None:
    steps = await steps_of(directory, ONE)
    assert ".journal" not in " ".join(steps)
    for number in range(len(steps)):
        assert run_child("one", directory, number) == -signal.SIGKILL
        assert await state_of(open_database(directory)) == OLD_STATE, steps[number]
    assert run_child("one", directory, len(steps)) == 0
    assert await state_of(open_database(directory)) == {**OLD_STATE, KEPT: 2}


async def test_carrying_out_a_left_journal_may_be_killed_too(
    directory: Directory, open_database: Callable[..., FileDatabase]
) -> None:
    steps = await steps_of(directory, SEVERAL)
    decided = steps.index("rename .journal") + 1
    assert run_child("several", directory, decided) == -signal.SIGKILL
    for number in range(len(steps) - decided):
        assert run_child("read", directory, number) == -signal.SIGKILL
    assert await state_of(open_database(directory)) == NEW_STATE


async def test_an_earlier_moment_stays_readable_across_an_interrupted_commit(
    directory: Directory, open_database: Callable[..., FileDatabase]
) -> None:
    database = open_database(directory)
    earlier = (await database.get([KEPT])).time
    steps = await steps_of(directory, SEVERAL)
    halfway = steps.index(next(step for step in steps if step.startswith("rename genkit-sessions-pointers")))
    assert run_child("several", directory, halfway) == -signal.SIGKILL
    assert await state_of(database) == NEW_STATE
    documents = (await database.get(ALL, at=earlier)).documents
    assert {path: document and document.fields["n"] for path, document in documents.items()} == OLD_STATE


async def test_what_a_killed_process_left_half_written_is_no_document(
    directory: Directory, open_database: Callable[..., FileDatabase]
) -> None:
    steps = await steps_of(directory, ONE)
    assert run_child("one", directory, steps.index(next(s for s in steps if s.startswith("rename")))) == -signal.SIGKILL
    assert left_behind(directory)
    found = await open_database(directory).query(Query(KEPT.kind, None, ()))
    assert sorted(document.path for document in found.documents) == sorted((KEPT, LONG))


async def test_update_times_increase_across_a_killed_commit(
    directory: Directory, open_database: Callable[..., FileDatabase]
) -> None:
    steps = await steps_of(directory, SEVERAL)
    assert run_child("several", directory, steps.index("forget journal")) == -signal.SIGKILL
    before = await require(open_database(directory), KEPT)
    database = open_database(directory, clock=lambda: before.update_time - timedelta(days=1))
    await database.commit([Update(KEPT, {"n": 3})])
    assert (await require(database, KEPT)).update_time > before.update_time


async def require(database: FileDatabase, path: Path) -> Document:
    document = (await database.get([path])).documents[path]
    assert document is not None
    return document


@pytest.mark.parametrize("failing", ["write .journal", "rename .journal", "rename genkit-sessions/"])
async def test_a_failing_disk_leaves_a_commit_unanswered_and_whole(
    directory: Directory, open_database: Callable[..., FileDatabase], failing: str
) -> None:
    def before_step(step: str) -> None:
        if step.startswith(failing):
            raise OSError(28, "No space left on device")

    with pytest.raises(CommitUnansweredError):
        await open_database(directory, before_step=before_step).commit(SEVERAL)
    assert await state_of(open_database(directory)) == (NEW_STATE if failing.endswith("/") else OLD_STATE)
