"""Damage in the documents of Genkit's stores is found and named, never read as absence or as partial state."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from store.database import Delete, Document, Kind, Path, Put, Query
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import DataLossError, StoreError
from store.fsck.check import check
from store.ids import mint_id
from store.layout.fields import FieldReader
from store.legacy.rows import is_legacy, read_time, refused_ids
from store.local.values import utc_now
from store.memory.database import MemoryDatabase
from store.models import Claim, NewSession, Scope
from store.state import Raw
from tests.contract.genkit_documents import BEGAN, DIALECTS, TENANT, Dialect, conversation, genkit_writes

ANN = Scope(TENANT, "ann")
CHECKPOINT, DIFF, HEAD = (Path(Kind.SNAPSHOTS, TENANT, f"row-{number}") for number in (0, 1, 2))
SHARD = Path(Kind.SHARDS, TENANT, "row-0_0")
POINTER = Path(Kind.POINTERS, TENANT, "s")

MISSING = [CHECKPOINT, SHARD, DIFF, HEAD]
ALTERED: list[tuple[Path, dict[str, Any]]] = [
    (SHARD, {"chunk": b"{"}),
    (SHARD, {"chunk": "text"}),
    (SHARD, {"chunk": b'{"a":NaN}'}),
    (SHARD, {"chunk": b"[1]"}),
    (DIFF, {"statePatch": None}),
    (DIFF, {"statePatch": b"\xff"}),
    (DIFF, {"statePatch": "{}"}),
    (DIFF, {"statePatch": '[{"op":"remove","path":"/nowhere"}]'}),
    (DIFF, {"statePatch": '[{"op":"add","path":"/custom"}]'}),
    (DIFF, {"kind": "checkpoint"}),
    (DIFF, {"checkpointId": "row-9"}),
    (HEAD, {"statePatch": "[1]"}),
    (HEAD, {"snapshotId": "row-1"}),
    (HEAD, {"kind": "other"}),
    (HEAD, {"checkpointShardCount": 0}),
    (HEAD, {"checkpointShardCount": 10**9}),
    (HEAD, {"segmentPath": ["row-1"]}),
    (HEAD, {"segmentPath": []}),
    (HEAD, {"createdAt": "yesterday"}),
    (HEAD, {"createdAt": None}),
    (HEAD, {"createdAt": 5}),
    (HEAD, {"status": "done"}),
    (HEAD, {"error": b"{"}),
    (HEAD, {"error": [1]}),
    (POINTER, {"currentSnapshotId": "gone"}),
    (POINTER, {"currentSnapshotId": 5}),
]


class Broken:
    """A store on one conversation of three rows, and what it takes to break its documents."""

    def __init__(self, dialect: Dialect) -> None:
        self.database = MemoryDatabase(clock=utc_now)
        self.store = DocumentStore(Shelf(self.database, Options(legacy_owner="tenant")))
        self._writes = genkit_writes(dialect, conversation(3))

    async def write(self) -> None:
        for write in self._writes:
            await self.database.commit([write])

    async def alter(self, path: Path, changes: dict[str, Any]) -> None:
        document = (await self.database.get([path])).documents[path]
        assert document is not None
        fields = {**document.fields, **changes}
        await self.database.commit([Put(path, {name: value for name, value in fields.items() if value is not None})])

    async def stored(self) -> dict[Path, Document]:
        """All that is stored."""
        kinds = (Kind.POINTERS, Kind.SNAPSHOTS, Kind.SHARDS)
        found = [(await self.database.query(Query(kind, None, ()))).documents for kind in kinds]
        return {document.path: document for documents in found for document in documents}

    async def problems(self) -> list[StoreError | None]:
        """What each way of reading the head says; None where it gives something."""
        ways: list[Callable[[], Any]] = [
            lambda: self.store.get_latest_snapshot(ANN, "s"),
            lambda: self.store.get_transcript(ANN, "s"),
            lambda: self.store.claim_turn(ANN, a_claim()),
        ]
        return [await _problem(way) for way in ways]


async def _problem(way: Callable[[], Any]) -> StoreError | None:
    try:
        await way()
    except StoreError as problem:
        return problem
    return None


def a_claim() -> Claim:
    """A claim for the session's next turn."""
    message = Raw.of({"id": mint_id(), "role": "user", "content": [{"text": "Hi"}]}, 3)
    return Claim(mint_id(), mint_id(), NewSession("echo"), "s", message, runner="r")


@pytest.fixture(params=DIALECTS)
async def broken(request: pytest.FixtureRequest) -> Broken:
    """Documents of each dialect, whole so far."""
    made = Broken(request.param)
    await made.write()
    return made


async def test_whole_documents_have_no_problem(broken: Broken) -> None:
    assert await broken.problems() == [None, None, None]


@pytest.mark.parametrize("path", MISSING[1:], ids=str)
async def test_a_missing_document_is_data_loss_to_every_reader(broken: Broken, path: Path) -> None:
    await broken.database.commit([Delete(path)])
    problems = await broken.problems()
    assert [type(problem) for problem in problems] == [DataLossError] * 3
    assert str(path.id) in str(problems[0])


@pytest.mark.parametrize(("path", "changes"), ALTERED, ids=str)
async def test_an_altered_document_is_data_loss_to_every_reader(
    broken: Broken, path: Path, changes: dict[str, Any]
) -> None:
    await broken.alter(path, changes)
    problems = await broken.problems()
    assert [type(problem) for problem in problems] == [DataLossError] * 3
    assert str(path) in str(problems[0]) or "shards" in str(problems[0])
    document = (await broken.database.get([POINTER])).documents[POINTER]
    assert document is not None
    assert is_legacy(document)  # nothing was built on it


@pytest.mark.parametrize("path", MISSING, ids=str)
async def test_the_check_names_what_a_missing_document_takes_with_it(broken: Broken, path: Path) -> None:
    await broken.database.commit([Delete(path)])
    before = await broken.stored()
    found = (await check(broken.database, repair=True)).findings
    assert any(path.id in finding.reason for finding in found)
    assert await broken.stored() == before


@pytest.mark.parametrize(("path", "changes"), ALTERED, ids=str)
async def test_the_check_names_an_altered_document_or_what_it_takes_with_it(
    broken: Broken, path: Path, changes: dict[str, Any]
) -> None:
    await broken.alter(path, changes)
    before = await broken.stored()
    found = (await check(broken.database, repair=True)).findings
    assert any(str(path) == str(finding.document) or path.id in finding.reason for finding in found)
    assert await broken.stored() == before


async def test_the_check_finds_nothing_wrong_with_whole_documents(broken: Broken) -> None:
    assert (await check(broken.database)).findings == []


DAMAGED_HEADS = [changes for path, changes in ALTERED if path == HEAD and "snapshotId" not in changes]


@pytest.mark.parametrize("changes", DAMAGED_HEADS, ids=str)
async def test_a_damaged_row_of_somebodys_session_is_nothing_to_others(broken: Broken, changes: dict[str, Any]) -> None:
    await broken.store.update_session(ANN, "s", title="Mine")
    await broken.alter(HEAD, changes)
    assert isinstance(await _problem(lambda: broken.store.get_snapshot(ANN, HEAD.id)), DataLossError)
    assert await broken.store.get_snapshot(Scope(TENANT, "bob"), HEAD.id) is None


async def test_parents_in_a_circle_are_data_loss(broken: Broken) -> None:
    for path, parent in ((HEAD, "row-1"), (DIFF, "row-2")):
        await broken.alter(path, {"status": "failed", "parentId": parent})
    assert [type(problem) for problem in (await broken.problems())[1:]] == [DataLossError] * 2


async def test_a_document_of_ours_without_its_version_is_not_taken_for_genkit_s(broken: Broken) -> None:
    document = Document(HEAD, {"ownerId": "ann", "snapshotId": "row-2"}, BEGAN)
    assert not is_legacy(document)


def test_ids_that_ours_refuses_are_reported() -> None:
    fields = {"snapshotId": "a", "sessionId": "chat/1", "parentId": "__x__", "checkpointId": ""}
    [session, parent] = refused_ids(Document(HEAD, fields, BEGAN))
    assert session.startswith("sessionId must not contain '/'")
    assert parent.startswith("parentId must not be")


@pytest.mark.parametrize(("length", "problems"), [(1400, 0), (1401, 1)])
def test_a_session_of_genkits_has_an_id_that_a_client_may_send(length: int, problems: int) -> None:
    assert len(refused_ids(Document(Path(Kind.POINTERS, TENANT, "x" * length), {}, BEGAN))) == problems


@pytest.mark.parametrize(
    "text",
    ["2025-12-24T18:00:00Z", "2025-12-24T18:00:00", "2025-12-24T19:00:00.000+01:00", BEGAN.replace(microsecond=0)],
)
def test_a_time_is_read_however_it_is_spelled(text: object) -> None:
    time = read_time(FieldReader("row", {"t": text}), "t")
    assert time == BEGAN.replace(microsecond=0)
    assert isinstance(time, datetime)
