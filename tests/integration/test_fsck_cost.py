"""What a check costs: one read per document, counted by the database, however many there are."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest

from store.database import CommitUnansweredError, Database, Delete, Document, Kind, Path, Put, Query
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.firestore.database import FirestoreDatabase
from store.fsck.check import check
from store.fsck.findings import Problem
from store.fsck.scan import CHECKED
from store.memory.database import MemoryDatabase
from tests.contract.genkit_documents import BEGAN, TENANT, GenkitRow, conversation, genkit_writes
from tests.contract.turns import converse

BATCH = 100
TURNS = 21  # with its session document and its shard: 23 documents a session


@pytest.fixture
async def firestore(project_id: str, emulator_host: str) -> AsyncIterator[FirestoreDatabase]:
    """An empty database."""
    opened = FirestoreDatabase(project_id, emulator_host=emulator_host)
    yield opened
    await opened.close()


async def fill(database: FirestoreDatabase, sessions: int) -> int:
    """Sessions made in memory, which is fast, and copied; gives back how many documents those are."""
    memory = MemoryDatabase()
    store = DocumentStore(Shelf(memory, Options()))
    for number in range(sessions):
        first = await converse(store, f"q{number}")
        for turn in range(1, TURNS):
            await converse(store, f"q{number}-{turn}", first.session_id)
    return await copy(memory, database)


async def copy(source: Database, target: Database) -> int:
    documents = [document for kind in CHECKED for document in (await source.query(Query(kind, None, ()))).documents]
    for start in range(0, len(documents), BATCH):
        await put(target, documents[start : start + BATCH])
    return len(documents)


async def put(target: Database, documents: Sequence[Document]) -> None:
    """Until it is answered: an emulator that has just started takes its time."""
    while True:
        with suppress(CommitUnansweredError):
            await target.commit([Put(document.path, document.fields) for document in documents])
            return


async def check_counted(database: FirestoreDatabase, documents: int) -> None:
    before = database.calls.snapshot()
    report = await check(database)
    spent = database.calls.since(before)
    assert report.findings == []
    assert sum(report.documents.values()) == documents
    # A query without a result is billed as one read: a kind of which there is nothing, or a last page that was full.
    assert spent.read <= documents + len(CHECKED)
    assert spent.written == 0
    assert spent.sent <= len(CHECKED) + documents / 60


async def test_a_check_reads_every_document_once(firestore: FirestoreDatabase) -> None:
    documents = await fill(firestore, sessions=10)
    await check_counted(firestore, documents)


async def test_what_seems_wrong_is_read_again_and_nothing_else(firestore: FirestoreDatabase) -> None:
    documents = await fill(firestore, sessions=5)
    record = (await firestore.query(Query(Kind.POINTERS, "acme", ()))).documents[0]
    await firestore.commit([Put(record.path, {**record.fields, "currentSnapshotId": "nobody"})])
    before = firestore.calls.snapshot()
    report = await check(firestore)
    assert len(report.findings) == 1
    assert firestore.calls.since(before).read <= documents + len(CHECKED) + TURNS + 4


async def test_a_check_reads_every_document_of_genkit_s_once(firestore: FirestoreDatabase) -> None:
    writes = [put for number in range(5) for put in genkit_writes("go", renamed(number), f"s{number}")]
    for start in range(0, len(writes), BATCH):
        await put(firestore, [Document(each.path, each.fields, BEGAN) for each in writes[start : start + BATCH]])
    await check_counted(firestore, len(writes))
    await firestore.commit([Delete(Path(Kind.SNAPSHOTS, TENANT, "0-row-1"))])
    before = firestore.calls.snapshot()
    report = await check(firestore)
    assert {finding.problem for finding in report.findings} == {Problem.CHAIN}
    again = sum(each.path.id.startswith(("0-", "s0")) for each in writes)
    assert firestore.calls.since(before).read <= len(writes) + len(CHECKED) + again + 4


def renamed(number: int) -> list[GenkitRow]:
    """A conversation whose rows no other one has."""
    rows = conversation(9, f"s{number}")
    for each in rows:
        each["snapshotId"] = f"{number}-{each['snapshotId']}"
        if "parentId" in each:
            each["parentId"] = f"{number}-{each['parentId']}"
    return rows


@pytest.mark.slow
async def test_ten_thousand_documents_cost_ten_thousand_reads(firestore: FirestoreDatabase) -> None:
    documents = await fill(firestore, sessions=435)
    assert documents >= 10_000
    await check_counted(firestore, documents)
