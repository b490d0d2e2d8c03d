"""Several processes on one folder of sessions: no turn is lost or half done, wherever one of them is killed."""

import asyncio
import sys
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path as Directory

import pytest

from store.database import Kind, Query
from store.documents.store import DocumentStore
from store.errors import SessionNotFoundError
from store.file.database import FileDatabase
from store.file.store import FileStore
from store.fsck.check import check
from store.fsck.findings import Problem
from store.models import Snapshot
from store.rules.history import messages_of
from tests.contract.turns import (
    ABORTED,
    ABORTING,
    ANN,
    COMPLETED,
    EXPIRED,
    PENDING,
    claim,
    claimed,
    completed,
    converse,
)

ROOT = Directory(__file__).parents[2]
LATER = timedelta(minutes=5)


@pytest.fixture
async def store(tmp_path: Directory) -> AsyncIterator[DocumentStore]:
    """An instance in this process, which looks for what others do every 20 ms."""
    opened = FileStore(tmp_path / "sessions", poll_interval=0.02)
    yield opened
    await opened.close()


async def start(*arguments: object) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tests.integration.turn_child", *map(str, arguments)]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe, start_new_session=True)


async def output_of(process: asyncio.subprocess.Process) -> list[str]:
    """What the process printed, once it has ended well."""
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return output.decode().split()


async def message_ids(store: DocumentStore, session_id: str) -> list[str | None]:
    transcript = await store.get_transcript(ANN, session_id)
    assert transcript is not None
    return [message.key for message in messages_of(transcript.state)]


async def require_sound(directory: Directory, but_for: Collection[Problem] = ()) -> None:
    database = FileDatabase(directory, poll_interval=0)
    report = await check(database, grace=timedelta(0))
    await database.close()
    assert [finding for finding in report.findings if finding.problem not in but_for] == []


async def test_turns_of_several_processes_on_one_session_are_all_kept_once(
    tmp_path: Directory, store: DocumentStore
) -> None:
    first = await converse(store, "first")
    names = ("a", "b", "c")
    processes = [await start("turns", tmp_path / "sessions", first.session_id, 8, name) for name in names]
    rows = [row for process in processes for row in await output_of(process)]
    assert len(set(rows)) == 24
    questions = [key for key in await message_ids(store, first.session_id) if key and not key.endswith("-answer")]
    assert sorted(questions) == sorted(["first", *(f"{name}{turn}" for name in names for turn in range(8))])
    await require_sound(tmp_path / "sessions")


@pytest.mark.parametrize("turns", [1, 3])  # the killed one is a diff, or a checkpoint with a shard
async def test_a_settle_that_is_killed_between_any_two_writes_is_whole_or_has_not_happened(
    tmp_path: Directory, store: DocumentStore, turns: int
) -> None:
    first = await converse(store, "first")
    for turn in range(1, turns):
        await converse(store, f"turn{turn}", first.session_id)
    before = await message_ids(store, first.session_id)
    (steps,) = await output_of(await start("kill", "settle", tmp_path / "sessions", first.session_id))
    outcomes = []
    for number in range(int(steps)):
        directory = tmp_path / f"step{number}"
        outcomes.append(await turn_after_kill(directory, first.session_id, before))
        await require_sound(directory)
    assert int(steps) == (10 if turns == 1 else 13)
    assert outcomes == sorted(outcomes)  # not yet up to one step, done from it on
    assert {False, True} == set(outcomes)


async def turn_after_kill(directory: Directory, session_id: str, before: list[str | None]) -> bool:
    """Whether the killed turn was settled; the session goes on either way."""
    cold = FileStore(directory, poll_interval=0, clock=lambda: datetime.now(UTC) + LATER)
    latest = await cold.get_latest_snapshot(ANN, session_id)
    assert latest is not None
    is_settled = latest.status is COMPLETED
    assert latest.status in (COMPLETED, EXPIRED)
    expected = [*before, "killed", "killed-answer"] if is_settled else before
    assert await message_ids(cold, session_id) == expected
    lease = await claimed(cold, claim("next", session_id, last_message_id=expected[-1]))
    await cold.settle_turn(lease, completed(lease))
    assert await message_ids(cold, session_id) == [*expected, "next", "next-answer"]
    await cold.close()
    return is_settled


KILLED = {  # what the transcript is once the killed action has happened, and the same where it has not
    "claim": (["first", "first-answer", "turn1", "turn1-answer"],) * 2,
    "truncate": (["first", "first-answer"], ["first", "first-answer", "turn1", "turn1-answer"]),
    "large": (
        ["first", "first-answer", "turn1", "turn1-answer", "killed", "killed-answer"],
        ["first", "first-answer", "turn1", "turn1-answer"],
    ),
}


@pytest.mark.parametrize("action", KILLED)
async def test_whatever_is_killed_between_any_two_writes_has_happened_or_not(
    tmp_path: Directory, store: DocumentStore, action: str
) -> None:
    """A takeover of a dead lease, a cut, and a settle of several commits: the session goes on either way."""
    first = await converse(store, "first")
    await converse(store, "turn1", first.session_id)
    (steps,) = await output_of(await start("kill", action, tmp_path / "sessions", first.session_id))
    done, undone = KILLED[action]
    outcomes = []
    for number in range(int(steps)):
        directory = tmp_path / f"step{number}"
        await require_sound(directory, but_for=(Problem.ORPHAN,) if action == "large" else ())
        cold = FileStore(directory, poll_interval=0, clock=lambda: datetime.now(UTC) + LATER)
        found = await message_ids(cold, first.session_id)
        assert found in (done, undone)
        page = await cold.list_snapshots(ANN, first.session_id, 10)
        outcomes.append((found == done, len(page.snapshots)))
        lease = await claimed(cold, claim("next", first.session_id, last_message_id=found[-1]))
        await cold.settle_turn(lease, completed(lease))
        assert await message_ids(cold, first.session_id) == [*found, "next", "next-answer"]
        await cold.close()
        await require_sound(directory, but_for=(Problem.ORPHAN,) if action == "large" else ())
    assert outcomes == sorted(outcomes)  # not yet up to one step, done from it on
    assert len(set(outcomes)) == 2


async def test_a_deletion_that_is_killed_between_any_two_writes_is_finished_by_the_next_one(
    tmp_path: Directory, store: DocumentStore
) -> None:
    first = await converse(store, "first")
    await converse(store, "second", first.session_id)
    other = await converse(store, "other")
    (steps,) = await output_of(await start("kill", "delete", tmp_path / "sessions", first.session_id))
    for number in range(int(steps)):
        directory = tmp_path / f"step{number}"
        cold = FileStore(directory, poll_interval=0)
        try:
            await cold.delete_session(ANN, first.session_id)
        except SessionNotFoundError:  # the last write was the last step but for forgetting its journal
            assert number > int(steps) - 5
        assert await cold.get_snapshot(ANN, other.snapshot_id) == other
        await cold.close()
        assert await homes(directory) == {other.session_id}
        await require_sound(directory)


async def homes(directory: Directory) -> set[str]:
    """The sessions to which the documents belong that are left."""
    database = FileDatabase(directory, poll_interval=0)
    kinds = (Kind.SNAPSHOTS, Kind.SHARDS, Kind.STREAMS, Kind.BLOBS)
    found = [document for kind in kinds for document in (await database.query(Query(kind, None, ()))).documents]
    sessions = {document.path.id for document in (await database.query(Query(Kind.POINTERS, None, ()))).documents}
    await database.close()
    return sessions | {document.fields["sessionId"] for document in found}


async def test_a_status_that_another_process_changes_is_seen(tmp_path: Directory, store: DocumentStore) -> None:
    first = await converse(store, "first")
    process = await start("stop", tmp_path / "sessions", first.session_id)
    assert process.stdout is not None
    snapshot_id = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
    seen = []
    async with asyncio.timeout(30), store.on_snapshot_status_change(ANN, snapshot_id) as statuses:
        async for status in statuses:
            seen.append(status)
            if status is PENDING:
                await store.abort_turn(ANN, snapshot_id)
    assert [status for status in seen if status is not ABORTING] == [PENDING, ABORTED]
    assert await output_of(process) == []
    row = await store.get_snapshot(ANN, snapshot_id)
    assert isinstance(row, Snapshot)
    assert row.status is ABORTED
