"""The check on a folder of files: damage that only files can have, and the command."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path as Directory

import pytest

from store.database import Kind, Update
from store.documents.store import DocumentStore
from store.file.database import FileDatabase
from store.file.store import FileStore
from store.fsck.check import check
from store.fsck.findings import Problem
from store.models import NewSession
from tests.contract.fsck_steps import save_chain, session
from tests.contract.turns import ANN

ROOT = Directory(__file__).parents[2]


@pytest.fixture
async def store(tmp_path: Directory) -> AsyncIterator[DocumentStore]:
    """A session of three rows."""
    opened = FileStore(tmp_path / "sessions", poll_interval=0)
    await save_chain(opened, *"abc")
    yield opened
    await opened.close()


@pytest.fixture
async def database(tmp_path: Directory, store: DocumentStore) -> AsyncIterator[FileDatabase]:
    """Its documents."""
    opened = FileDatabase(tmp_path / "sessions", poll_interval=0)
    yield opened
    await opened.close()


def file_of(directory: Directory, kind: Kind, name: str) -> Directory:
    """The file of a document whose id begins like that."""
    (found,) = directory.rglob(f"{kind.value}/{name}*.json")
    return found


def truncate(file: Directory) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def contents(directory: Directory) -> dict[str, bytes]:
    """Every document's file."""
    return {str(file): file.read_bytes() for file in directory.rglob("*.json")}


def run(directory: Directory, *arguments: str, store: str = "file") -> subprocess.CompletedProcess[str]:
    environ = {"STORE": store, "STORE_PATH": str(directory), "PATH": ""}
    command = [sys.executable, "-m", "functions.cli.main", "fsck", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, start_new_session=True, check=False
    )


@pytest.mark.parametrize(("kind", "name"), [(Kind.SNAPSHOTS, "c"), (Kind.SHARDS, ""), (Kind.POINTERS, "s")])
async def test_a_file_that_cannot_be_read_is_named_and_nothing_is_concluded_from_it(
    tmp_path: Directory, database: FileDatabase, kind: Kind, name: str
) -> None:
    damaged = file_of(tmp_path, kind, name)
    truncate(damaged)
    before = contents(tmp_path)
    report = await check(database, repair=True)
    assert str(damaged.relative_to(tmp_path / "sessions")) in {str(finding.document) for finding in report.findings}
    assert {finding.problem for finding in report.findings} >= {Problem.DOCUMENT}
    assert all(not finding.is_repaired for finding in report.findings)
    assert contents(tmp_path) == before


async def test_what_is_certain_is_reported_although_another_file_is_damaged(
    tmp_path: Directory, store: DocumentStore, database: FileDatabase
) -> None:
    lost = await store.create_session(ANN, "other", NewSession("echo"))
    truncate(file_of(tmp_path, Kind.SNAPSHOTS, "a"))
    await database.commit([Update(session(lost.id), {"activeSnapshotId": "c", "createdAt": 1})])
    findings = (await check(database)).findings
    assert (Problem.DOCUMENT, "pointers/acme/other") in {(found.problem, str(found.document)) for found in findings}


async def test_the_command_reports_and_repairs(tmp_path: Directory, database: FileDatabase) -> None:
    directory = tmp_path / "sessions"
    assert run(directory).returncode == 0
    await database.commit([Update(session(), {"currentSnapshotId": "a"})])
    before = contents(directory)
    found = run(directory)
    assert found.returncode == 1
    assert found.stdout.startswith("wrong-pointer: pointers/acme/s: ")
    assert "1 findings are left" in found.stderr
    assert contents(directory) == before
    line = json.loads(run(directory, "--json").stdout)
    assert (line["problem"], line["document"], line["repaired"]) == ("wrong-pointer", "pointers/acme/s", False)
    assert run(directory, "--tenant", "other").returncode == 0
    repaired = run(directory, "--repair")
    assert (repaired.returncode, "repaired 1" in repaired.stderr) == (0, True)
    assert run(directory).returncode == 0


def test_the_command_refuses_what_cannot_be_checked(tmp_path: Directory) -> None:
    assert run(tmp_path / "nowhere").returncode == 2
    assert run(tmp_path, store="memory").returncode == 2
    assert run(tmp_path, store="sqlite").returncode == 1
    assert not (tmp_path / "nowhere").exists()
