"""A file that is not exactly what was written is data loss that names the document: never absence, never other data."""

import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path as Directory

import pytest

from store.database import Create, Delete, Kind, Path, Query, Update
from store.errors import DataLossError
from store.file.database import FileDatabase
from store.file.paths import file_of

ROW = Path(Kind.SNAPSHOTS, "acme", "row")
OTHER = Path(Kind.SNAPSHOTS, "acme", "other")


@pytest.fixture
async def database(tmp_path: Directory) -> AsyncIterator[FileDatabase]:
    opened = FileDatabase(tmp_path, poll_interval=0.01)
    await opened.commit([Create(ROW, {"text": "hello", "n": 1}), Create(OTHER, {"text": "world"})])
    yield opened
    await opened.close()


@pytest.fixture
def row_file(tmp_path: Directory, database: FileDatabase) -> Directory:
    return tmp_path / file_of("genkit-sessions", ROW)


def altered(content: bytes) -> bytes:
    return content.replace(b"hello", b"hallo")


def redigested(content: bytes) -> bytes:
    return content.replace(b'"sha256":"', b'"sha256":"0')


def damage_file(file: Directory, damage: Callable[[bytes], bytes]) -> None:
    file.write_bytes(damage(file.read_bytes()))


def emptied(_: bytes) -> bytes:
    return b""


def of_format_two(content: bytes) -> bytes:
    envelope = json.loads(content)
    del envelope["sha256"]
    body = json.dumps(envelope | {"format": 2}).encode()[:-1]
    return b'%b,"sha256":"%b"}\n' % (body, hashlib.sha256(body).hexdigest().encode())


DAMAGES: list[Callable[[bytes], bytes]] = [
    altered,
    redigested,
    emptied,
    lambda content: content[:-1],
    lambda content: content[:40],
    lambda content: content + b"\n",
    lambda content: b"\x00" * len(content),
    lambda content: content.replace(b'"n":1', b'"n":true'),
]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_file_is_data_loss(
    database: FileDatabase, row_file: Directory, damage: Callable[[bytes], bytes]
) -> None:
    damage_file(row_file, damage)
    with pytest.raises(DataLossError, match="snapshots/acme/row"):
        await database.get([ROW])
    with pytest.raises(DataLossError, match="row"):
        await database.query(Query(Kind.SNAPSHOTS, "acme", ()))
    with pytest.raises(DataLossError, match="row"):
        await database.query(Query(Kind.SNAPSHOTS, None, ()))


async def test_nothing_is_built_on_a_damaged_document(database: FileDatabase, row_file: Directory) -> None:
    damage_file(row_file, altered)
    with pytest.raises(DataLossError):
        await database.commit([Update(ROW, {"n": 2}), Update(OTHER, {"n": 2})])
    other = (await database.get([OTHER])).documents[OTHER]
    assert other is not None
    assert other.fields == {"text": "world"}


async def test_another_documents_file_under_this_name_is_data_loss(
    database: FileDatabase, row_file: Directory, tmp_path: Directory
) -> None:
    shutil.copy(tmp_path / file_of("genkit-sessions", OTHER), row_file)
    with pytest.raises(DataLossError, match="snapshots/acme/other"):
        await database.get([ROW])
    with pytest.raises(DataLossError, match="snapshots/acme/other"):
        await database.query(Query(Kind.SNAPSHOTS, "acme", ()))


async def test_a_damaged_document_can_be_deleted(database: FileDatabase, row_file: Directory) -> None:
    damage_file(row_file, emptied)
    await database.commit([Delete(ROW)])
    assert (await database.get([ROW])).documents[ROW] is None


async def test_a_damaged_earlier_version_is_data_loss(database: FileDatabase, tmp_path: Directory) -> None:
    earlier = (await database.get([ROW])).time
    await database.commit([Update(ROW, {"n": 2})])
    (version,) = (tmp_path / ".versions").iterdir()
    version.write_bytes(altered(version.read_bytes()))
    with pytest.raises(DataLossError, match="snapshots/acme/row"):
        await database.get([ROW], at=earlier)


async def test_a_damaged_journal_stops_everything(database: FileDatabase, tmp_path: Directory) -> None:
    (tmp_path / ".journal").write_bytes(b"half a jour")
    for attempt in (database.get([OTHER]), database.commit([Delete(OTHER)])):
        with pytest.raises(DataLossError, match="journal"):
            await attempt


async def test_a_newer_format_is_refused(database: FileDatabase, row_file: Directory) -> None:
    damage_file(row_file, of_format_two)
    with pytest.raises(DataLossError, match="format 2"):
        await database.get([ROW])


async def test_a_watch_raises_the_damage_that_it_finds(database: FileDatabase, row_file: Directory) -> None:
    async with database.watch(ROW) as states:
        await anext(states)
        damage_file(row_file, emptied)
        other_process = FileDatabase(row_file.parents[3])
        await other_process.commit([Update(OTHER, {"n": 1})])
        await other_process.close()
        with pytest.raises(DataLossError, match="snapshots/acme/row"):
            await anext(states)
