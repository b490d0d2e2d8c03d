"""Commits: each kind of write, each precondition, atomicity, times."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from store.database import (
    SERVER_TIME,
    CommitRefusedError,
    Create,
    Database,
    Delete,
    Document,
    Kind,
    Path,
    Put,
    Update,
    Write,
)

ROW = Path(Kind.SNAPSHOTS, "acme", "row")
OTHER = Path(Kind.POINTERS, "acme", "session")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def read(database: Database, path: Path) -> Document | None:
    return (await database.get([path])).documents[path]


async def fields_of(database: Database, path: Path) -> dict[str, Any]:
    document = await read(database, path)
    assert document is not None
    return dict(document.fields)


async def create(database: Database, path: Path = ROW, **fields: Any) -> datetime:
    """Creates the document; its update time."""
    (time,) = (await database.commit([Create(path, fields)])).update_times
    assert time is not None
    return time


class CommitCases:
    """Each kind of write and precondition."""

    async def test_a_created_document_is_read_back_with_its_update_time(self, database: Database) -> None:
        time = await create(database, n=1)
        assert await read(database, ROW) == Document(ROW, {"n": 1}, time)

    async def test_create_is_refused_where_the_document_exists(self, database: Database) -> None:
        await create(database, n=1)
        with pytest.raises(CommitRefusedError):
            await database.commit([Create(ROW, {"n": 2})])
        assert await fields_of(database, ROW) == {"n": 1}

    async def test_put_creates_a_missing_document(self, database: Database) -> None:
        await database.commit([Put(ROW, {"n": 1})])
        assert await fields_of(database, ROW) == {"n": 1}

    async def test_put_replaces_the_whole_document(self, database: Database) -> None:
        await create(database, n=1, gone=True)
        await database.commit([Put(ROW, {"n": 2})])
        assert await fields_of(database, ROW) == {"n": 2}

    async def test_update_sets_fields_whole_and_keeps_the_others(self, database: Database) -> None:
        await create(database, nested={"a": 1, "b": 2}, kept="x")
        await database.commit([Update(ROW, {"nested": {"a": 3}, "added": 1})])
        assert await fields_of(database, ROW) == {"nested": {"a": 3}, "kept": "x", "added": 1}

    async def test_update_removes_fields_and_ignores_those_that_are_not_there(self, database: Database) -> None:
        await create(database, gone=1, kept=2)
        await database.commit([Update(ROW, remove=("gone", "never"))])
        assert await fields_of(database, ROW) == {"kept": 2}

    async def test_update_takes_field_names_literally(self, database: Database) -> None:
        await create(database)
        names = {"a.b": 1, "a/b": 2, "a b": 3, "`": 4, "\\": 5, "ü": 6, "0": 7}
        await database.commit([Update(ROW, names)])
        await database.commit([Update(ROW, remove=("a.b", "`"))])
        assert await fields_of(database, ROW) == {name: n for name, n in names.items() if name not in ("a.b", "`")}

    async def test_update_is_refused_where_the_document_is_missing(self, database: Database) -> None:
        with pytest.raises(CommitRefusedError):
            await database.commit([Update(ROW, {"n": 1})])
        assert await read(database, ROW) is None

    async def test_update_with_the_present_update_time_is_done(self, database: Database) -> None:
        time = await create(database, n=1)
        await database.commit([Update(ROW, {"n": 2}, update_time=time)])
        assert await fields_of(database, ROW) == {"n": 2}

    async def test_update_is_refused_where_the_document_was_written_since(self, database: Database) -> None:
        time = await create(database, n=1)
        await database.commit([Update(ROW, {"n": 2})])
        with pytest.raises(CommitRefusedError):
            await database.commit([Update(ROW, {"n": 3}, update_time=time)])
        assert await fields_of(database, ROW) == {"n": 2}

    async def test_update_with_a_time_is_refused_where_the_document_is_missing(self, database: Database) -> None:
        with pytest.raises(CommitRefusedError):
            await database.commit([Update(ROW, {"n": 3}, update_time=LONG_AGO)])

    async def test_append_adds_only_values_that_are_not_there_yet(self, database: Database) -> None:
        await create(database, tail=[b"a", 1])
        await database.commit([Update(ROW, append={"tail": [b"a", b"b", b"b", True]})])
        assert (await fields_of(database, ROW))["tail"] == [b"a", 1, b"b", True]

    async def test_append_starts_an_array_where_the_field_is_missing(self, database: Database) -> None:
        await create(database)
        await database.commit([Update(ROW, append={"tail": ["x"]})])
        assert await fields_of(database, ROW) == {"tail": ["x"]}

    async def test_append_goes_with_fields_and_removals_in_one_update(self, database: Database) -> None:
        time = await create(database, n=1, gone=1, tail=["a"])
        await database.commit([Update(ROW, {"n": 2}, remove=("gone",), append={"tail": ["b"]}, update_time=time)])
        assert await fields_of(database, ROW) == {"n": 2, "tail": ["a", "b"]}

    async def test_delete_removes_a_document_and_has_no_update_time(self, database: Database) -> None:
        await create(database)
        assert (await database.commit([Delete(ROW)])).update_times == (None,)
        assert await read(database, ROW) is None

    async def test_delete_without_a_precondition_works_on_a_missing_document(self, database: Database) -> None:
        assert (await database.commit([Delete(ROW)])).update_times == (None,)

    async def test_delete_with_the_present_update_time_is_done(self, database: Database) -> None:
        await database.commit([Delete(ROW, update_time=await create(database))])
        assert await read(database, ROW) is None

    async def test_delete_is_refused_where_the_document_was_written_since(self, database: Database) -> None:
        time = await create(database, n=1)
        await database.commit([Update(ROW, {"n": 2})])
        with pytest.raises(CommitRefusedError):
            await database.commit([Delete(ROW, update_time=time)])
        assert await fields_of(database, ROW) == {"n": 2}

    async def test_delete_with_a_time_is_refused_where_the_document_is_missing(self, database: Database) -> None:
        with pytest.raises(CommitRefusedError):
            await database.commit([Delete(ROW, update_time=LONG_AGO)])

    async def test_a_deleted_document_can_be_created_again(self, database: Database) -> None:
        first = await create(database, n=1)
        await database.commit([Delete(ROW)])
        assert await create(database, n=1) > first

    @pytest.mark.parametrize("refused", [Create(ROW, {}), Update(ROW, {}, update_time=LONG_AGO), Delete(ROW, LONG_AGO)])
    async def test_one_refused_write_refuses_the_whole_commit(self, database: Database, refused: Write) -> None:
        third = Path(Kind.SHARDS, "acme", "third")
        await create(database, n=1)
        await create(database, third, n=1)
        with pytest.raises(CommitRefusedError):
            await database.commit([Create(OTHER, {}), Update(third, {"n": 2}), refused])
        assert await read(database, OTHER) is None
        assert await fields_of(database, third) == {"n": 1}
        assert await fields_of(database, ROW) == {"n": 1}

    async def test_all_documents_of_a_commit_have_one_update_time(self, database: Database) -> None:
        times = (await database.commit([Create(ROW, {"n": 1}), Put(OTHER, {"n": 2})])).update_times
        assert times[0] == times[1]

    async def test_server_time_is_one_time_for_the_whole_commit(self, database: Database) -> None:
        committed = await database.commit(
            [Create(ROW, {"a": SERVER_TIME, "b": SERVER_TIME}), Put(OTHER, {"c": SERVER_TIME, "n": 1})]
        )
        row, other = await fields_of(database, ROW), await fields_of(database, OTHER)
        assert {row["a"], row["b"], other["c"]} == {committed.server_time}
        assert other["n"] == 1

    async def test_server_time_is_the_databases_present_in_utc(self, database: Database) -> None:
        await create(database, old=1)
        committed = await database.commit([Update(ROW, {"at": SERVER_TIME})])
        assert committed.server_time.utcoffset() == timedelta(0)
        assert abs(committed.server_time - datetime.now(UTC)) < timedelta(minutes=1)

    async def test_a_commit_without_server_time_tells_its_own_time(self, database: Database) -> None:
        first = await database.commit([Create(ROW, {"n": 1})])
        second = await database.commit([Update(ROW, {"n": 2})])
        assert first.server_time < second.server_time

    async def test_update_times_increase_with_every_commit(self, database: Database) -> None:
        times = [await create(database, n=0)]
        for n in range(1, 20):
            (time,) = (await database.commit([Update(ROW, {"n": n})])).update_times
            assert time is not None
            times.append(time)
        assert times == sorted(set(times))

    @pytest.mark.parametrize("write", [Update(ROW, {"n": 1}), Put(ROW, {"n": 1, "at": LONG_AGO}), Update(ROW)])
    async def test_a_write_that_changes_nothing_keeps_the_update_time(self, database: Database, write: Write) -> None:
        time = await create(database, n=1, at=LONG_AGO)
        assert (await database.commit([write])).update_times == (time,)
        document = await read(database, ROW)
        assert document is not None
        assert document.update_time == time

    @pytest.mark.parametrize(
        ("before", "after"), [(1, True), (0, False), ("1", 1), ([1], [True]), ({"a": 1}, {"a": True})]
    )
    async def test_a_value_of_another_type_is_a_change(self, database: Database, before: Any, after: Any) -> None:
        time = await create(database, n=before)
        (changed,) = (await database.commit([Update(ROW, {"n": after})])).update_times
        assert changed is not None
        assert changed > time
        assert repr((await fields_of(database, ROW))["n"]) == repr(after)

    async def test_write_each_does_what_it_can_and_tells_what_was_refused(self, database: Database) -> None:
        await create(database, n=1)
        missing = Path(Kind.SNAPSHOTS, "acme", "missing")
        times = await database.write_each(
            [Update(missing, {"n": 1}), Update(ROW, {"n": 2}), Create(OTHER, {"at": SERVER_TIME})]
        )
        assert [time is None for time in times] == [True, False, False]
        document = await read(database, ROW)
        assert document == Document(ROW, {"n": 2}, times[1] or LONG_AGO)
        assert await read(database, missing) is None
        assert isinstance((await fields_of(database, OTHER))["at"], datetime)

    async def test_write_each_tells_a_delete_that_was_done_from_one_that_was_refused(self, database: Database) -> None:
        await create(database)
        await create(database, OTHER)
        done, refused = await database.write_each([Delete(ROW), Delete(OTHER, update_time=LONG_AGO)])
        assert done is not None
        assert refused is None
        assert await read(database, ROW) is None
        assert await read(database, OTHER) is not None

    async def test_write_each_compares_update_times(self, database: Database) -> None:
        time = await create(database, n=1)
        (first,) = await database.write_each([Update(ROW, {"n": 2}, update_time=time)])
        assert first is not None
        assert await database.write_each([Update(ROW, {"n": 3}, update_time=time)]) == [None]
        assert await fields_of(database, ROW) == {"n": 2}

    async def test_eighty_concurrent_increments_by_compare_and_set_lose_none(self, database: Database) -> None:
        await create(database, n=0)

        async def increment() -> None:
            while True:
                document = await read(database, ROW)
                assert document is not None
                try:
                    await database.commit(
                        [Update(ROW, {"n": document.fields["n"] + 1}, update_time=document.update_time)]
                    )
                except CommitRefusedError:
                    continue
                return

        async def worker() -> None:
            for _ in range(10):
                await increment()

        await asyncio.gather(*(worker() for _ in range(8)))
        assert await fields_of(database, ROW) == {"n": 80}

    async def test_of_eight_concurrent_creates_one_wins(self, database: Database) -> None:
        results = await asyncio.gather(
            *(database.commit([Create(ROW, {"n": n})]) for n in range(8)), return_exceptions=True
        )
        assert [isinstance(result, CommitRefusedError) for result in results].count(False) == 1
