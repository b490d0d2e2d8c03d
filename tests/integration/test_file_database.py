"""The file backend's own: where files lie, who may read them, several processes, polling, the cache, its thread."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path as Directory

import pytest

from store.database import CommitUnansweredError, Condition, Create, Delete, Document, Kind, Path, Query, Update
from store.errors import InvalidRequestError, UnavailableError
from store.file import files, folder
from store.file.database import FileDatabase
from store.file.envelope import decode_document
from store.file.folder import Folder
from store.file.paths import MAX_TENANT_SEGMENTS, file_of, require_tenant
from tests.integration.file_child import COUNTER

ROOT = Directory(__file__).parents[2]
ROW = Path(Kind.SNAPSHOTS, "acme", "row")
ALL_ROWS = Query(Kind.SNAPSHOTS, None, ())
NESTED = ("a", "a/b", "a/snapshots", "a/snapshots/row.json", "b/" + "x" * 600, "ü/é", ".a", "a.json")
ESCAPES = ("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "a\x00b", " ", "a/ ", "__a__")


@pytest.fixture
async def database(tmp_path: Directory) -> AsyncIterator[FileDatabase]:
    opened = FileDatabase(tmp_path / "store", poll_interval=0)
    yield opened
    await opened.close()


def start_counting(directory: Directory, times: int) -> subprocess.Popen[bytes]:
    """A process that increments the counter."""
    command = [sys.executable, "-m", "tests.integration.file_child", "count", str(directory), str(times)]
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True)


@pytest.mark.parametrize("tenant", [*ESCAPES, "/".join("abcdefghi")], ids=ascii)
async def test_a_tenant_that_could_escape_is_refused_before_any_file_is_made(
    database: FileDatabase, tmp_path: Directory, tenant: str
) -> None:
    path = Path(Kind.SNAPSHOTS, tenant, "row")
    for attempt in (
        database.get([path]),
        database.query(Query(Kind.SNAPSHOTS, tenant, ())),
        database.commit([Create(path, {})]),
        database.write_each([Create(path, {})]),
    ):
        with pytest.raises(InvalidRequestError):
            await attempt
    with pytest.raises(InvalidRequestError):
        async with database.watch(path):
            pass
    assert os.listdir(tmp_path) == []


def test_a_tenant_may_have_several_segments() -> None:
    assert MAX_TENANT_SEGMENTS == 8
    for tenant in (*NESTED, "/".join("abcdefgh")):
        assert require_tenant(tenant) == tenant


@pytest.mark.parametrize("collection", ["", "..", "a/b", ".hidden", "a b", "x" * 300])
def test_a_collection_that_is_no_plain_name_is_refused(tmp_path: Directory, collection: str) -> None:
    with pytest.raises(InvalidRequestError):
        FileDatabase(tmp_path, collection=collection)


def test_a_documents_file_is_found_by_eye() -> None:
    assert file_of("genkit-sessions", ROW) == "genkit-sessions/acme/snapshots/row.json"
    session = Path(Kind.POINTERS, "a/b", "user@x.org")
    assert file_of("genkit-sessions", session) == "genkit-sessions-pointers/a/b/pointers/user@x.org.json"


@pytest.mark.parametrize("identifier", ["..", ".", ".journal", "\U0001f600" * 350, "x" * 1400, "a\\..\\b", "%2E"])
def test_every_id_becomes_one_portable_name_of_at_most_255_bytes(identifier: str) -> None:
    name = file_of("c", Path(Kind.SNAPSHOTS, "t", identifier)).removeprefix("c/t/snapshots/")
    assert "/" not in name
    assert "\\" not in name
    assert name.isascii()
    assert not name.startswith(".")
    assert len(name) <= 255


async def test_tenants_within_tenants_stay_apart_and_are_told_apart(database: FileDatabase) -> None:
    paths = [Path(Kind.SNAPSHOTS, tenant, "row") for tenant in NESTED]
    await database.commit([Create(path, {"tenant": path.tenant}) for path in paths])
    found = (await database.query(ALL_ROWS)).documents
    assert [document.path for document in found] == sorted(paths)
    assert all(document.fields == {"tenant": document.path.tenant} for document in found)
    for path in paths:
        (document,) = (await database.query(Query(Kind.SNAPSHOTS, path.tenant, ()))).documents
        assert document.path == path


async def test_files_are_for_their_owner_only(database: FileDatabase, tmp_path: Directory) -> None:
    old_mask = os.umask(0)
    try:
        await database.commit([Create(ROW, {}), Create(Path(Kind.POINTERS, "a/b", "x"), {})])
        await database.commit([Update(ROW, {"n": 1})])
    finally:
        os.umask(old_mask)
    modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "store", *(tmp_path / "store").rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if not path.is_dir()} == {0o600}


async def test_a_directory_that_is_a_file_is_refused_with_its_name(tmp_path: Directory) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        database = FileDatabase(directory)
        with pytest.raises(InvalidRequestError, match=r"file.* is not a folder that can be written to"):
            await database.get([ROW])
        await database.close()


async def test_documents_survive_the_database_object(database: FileDatabase, tmp_path: Directory) -> None:
    (time,) = (await database.commit([Create(ROW, {"blob": b"\xff"})])).update_times
    again = FileDatabase(tmp_path / "store")
    document = (await again.get([ROW])).documents[ROW]
    await again.close()
    assert document is not None
    assert (document.fields, document.update_time) == ({"blob": b"\xff"}, time)


async def test_two_collections_share_a_directory(database: FileDatabase, tmp_path: Directory) -> None:
    other = FileDatabase(tmp_path / "store", collection="other")
    await database.commit([Create(ROW, {"n": 1})])
    assert (await other.query(ALL_ROWS)).documents == []
    await other.commit([Create(ROW, {"n": 2})])
    await other.close()
    assert [document.fields for document in (await database.query(ALL_ROWS)).documents] == [{"n": 1}]


async def test_two_processes_that_increment_one_counter_lose_nothing(
    database: FileDatabase, tmp_path: Directory
) -> None:
    await database.commit([Create(COUNTER, {"n": 0})])
    children = [start_counting(tmp_path / "store", 40) for _ in range(2)]
    codes = [await asyncio.to_thread(child.wait, 60) for child in children]
    assert codes == [0, 0]
    document = (await database.get([COUNTER])).documents[COUNTER]
    assert document is not None
    assert document.fields == {"n": 80}


async def test_a_watch_hears_of_another_processs_commits(database: FileDatabase, tmp_path: Directory) -> None:
    await database.commit([Create(COUNTER, {"n": 0})])
    polling = FileDatabase(tmp_path / "store", poll_interval=0.01)
    async with polling.watch(COUNTER) as states, asyncio.timeout(30):
        child = start_counting(tmp_path / "store", 3)
        seen: list[int] = []
        while 3 not in seen:
            (document,) = await anext(states)
            assert document is not None
            seen.append(document.fields["n"])
        assert await asyncio.to_thread(child.wait, 60) == 0
    await polling.close()
    assert seen == sorted(set(seen))
    assert seen[-1] == 3


async def test_polling_finds_creation_deletion_and_query_matches(database: FileDatabase, tmp_path: Directory) -> None:
    polling = FileDatabase(tmp_path / "store", poll_interval=0.01)
    asked = Query(Kind.SNAPSHOTS, "acme", (Condition("runner", "==", "me"),))
    async with polling.watch(ROW) as states, polling.watch(asked) as matches, asyncio.timeout(10):
        assert (await anext(states), await anext(matches)) == ([None], [])
        await database.commit([Create(ROW, {"runner": "me"})])
        created = await anext(states)
        assert created == await anext(matches)
        assert created[0] is not None
        await database.commit([Delete(ROW)])
        assert await anext(states) == [None]
    await polling.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are parsed from now on."""
    names: list[str] = []

    def decode(content: bytes, name: str) -> Document:
        names.append(name)
        return decode_document(content, name)

    monkeypatch.setattr(files, "decode_document", decode)
    return names


async def test_a_second_query_parses_only_what_changed(
    database: FileDatabase, tmp_path: Directory, parsed: list[str]
) -> None:
    rows = [Path(Kind.SNAPSHOTS, "acme", str(n)) for n in range(20)]
    await database.commit([Create(row, {"n": 0}) for row in rows])
    reader = FileDatabase(tmp_path / "store")
    await reader.query(ALL_ROWS)
    await database.commit([Update(rows[3], {"n": 1}), Delete(rows[4])])
    assert len(parsed) == 20
    found = (await reader.query(ALL_ROWS)).documents
    await reader.close()
    assert parsed[20:] == [file_of("genkit-sessions", rows[3])]
    assert [document.path.id for document in found if document.fields["n"] == 1] == ["3"]
    assert len(found) == 19


async def test_the_cache_of_parsed_documents_is_bounded(
    database: FileDatabase, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CACHE_BYTES", 1000)
    rows = [Path(Kind.SNAPSHOTS, "acme", str(n)) for n in range(20)]
    await database.commit([Create(row, {"text": "x" * 100}) for row in rows])
    assert len((await database.query(ALL_ROWS)).documents) == 20
    assert len(parsed) >= 15


async def test_earlier_versions_are_kept_for_a_minute(tmp_path: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "_PRUNE_SECONDS", 0)
    now = datetime(2024, 1, 1, tzinfo=UTC)
    database = FileDatabase(tmp_path, clock=lambda: now)
    await database.commit([Create(ROW, {"n": 0})])
    earlier = (await database.get([ROW])).time
    for n in range(1, 4):
        now += timedelta(seconds=20)
        await database.commit([Update(ROW, {"n": n})])
    document = (await database.get([ROW], at=earlier)).documents[ROW]
    assert document is not None
    assert document.fields == {"n": 0}
    now += timedelta(seconds=61)
    with pytest.raises(UnavailableError):
        await database.get([ROW], at=earlier)
    await database.commit([Update(ROW, {"n": 9})])
    assert len(list((tmp_path / ".versions").iterdir())) == 1
    await database.close()


async def test_a_lock_that_stays_taken_is_unavailability(
    database: FileDatabase, tmp_path: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "LOCK_SECONDS", 0.01)
    with Folder(tmp_path / "store").locked():
        with pytest.raises(UnavailableError):
            await database.get([ROW])
        with pytest.raises(CommitUnansweredError):
            await database.commit([Create(ROW, {})])
    assert (await database.get([ROW])).documents[ROW] is None


async def test_the_thread_begins_with_the_first_call_and_ends_with_close(tmp_path: Directory) -> None:
    def workers() -> int:
        return sum(thread.name.startswith("session-files") for thread in threading.enumerate())

    database = FileDatabase(tmp_path / "store")
    assert (workers(), (tmp_path / "store").exists()) == (0, False)
    await database.get([ROW])
    assert workers() == 1
    await database.close()
    assert workers() == 0


async def test_a_thousand_closed_watches_leave_no_task(tmp_path: Directory) -> None:
    database = FileDatabase(tmp_path / "store", poll_interval=0.01)
    before = asyncio.all_tasks()
    for n in range(250):
        row = Path(Kind.SNAPSHOTS, "acme", str(n))
        async with database.watch(row) as one, database.watch(ALL_ROWS), database.watch(row), database.watch(row):
            assert await anext(one) == [None]
            assert len(asyncio.all_tasks()) == len(before) + 1
    assert asyncio.all_tasks() == before
    await database.close()
