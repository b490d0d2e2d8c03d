"""The index file beside the queries that the store really asks: a missing index fails in production, never in the
emulator, which has none."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path as File
from typing import Any, NamedTuple

import pytest

from store.database import Document, Found, Kind, Path, Query
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.firestore.database import FirestoreDatabase
from store.fsck.check import check
from store.layout import records as records_layout
from store.layout import rows as rows_layout
from store.layout.segments import cut_segments, log_line, segment_fields
from store.models import NewSession
from tests.contract.conversations import taken
from tests.contract.turns import ANN, RUNNER, claim, completed, converse, same_send, save
from tests.integration.test_rules import ask

INDEXES = json.loads(
    (File(__file__).resolve().parents[2] / "emulator_config/firestore.indexes.json").read_text("utf-8")
)
OVERRIDES = INDEXES["fieldOverrides"]
MOST_OVERRIDES = 200  # single-field configurations of a database
(SEGMENT,) = cut_segments(0, [(1, log_line(1, "turn-start", {}))])
PAYLOADS = {"statePatch", "request", "error", "chunk", "base", "tail"}


class Index(NamedTuple):
    """A composite index: its group, whether it spans all collections of that name, and its fields with their order."""

    group: str
    scope: str
    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, group: str, entry: Mapping[str, Any]) -> "Index":
        """One as the file and the emulator write it; every index ends with the document's name."""
        fields = [(field["fieldPath"], field["order"]) for field in entry["fields"] if field["fieldPath"] != "__name__"]
        return cls(group, entry["queryScope"], tuple(fields))


class Asked(FirestoreDatabase):
    """Remembers what it was asked."""

    def __init__(self, project: str, host: str) -> None:
        super().__init__(project, emulator_host=host)
        self.queries: list[Query] = []

    async def query(self, query: Query) -> Found:
        """As ever."""
        self.queries.append(query)
        return await super().query(query)

    def watch(self, target: Path | Query) -> AbstractAsyncContextManager[AsyncIterator[list[Document | None]]]:
        """A query that is watched needs its index too."""
        if isinstance(target, Query):
            self.queries.append(target)
        return super().watch(target)


@pytest.fixture
async def asked(emulator_host: str, project_id: str) -> AsyncIterator[Asked]:
    """A database that every operation of a store which asks queries has been tried on."""
    database = Asked(project_id, emulator_host)
    await every_query(database)
    yield database
    await database.close()


async def every_query(database: Asked) -> None:
    store = DocumentStore(Shelf(database, Options(max_persisted_chain_length=3)))
    first = claim("a", "s")
    await store.create_session(ANN, "s", NewSession("echo"))
    lease = await store.claim_turn(ANN, first)
    await store.settle_turn(lease, completed(lease))  # type: ignore[arg-type]  # a first send is answered by a lease
    await same_send(store, claim("a", "s", check_tail=False))
    for page in (None, (await store.list_snapshots(ANN, "s", 1)).next_cursor):
        await store.list_snapshots(ANN, "s", 1, page)
    await converse(store, "b")
    for page in (None, (await store.list_sessions(ANN, 1)).next_cursor):
        await store.list_sessions(ANN, 1, page)
    await save(store, "row", session_id="s2")
    running = await taken(store, "c", "s")
    await read_first(store.watch_aborts(RUNNER))
    await store.request_segments(ANN, running.snapshot_id)
    await read_first(store.watch_segment_requests(RUNNER))
    await store.read_segments(ANN, running.snapshot_id)
    await read_first(store.watch_segments(ANN, running.snapshot_id))
    await store.set_retention(ANN.tenant, 1, 1)
    await store.trim_sessions(ANN)
    await store.sweep()
    await check(database)
    await check(database, tenant=ANN.tenant)
    await store.erase_user(ANN)


async def read_first(watch: AbstractAsyncContextManager[AsyncIterator[Any]]) -> None:
    async with watch as deliveries:
        async for _ in deliveries:
            return


def listed() -> set[Index]:
    """Composite ones, and those of a single field that span a group, which are overrides in the file."""
    found = {Index.of(entry["collectionGroup"], entry) for entry in INDEXES["indexes"]}
    for entry in OVERRIDES:
        for index in entry["indexes"]:
            if index["queryScope"] == "COLLECTION_GROUP":
                field = ((entry["fieldPath"], index["order"]),)
                found.add(Index(entry["collectionGroup"], "COLLECTION_GROUP", field))
    return found


def needed(host: str, project: str) -> set[Index]:
    """What the emulator says that the queries so far need."""
    place = f"projects/{project}/databases/(default)"
    status, answer = ask(host, "GET", f"/emulator/v1/projects/{project}:indexUsage?database={place}")
    assert status == 200
    return {Index.of(report["index"]["name"].split("/")[-3], report["index"]) for report in answer["reports"]}


def not_indexed(group: str) -> set[str]:
    return {entry["fieldPath"] for entry in OVERRIDES if entry["collectionGroup"] == group and not entry["indexes"]}


async def test_the_indexes_are_those_that_are_needed_and_no_others(
    asked: Asked, emulator_host: str, project_id: str
) -> None:
    assert needed(emulator_host, project_id) == listed()


async def test_no_query_looks_for_a_field_that_is_not_indexed(asked: Asked) -> None:
    """What needs one field in one collection has an index of its own unless the file takes it away."""
    simple = [
        (query.kind.value, condition.field)
        for query in asked.queries
        if len(query.where) == 1 and not query.order and query.tenant is not None
        for condition in query.where
    ]
    assert {("snapshots", "sessionId"), ("shards", "sessionId"), ("pointers", "ownerId")} <= set(simple)
    assert [(group, field) for group, field in simple if field in not_indexed(group)] == []
    overridden = {(entry["collectionGroup"], entry["fieldPath"]) for entry in OVERRIDES}
    assert set(simple) & overridden == set()


async def test_nothing_is_indexed_by_itself_that_no_query_asks_for(asked: Asked) -> None:
    """Two entries for each field of each row would take more than four times what the documents take."""
    store = DocumentStore(Shelf(asked, Options()))
    await store.create_session(ANN, "t", NewSession("echo", lifetime=60.0))
    await converse(store, "a", "t")
    await taken(store, "b", "t")
    indexed = {
        (kind.value, name)
        for kind in (Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS, Kind.STREAMS)
        for document in (await asked.query(Query(kind, None, ()))).documents
        for name in document.fields
        if name not in not_indexed(kind.value)
    }
    assert indexed == {("snapshots", "sessionId"), ("shards", "sessionId"), ("pointers", "ownerId")}
    rows = {*rows_layout.METADATA_FIELDS, *rows_layout.PAYLOAD_FIELDS, "codec"}
    assert rows - not_indexed("snapshots") == {"sessionId", "abortRunner"}
    sessions = {*records_layout.METADATA_FIELDS, *records_layout.COPY_FIELDS}
    assert sessions - not_indexed("pointers") == {"ownerId"}
    assert set(segment_fields("r", "s", SEGMENT, datetime.now(UTC))) - not_indexed("streams") == {
        "snapshotId",
        "sessionId",
    }


def test_there_are_no_more_exemptions_than_a_database_takes() -> None:
    assert len(OVERRIDES) <= MOST_OVERRIDES


@pytest.mark.parametrize("group", [kind.value for kind in (Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS, Kind.STREAMS)])
def test_the_database_drops_what_has_expired(group: str) -> None:
    policies = [entry for entry in OVERRIDES if entry["collectionGroup"] == group and entry.get("ttl")]
    assert [(entry["fieldPath"], entry["indexes"]) for entry in policies] == [("firesessionExpireAt", [])]


def holds_a_time(value: object) -> bool:
    """The fields of a map are indexed as well."""
    return isinstance(value, datetime) or (isinstance(value, dict) and any(map(holds_a_time, value.values())))


async def test_times_and_payloads_are_not_indexed_by_themselves(asked: Asked) -> None:
    """A value that only grows would cap a collection at some 500 writes a second; a payload costs, and is never asked
    for."""
    store = DocumentStore(Shelf(asked, Options()))
    await store.create_session(ANN, "t", NewSession("echo", lifetime=60.0))
    await converse(store, "a", "t")
    await taken(store, "b", "t")
    for kind in (Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS):
        documents = (await asked.query(Query(kind, None, ()))).documents
        fields = [item for document in documents for item in document.fields.items()]
        heavy = {name for name, value in fields if holds_a_time(value) or name in PAYLOADS}
        assert heavy
        assert heavy <= not_indexed(kind.value)
