"""Reading and writing single documents on Firestore: values, preconditions, transforms, moments, and what they cost."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pprint import pformat
from typing import Any

import pytest

from store.database import SERVER_TIME, CommitRefusedError, Create, Delete, Document, Kind, Path, Put, Update, Write
from store.errors import InvalidRequestError, UnavailableError
from store.firestore.database import FirestoreDatabase

ROW = Path(Kind.SNAPSHOTS, "acme", "row")
OTHER = Path(Kind.POINTERS, "acme", "session")
MISSING = Path(Kind.SHARDS, "acme", "nowhere")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
async def database(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    database = FirestoreDatabase(project_id, emulator_host=emulator_host)
    yield database
    await database.close()


async def read(database: FirestoreDatabase, path: Path = ROW) -> Document:
    document = (await database.get([path])).documents[path]
    assert document is not None
    return document


async def write(database: FirestoreDatabase, **fields: Any) -> datetime:
    """Puts ROW; its update time."""
    [time] = (await database.commit([Put(ROW, fields)])).update_times
    assert time is not None
    return time


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param(True, id="bool"),
        pytest.param(False, id="false"),
        pytest.param(0, id="zero"),
        pytest.param(2**63 - 1, id="largest int"),
        pytest.param(-(2**63), id="smallest int"),
        pytest.param("", id="empty text"),
        pytest.param("nul \0, é, 𝄞, \u2028", id="unicode"),
        pytest.param(b"", id="no bytes"),
        pytest.param(bytes(range(256)), id="bytes"),
        pytest.param(EPOCH, id="epoch"),
        pytest.param(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), id="before the epoch"),
        pytest.param(datetime(2026, 2, 28, 12, 0, 0, 123_457, tzinfo=UTC), id="microseconds"),
        pytest.param([], id="empty list"),
        pytest.param({}, id="empty map"),
        pytest.param([{"a": [1, None, b"x", {"b": {}}]}, "1", True], id="nested"),
        pytest.param({name: {name: 2} for name in ("a.b", "a/b", "`", "\\", "é", " ")}, id="odd keys"),
    ],
)
async def test_a_value_comes_back_equal_and_of_the_same_type(database: FirestoreDatabase, value: Any) -> None:
    await write(database, value=value)
    back = (await read(database)).fields
    assert back == {"value": value}
    assert pformat(back["value"]) == pformat(value)  # 1 == True == 1.0, and datetimes of two zones are equal


@pytest.mark.parametrize("value", [(1,), {1}, bytearray(b"x"), SERVER_TIME.__class__, [SERVER_TIME]])
async def test_a_value_of_another_type_is_refused_before_anything_is_sent(
    database: FirestoreDatabase, value: Any
) -> None:
    with pytest.raises(TypeError):
        await write(database, value=value)
    assert database.calls.snapshot().sent == 0


async def test_odd_field_names_can_be_masked_removed_and_appended_to(database: FirestoreDatabase) -> None:
    odd = ("a.b", "a/b", "`q`", "back\\slash", "é", "0")
    await write(database, **dict.fromkeys(odd, 1), kept=2)
    masked = (await database.get([ROW], mask=odd)).documents[ROW]
    assert masked is not None
    assert masked.fields == dict.fromkeys(odd, 1)
    await database.commit([Update(ROW, {"a.b": 3}, remove=odd[1:], append={"l.l": [1]})])
    assert (await read(database)).fields == {"a.b": 3, "kept": 2, "l.l": [1]}


async def test_get_gives_none_for_missing_documents_and_an_empty_mask_gives_no_fields(
    database: FirestoreDatabase,
) -> None:
    time = await write(database, a=1, b=2)
    found = await database.get([MISSING, ROW, ROW], mask=())
    assert found.documents == {MISSING: None, ROW: Document(ROW, {}, time)}
    assert found.time >= time


async def test_get_without_paths_asks_nothing(database: FirestoreDatabase) -> None:
    assert (await database.get([])).documents == {}
    assert database.calls.snapshot().sent == 0


async def test_reads_at_one_time_see_the_documents_of_that_time(database: FirestoreDatabase) -> None:
    await database.commit([Put(ROW, {"n": 1}), Put(OTHER, {"n": 1})])
    before = await database.get([ROW])
    await database.commit([Put(ROW, {"n": 2}), Delete(OTHER)])
    then = await database.get([ROW, OTHER], at=before.time)
    assert {path: document and document.fields for path, document in then.documents.items()} == {
        ROW: {"n": 1},
        OTHER: {"n": 1},
    }
    assert then.time == before.time


async def test_create_is_refused_where_the_document_exists_and_then_nothing_is_written(
    database: FirestoreDatabase,
) -> None:
    await database.commit([Create(ROW, {"n": 1})])
    with pytest.raises(CommitRefusedError):
        await database.commit([Put(OTHER, {"n": 2}), Create(ROW, {"n": 2})])
    assert (await database.get([OTHER])).documents[OTHER] is None
    assert (await read(database)).fields == {"n": 1}


async def test_put_replaces_the_whole_document(database: FirestoreDatabase) -> None:
    await write(database, a=1, b=2)
    await write(database, b=3)
    assert (await read(database)).fields == {"b": 3}


async def test_update_sets_fields_whole_and_leaves_the_others(database: FirestoreDatabase) -> None:
    await write(database, a={"x": 1}, b=2, c=3)
    await database.commit([Update(ROW, {"a": {"y": 2}}, remove=("c", "unknown"))])
    assert (await read(database)).fields == {"a": {"y": 2}, "b": 2}


async def test_an_update_of_transforms_alone_keeps_the_document(database: FirestoreDatabase) -> None:
    await write(database, a=1)
    await database.commit([Update(ROW, {"at": SERVER_TIME}, append={"list": [1]})])
    assert (await read(database)).fields.keys() == {"a", "at", "list"}


async def test_update_is_refused_where_the_document_is_missing(database: FirestoreDatabase) -> None:
    with pytest.raises(CommitRefusedError):
        await database.commit([Update(MISSING, {"a": 1})])


async def test_update_and_delete_are_refused_where_the_document_was_written_since(database: FirestoreDatabase) -> None:
    stale = await write(database, n=1)
    fresh = await write(database, n=2)
    for change in (Update(ROW, {"n": 3}, update_time=stale), Delete(ROW, stale), Delete(MISSING, fresh)):
        with pytest.raises(CommitRefusedError):
            await database.commit([change])
    await database.commit([Update(ROW, {"n": 3}, update_time=fresh)])
    assert (await read(database)).fields == {"n": 3}


async def test_a_delete_without_a_time_always_works(database: FirestoreDatabase) -> None:
    await write(database, n=1)
    assert (await database.commit([Delete(ROW), Delete(MISSING)])).update_times == (None, None)
    assert (await database.get([ROW])).documents[ROW] is None


async def test_a_write_that_changes_nothing_keeps_the_update_time(database: FirestoreDatabase) -> None:
    time = await write(database, n=1)
    committed = await database.commit([Update(ROW, {"n": 1}, update_time=time), Create(OTHER, {})])
    assert committed.update_times[0] == time


async def test_the_reported_update_time_is_the_documents(database: FirestoreDatabase) -> None:
    time = await write(database, n=1)
    assert (await read(database)).update_time == time


async def test_server_time_is_one_time_for_the_commit_and_is_reported(database: FirestoreDatabase) -> None:
    await write(database, a=1)
    writes: list[Write] = [Create(OTHER, {"at": SERVER_TIME}), Update(ROW, {"at": SERVER_TIME, "b": 2})]
    committed = await database.commit(writes)
    other = (await read(database, OTHER)).fields
    assert (await read(database)).fields == {"a": 1, "at": committed.server_time, "b": 2}
    assert other == {"at": committed.server_time}


async def test_without_server_time_a_commits_own_time_is_reported(database: FirestoreDatabase) -> None:
    committed = await database.commit([Put(ROW, {"n": 1})])
    assert committed.server_time == committed.update_times[0]


async def test_append_adds_what_is_not_there_in_order(database: FirestoreDatabase) -> None:
    await write(database, tail=[b"1", b"2"])
    await database.commit([Update(ROW, append={"tail": [b"2", b"4", b"3"], "new": ["a"]})])
    assert (await read(database)).fields == {"tail": [b"1", b"2", b"4", b"3"], "new": ["a"]}


async def test_write_each_refuses_one_write_and_lands_the_others(database: FirestoreDatabase) -> None:
    time = await write(database, n=1)
    before = database.calls.snapshot()
    written = await database.write_each(
        [
            Update(ROW, {"at": SERVER_TIME}, update_time=time),
            Update(OTHER, {"n": 1}, update_time=time),
            Create(MISSING, {"n": 1}),
            Delete(Path(Kind.BLOBS, "acme", "gone")),
        ]
    )
    spent = database.calls.since(before)
    assert [entry is None for entry in written] == [False, True, False, False]
    assert written[0] == (await read(database)).update_time > time
    assert (spent.rpcs, spent.read, spent.written) == ({"BatchWrite": 1}, 0, 3)


async def test_more_independent_writes_than_a_request_takes_go_out_in_several(
    database: FirestoreDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told what became of it, in order."""
    monkeypatch.setattr("store.firestore.database.MOST_WRITES", 2)
    paths = [Path(Kind.SHARDS, "acme", str(n)) for n in range(5)]
    await database.commit([Create(paths[3], {"n": 0})])
    before = database.calls.snapshot()
    written = await database.write_each([Create(path, {"n": n}) for n, path in enumerate(paths)])
    assert [entry is None for entry in written] == [False, False, False, True, False]
    assert [(await read(database, path)).fields["n"] for path in paths] == [0, 1, 2, 0, 4]
    assert database.calls.since(before).rpcs["BatchWrite"] == 3


async def test_a_commit_beyond_the_size_limit_is_the_callers_mistake(database: FirestoreDatabase) -> None:
    chunk = b"x" * 900_000
    with pytest.raises(InvalidRequestError, match="larger than the database accepts"):
        await database.commit([Put(Path(Kind.SHARDS, "acme", str(n)), {"chunk": chunk}) for n in range(5)])


async def test_a_document_beyond_the_size_limit_is_the_callers_mistake(database: FirestoreDatabase) -> None:
    with pytest.raises(InvalidRequestError):
        await write(database, chunk=b"x" * 1_100_000)


async def test_answers_larger_than_grpcs_default_are_read(database: FirestoreDatabase) -> None:
    paths = [Path(Kind.SHARDS, "acme", str(n)) for n in range(8)]
    for path in paths:
        await database.commit([Put(path, {"chunk": b"x" * 900_000})])
    read = await database.get(paths)
    assert sum(len(document.fields["chunk"]) for document in read.documents.values() if document) == 7_200_000


async def test_reads_and_writes_are_counted_as_they_are_billed(database: FirestoreDatabase) -> None:
    before = database.calls.snapshot()
    await database.commit([Put(ROW, {}), Delete(OTHER)])
    with pytest.raises(CommitRefusedError):
        await database.commit([Create(ROW, {}), Put(OTHER, {})])
    await database.get([ROW, OTHER, ROW])
    spent = database.calls.since(before)
    assert (spent.rpcs, spent.read, spent.written) == ({"Commit": 2, "BatchGetDocuments": 1}, 2, 2)


async def test_kinds_tenants_and_collections_do_not_see_each_other(
    database: FirestoreDatabase, emulator_host: str, project_id: str
) -> None:
    paths = [Path(kind, tenant, "same") for kind in Kind for tenant in ("acme", "other")]
    await database.commit([Create(path, {"path": str(path)}) for path in paths])
    read = await database.get(paths)
    assert [document and document.fields["path"] for document in read.documents.values()] == [str(p) for p in paths]
    stranger = FirestoreDatabase(project_id, emulator_host=emulator_host, collection="elsewhere")
    assert set((await stranger.get(paths)).documents.values()) == {None}
    await stranger.close()


async def test_nothing_is_connected_before_the_first_call_and_nothing_works_after_close(
    database: FirestoreDatabase,
) -> None:
    unused = FirestoreDatabase("demo-unused")  # would need credentials
    await unused.close()
    await write(database, n=1)
    await database.close()
    await database.close()
    with pytest.raises(UnavailableError):
        await database.get([ROW])
    with pytest.raises(UnavailableError):
        await database.commit([Put(ROW, {})])


async def test_times_of_other_zones_are_stored_as_the_same_moment(database: FirestoreDatabase) -> None:
    local = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    await write(database, at=local)
    assert (await read(database)).fields["at"] == local
    with pytest.raises(ValueError, match="time zone"):
        await write(database, at=datetime(2026, 1, 1))
