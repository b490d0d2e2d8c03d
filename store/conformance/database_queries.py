"""Queries: conditions, order, cursors, limits, masks, and queries over all tenants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from store.database import Condition, Create, Database, Delete, Kind, Path, Query, Update

START = datetime(2024, 1, 1, tzinfo=UTC)


async def fill(
    database: Database, rows: dict[str, dict[str, Any]], kind: Kind = Kind.SNAPSHOTS, tenant: str = "a"
) -> None:
    """Creates one document per row, by id."""
    await database.commit([Create(Path(kind, tenant, row), fields) for row, fields in rows.items()])


async def ids(database: Database, *where: Condition, kind: Kind = Kind.SNAPSHOTS, **query: Any) -> list[str]:
    """The ids that a query of tenant `a` finds, in order."""
    found = await database.query(Query(kind, query.pop("tenant", "a"), where, **query))
    return [document.path.id for document in found.documents]


class QueryCases:
    """Conditions, orders, cursors and masks."""

    async def test_a_query_without_matches_finds_nothing(self, database: Database) -> None:
        assert await ids(database, Condition("s", "==", "x")) == []

    async def test_found_documents_carry_path_fields_and_update_time(self, database: Database) -> None:
        (time,) = (await database.commit([Create(Path(Kind.STREAMS, "a", "1"), {"s": "x", "n": [1]})])).update_times
        found = await database.query(Query(Kind.STREAMS, "a", (Condition("s", "==", "x"),)))
        (document,) = found.documents
        assert (document.path, dict(document.fields), document.update_time) == (
            Path(Kind.STREAMS, "a", "1"), {"s": "x", "n": [1]}, time,
        )  # fmt: skip  # reads as one line
        assert time is not None
        assert found.time >= time

    async def test_all_conditions_must_hold(self, database: Database) -> None:
        await fill(database, {"1": {"s": "x", "b": True}, "2": {"s": "x", "b": False}, "3": {"s": "y", "b": True}})
        assert await ids(database, Condition("s", "==", "x"), Condition("b", "==", True)) == ["1"]

    @pytest.mark.parametrize(
        ("op", "expected"),
        [("==", ["2"]), ("<", ["1"]), ("<=", ["1", "2"]), (">", ["3"]), (">=", ["2", "3"])],
    )
    async def test_each_operator_compares(self, database: Database, op: str, expected: list[str]) -> None:
        await fill(database, {"1": {"n": 1}, "2": {"n": 2}, "3": {"n": 3}})
        assert await ids(database, Condition("n", op, 2), order=(("n", False),)) == expected

    async def test_equality_tells_types_apart(self, database: Database) -> None:
        await fill(database, {"int": {"v": 1}, "bool": {"v": True}, "text": {"v": "1"}, "bytes": {"v": b"1"}})
        assert await ids(database, Condition("v", "==", 1)) == ["int"]
        assert await ids(database, Condition("v", "==", True)) == ["bool"]
        assert await ids(database, Condition("v", "==", b"1")) == ["bytes"]

    async def test_a_null_is_found_by_equality_and_told_from_a_missing_field(self, database: Database) -> None:
        await fill(database, {"null": {"v": None}, "zero": {"v": 0}, "missing": {}})
        assert await ids(database, Condition("v", "==", None)) == ["null"]

    async def test_an_inequality_leaves_out_other_types_and_missing_fields(self, database: Database) -> None:
        await fill(
            database, {"1": {"v": 1}, "text": {"v": "z"}, "null": {"v": None}, "missing": {}, "time": {"v": START}}
        )
        assert await ids(database, Condition("v", ">", 0), order=(("v", False),)) == ["1"]
        assert await ids(database, Condition("v", "<=", START), order=(("v", False),)) == ["time"]

    async def test_an_inequality_orders_by_its_field(self, database: Database) -> None:
        await fill(database, {"a": {"n": 3}, "b": {"n": 2}, "c": {"n": 1}})
        assert await ids(database, Condition("n", "<", 3)) == ["c", "b"]

    async def test_without_an_order_documents_come_by_id(self, database: Database) -> None:
        await fill(database, {name: {"s": 1} for name in ("b", "B", "a", "10", "9", "é", "\U0001f600", "\uffee")})
        assert await ids(database, Condition("s", "==", 1)) == ["10", "9", "B", "a", "b", "é", "\uffee", "\U0001f600"]

    async def test_two_fields_order_each_in_its_direction(self, database: Database) -> None:
        rows = {"1": {"a": 1, "b": 1}, "2": {"a": 1, "b": 2}, "3": {"a": 2, "b": 1}, "4": {"a": 2, "b": 2}}
        await fill(database, rows)
        assert await ids(database, order=(("a", False), ("b", True))) == ["2", "1", "4", "3"]
        assert await ids(database, order=(("a", True), ("b", False))) == ["3", "4", "1", "2"]

    async def test_ties_are_ordered_by_id_in_the_last_direction(self, database: Database) -> None:
        await fill(database, {name: {"t": START} for name in ("b", "a", "c")})
        assert await ids(database, order=(("t", False),)) == ["a", "b", "c"]
        assert await ids(database, order=(("t", True),)) == ["c", "b", "a"]

    async def test_times_order_by_the_microsecond(self, database: Database) -> None:
        await fill(database, {str(n): {"t": START + timedelta(microseconds=-n)} for n in range(3)})
        assert await ids(database, order=(("t", False),)) == ["2", "1", "0"]

    async def test_an_order_leaves_out_documents_without_the_field(self, database: Database) -> None:
        await fill(database, {"1": {"t": 1}, "2": {}, "3": {"t": None}})
        assert await ids(database, order=(("t", False),)) == ["3", "1"]

    async def test_a_limit_keeps_the_first(self, database: Database) -> None:
        await fill(database, {str(n): {"n": n} for n in range(5)})
        assert await ids(database, order=(("n", True),), limit=2) == ["4", "3"]

    @pytest.mark.parametrize("descending", [False, True])
    async def test_pages_by_cursor_give_every_document_once(self, database: Database, descending: bool) -> None:
        await fill(database, {f"{n:02d}": {"s": "x", "t": START + timedelta(seconds=n // 3)} for n in range(10)})
        order, after, pages = (("t", descending),), None, []
        while True:
            query = Query(Kind.SNAPSHOTS, "a", (Condition("s", "==", "x"),), order, after, 4)
            found = (await database.query(query)).documents
            pages += [document.path.id for document in found]
            if len(found) < 4:
                break
            after = (found[-1].fields["t"], found[-1].path.id)
        assert pages == sorted((f"{n:02d}" for n in range(10)), reverse=descending)

    async def test_a_cursor_need_not_name_a_document_that_exists(self, database: Database) -> None:
        await fill(database, {"1": {"n": 1}, "3": {"n": 3}})
        assert await ids(database, order=(("n", False),), start_after=(2, "gone")) == ["3"]
        assert await ids(database, start_after=("2",)) == ["3"]

    async def test_a_querys_mask_leaves_the_other_fields_out(self, database: Database) -> None:
        await fill(database, {"1": {"a": 1, "b": 2, "c": 3}})
        (document,) = (await database.query(Query(Kind.SNAPSHOTS, "a", (), mask=("a", "never")))).documents
        assert dict(document.fields) == {"a": 1}
        (document,) = (await database.query(Query(Kind.SNAPSHOTS, "a", (Condition("b", "==", 2),), mask=()))).documents
        assert (document.path.id, dict(document.fields)) == ("1", {})

    async def test_a_query_sees_the_latest_commit(self, database: Database) -> None:
        await fill(database, {"1": {"s": "x"}, "2": {"s": "y"}})
        await database.commit(
            [Update(Path(Kind.SNAPSHOTS, "a", "2"), {"s": "x"}), Delete(Path(Kind.SNAPSHOTS, "a", "1"))]
        )
        assert await ids(database, Condition("s", "==", "x")) == ["2"]

    async def test_a_query_finds_its_tenant_and_kind_only(self, database: Database) -> None:
        await fill(database, {"1": {"s": 1}})
        await fill(database, {"2": {"s": 1}}, tenant="b")
        await fill(database, {"3": {"s": 1}}, Kind.STREAMS)
        assert await ids(database, Condition("s", "==", 1)) == ["1"]

    async def test_a_query_over_all_tenants_tells_each_documents_tenant(self, database: Database) -> None:
        for tenant in ("b", "a", "ü"):
            await fill(database, {f"of {tenant}": {"bucket": 3, "n": 1}, "x": {"bucket": 4}}, Kind.POINTERS, tenant)
        await fill(database, {"1": {"bucket": 3}})
        found = await database.query(Query(Kind.POINTERS, None, (Condition("bucket", "==", 3),)))
        assert [document.path for document in found.documents] == [
            Path(Kind.POINTERS, tenant, f"of {tenant}") for tenant in ("a", "b", "ü")
        ]

    async def test_a_query_over_all_tenants_goes_on_after_a_path(self, database: Database) -> None:
        for tenant in ("a", "b"):
            await fill(database, {"1": {"due": 1}, "2": {"due": 1}}, Kind.POINTERS, tenant)
        order, after, pages = (("due", False),), None, []
        for _ in range(4):
            query = Query(Kind.POINTERS, None, (Condition("due", "<=", 5),), order, after, 1)
            (document,) = (await database.query(query)).documents
            pages.append(document.path)
            after = (document.fields["due"], document.path)
        assert pages == [Path(Kind.POINTERS, tenant, row) for tenant in ("a", "b") for row in ("1", "2")]
