"""Reads by path: several at once, masks, earlier moments, and that values come back as they went in."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from store.database import Create, Database, Delete, Kind, Path, Put, Query, Update

ROW = Path(Kind.SNAPSHOTS, "acme", "row")
OTHER = Path(Kind.POINTERS, "acme", "session")
ODD_IDS = (
    "x", "a b", "a.b", ".hidden", "...", "%2F", "a\\b", "\U0001f600", "é", "e\u0301", "CON", "=", "-", "~",
    "x" * 1400, "\U0001f600" * 350, "x" * 1399 + "y",
)  # fmt: skip


async def stored(database: Database, path: Path, value: Any) -> Any:
    """What `value` has become after a write and a read."""
    await database.commit([Put(path, {"v": value})])
    document = (await database.get([path])).documents[path]
    assert document is not None
    return document.fields["v"]


def _sorted(value: Any) -> Any:
    """`value` with the keys of its maps in order, which a database need not keep."""
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return {key: _sorted(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


class ReadCases:
    """Paths, masks and moments."""

    async def test_a_read_answers_for_every_path_and_has_none_for_a_missing_one(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1})])
        read = await database.get([ROW, OTHER, ROW])
        assert set(read.documents) == {ROW, OTHER}
        assert read.documents[OTHER] is None
        document = read.documents[ROW]
        assert document is not None
        assert (document.path, dict(document.fields)) == (ROW, {"n": 1})

    async def test_a_read_is_not_older_than_the_documents_in_it(self, database: Database) -> None:
        (time,) = (await database.commit([Create(ROW, {"n": 1})])).update_times
        assert time is not None
        assert (await database.get([ROW])).time >= time

    async def test_the_same_id_lies_apart_by_tenant_and_kind(self, database: Database) -> None:
        paths = [Path(kind, tenant, "same") for kind in Kind for tenant in ("a", "b")]
        await database.commit([Create(path, {"name": str(path)}) for path in paths])
        documents = (await database.get(paths)).documents
        assert {path: document and document.fields["name"] for path, document in documents.items()} == {
            path: str(path) for path in paths
        }

    async def test_a_mask_leaves_the_other_fields_out(self, database: Database) -> None:
        await database.commit([Create(ROW, {"a": 1, "b": 2, "c": {"d": 3}})])
        document = (await database.get([ROW], mask=["a", "c", "never"])).documents[ROW]
        assert document is not None
        assert dict(document.fields) == {"a": 1, "c": {"d": 3}}

    async def test_an_empty_mask_leaves_all_fields_out(self, database: Database) -> None:
        (time,) = (await database.commit([Create(ROW, {"a": 1})])).update_times
        document = (await database.get([ROW], mask=[])).documents[ROW]
        assert document is not None
        assert (dict(document.fields), document.update_time) == ({}, time)

    async def test_a_read_of_an_earlier_moment_sees_what_was_there(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1}), Create(OTHER, {"n": 1})])
        earlier = (await database.get([ROW])).time
        await database.commit([Update(ROW, {"n": 2}), Delete(OTHER)])
        await database.commit([Update(ROW, {"n": 3}), Create(OTHER, {"n": 3})])
        read = await database.get([ROW, OTHER], at=earlier)
        assert read.time == earlier
        assert [document and document.fields["n"] for document in read.documents.values()] == [1, 1]

    async def test_a_read_of_an_earlier_moment_does_not_see_what_came_later(self, database: Database) -> None:
        earlier = (await database.get([ROW])).time
        await database.commit([Create(ROW, {"n": 1})])
        await database.commit([Update(ROW, {"n": 2})])
        assert (await database.get([ROW], at=earlier)).documents[ROW] is None

    async def test_a_read_as_of_a_commit_sees_that_commit(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1})])
        (time,) = (await database.commit([Update(ROW, {"n": 2})])).update_times
        await database.commit([Update(ROW, {"n": 3})])
        document = (await database.get([ROW], at=time)).documents[ROW]
        assert document is not None
        assert dict(document.fields) == {"n": 2}

    async def test_a_query_tells_a_time_as_of_which_documents_can_be_read(self, database: Database) -> None:
        await database.commit([Create(ROW, {"n": 1})])
        found = await database.query(Query(Kind.SNAPSHOTS, "acme", ()))
        await database.commit([Delete(ROW)])
        assert (await database.get([ROW], at=found.time)).documents[ROW] == found.documents[0]

    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            False,
            0,
            -(2**63),
            2**63 - 1,
            "",
            "\x00 \x7f \u2028 \ufeff \U0001f600 e\u0301 é",
            b"",
            bytes(range(256)),
            datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
            [],
            {},
            [1, True, "1", b"1", None, {"a": [1]}],
            {"a": {"b": {"c": [{"d": b"\x00"}]}}, "$bytes": "AA==", "$time": "x", "$map": {}, "a.b": 1},
        ],
        ids=ascii,
    )
    async def test_a_value_comes_back_as_it_went_in(self, database: Database, value: Any) -> None:
        assert repr(_sorted(await stored(database, ROW, value))) == repr(_sorted(value))

    async def test_a_time_of_another_zone_comes_back_in_utc(self, database: Database) -> None:
        summer = datetime(2024, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))
        assert repr(await stored(database, ROW, summer)) == repr(datetime(2024, 7, 1, 10, tzinfo=UTC))

    @pytest.mark.parametrize("value", [2**63, -(2**63) - 1, "\ud800", datetime(2024, 1, 1)], ids=ascii)
    async def test_a_value_out_of_range_is_refused_before_anything_is_written(
        self, database: Database, value: Any
    ) -> None:
        with pytest.raises(ValueError, match=r".+"):
            await database.commit([Create(OTHER, {}), Create(ROW, {"v": value})])
        assert (await database.get([ROW, OTHER])).documents == {ROW: None, OTHER: None}

    @pytest.mark.parametrize("value", [1.5, {1}, (1,), object()], ids=lambda value: type(value).__name__)
    async def test_a_value_of_a_foreign_type_is_refused_before_anything_is_written(
        self, database: Database, value: Any
    ) -> None:
        with pytest.raises(TypeError):
            await database.commit([Create(OTHER, {}), Create(ROW, {"v": value})])
        assert (await database.get([ROW, OTHER])).documents == {ROW: None, OTHER: None}

    @pytest.mark.parametrize("identifier", ODD_IDS, ids=lambda text: ascii(text[:12]) + str(len(text)))
    async def test_every_accepted_id_names_a_document_of_its_own(self, database: Database, identifier: str) -> None:
        path, neighbour = Path(Kind.SNAPSHOTS, "acme", identifier), Path(Kind.SNAPSHOTS, "acme", identifier[:-1] + "z")
        await database.commit([Create(path, {"id": identifier}), Create(neighbour, {})])
        document = (await database.get([path])).documents[path]
        assert document is not None
        assert (document.path, dict(document.fields)) == (path, {"id": identifier})

    async def test_changing_what_was_passed_in_changes_nothing_stored(self, database: Database) -> None:
        given: dict[str, Any] = {"list": [{"a": 1}]}
        await database.commit([Create(ROW, given)])
        given["list"][0]["a"] = 2
        given["list"].append(3)
        document = (await database.get([ROW])).documents[ROW]
        assert document is not None
        assert document.fields == {"list": [{"a": 1}]}

    async def test_changing_what_was_returned_changes_nothing_stored(self, database: Database) -> None:
        await database.commit([Create(ROW, {"list": [{"a": 1}]})])
        for _ in range(2):
            document = (await database.get([ROW])).documents[ROW]
            assert document is not None
            assert document.fields == {"list": [{"a": 1}]}
            document.fields["list"][0]["a"] = 2
