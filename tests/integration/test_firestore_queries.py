"""Queries on Firestore: order, cursors, masks, groups beside other applications' collections, moments, and costs."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from store.database import Condition, Create, Delete, Found, Kind, Path, Put, Query, Write
from store.firestore.database import FirestoreDatabase

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
async def database(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    database = FirestoreDatabase(project_id, emulator_host=emulator_host)
    yield database
    await database.close()


def row(document: str, tenant: str = "acme") -> Path:
    return Path(Kind.SNAPSHOTS, tenant, document)


def of_acme(*where: Condition, **rest: Any) -> Query:
    return Query(Kind.SNAPSHOTS, "acme", where, **rest)


def of_all(*where: Condition, **rest: Any) -> Query:
    return Query(Kind.SNAPSHOTS, None, where, **rest)


def ids(found: Found) -> list[str]:
    return [document.path.id for document in found.documents]


async def fill(database: FirestoreDatabase) -> None:
    """Rows 0 to 9 of two sessions; each two neighbours share a time, so that ids decide."""
    writes: list[Write] = [
        Create(row(str(n)), {"session": f"s{n % 2}", "at": NOON + timedelta(microseconds=n // 4), "n": n})
        for n in range(10)
    ]
    await database.commit(writes)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition("n", "==", 3), "3"),
        (Condition("n", "<", 3), "012"),
        (Condition("n", "<=", 3), "0123"),
        (Condition("n", ">", 7), "89"),
        (Condition("n", ">=", 7), "789"),
        (Condition("at", "==", NOON + timedelta(microseconds=1)), "4567"),
        (Condition("session", "==", "nobody's"), ""),
        (Condition("session", "==", None), ""),
    ],
)
async def test_a_condition_selects(database: FirestoreDatabase, condition: Condition, expected: str) -> None:
    await fill(database)
    assert "".join(ids(await database.query(of_acme(condition)))) == expected


async def test_null_is_found_and_absence_is_not(database: FirestoreDatabase) -> None:
    await database.commit([Put(row("null"), {"owner": None}), Put(row("absent"), {})])
    assert ids(await database.query(of_acme(Condition("owner", "==", None)))) == ["null"]


async def test_conditions_are_combined(database: FirestoreDatabase) -> None:
    await fill(database)
    query = of_acme(Condition("session", "==", "s1"), Condition("n", ">", 2), Condition("n", "<", 8))
    assert ids(await database.query(query)) == ["3", "5", "7"]


@pytest.mark.parametrize(("descending", "expected"), [(False, "0246813579"), (True, "9753186420")])
async def test_the_last_orders_direction_is_also_the_ids(
    database: FirestoreDatabase, descending: bool, expected: str
) -> None:
    await fill(database)
    found = await database.query(of_acme(order=(("session", descending),)))
    assert "".join(ids(found)) == expected


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 10])
async def test_pages_by_cursor_give_every_document_once(
    database: FirestoreDatabase, descending: bool, limit: int
) -> None:
    await fill(database)
    seen: list[str] = []
    after = None
    while True:
        query = of_acme(order=(("at", descending),), start_after=after, limit=limit)
        page = (await database.query(query)).documents
        if not page:
            break
        seen += [document.path.id for document in page]
        after = (page[-1].fields["at"], page[-1].path.id)
    assert seen == sorted(map(str, range(10)), reverse=descending)


async def test_a_cursor_by_id_alone_continues(database: FirestoreDatabase) -> None:
    await fill(database)
    assert ids(await database.query(of_acme(start_after=("6",), limit=2))) == ["7", "8"]


@pytest.mark.parametrize(
    "query",
    [
        of_acme(order=(("at", False),), start_after=("7",)),
        of_acme(Condition("n", ">", 2), start_after=("7",)),
        of_all(start_after=("7",)),
    ],
)
async def test_an_ambiguous_cursor_is_refused_before_anything_is_sent(
    database: FirestoreDatabase, query: Query
) -> None:
    with pytest.raises(ValueError, match="cursor"):
        await database.query(query)
    assert database.calls.snapshot().sent == 0


@pytest.mark.parametrize("mask", [(), ("n",), ("n", "unknown")])
async def test_a_mask_limits_the_fields_and_nothing_else(database: FirestoreDatabase, mask: tuple[str, ...]) -> None:
    await fill(database)
    whole = await database.query(of_acme())
    masked = await database.query(of_acme(mask=mask))
    assert ids(masked) == ids(whole)
    assert [document.update_time for document in masked.documents] == [
        document.update_time for document in whole.documents
    ]
    assert [dict(document.fields) for document in masked.documents] == [
        {"n": n} if mask else {} for n in range(10)
    ]  # fmt: skip


async def test_a_query_of_one_tenant_sees_no_other(database: FirestoreDatabase) -> None:
    await database.commit([Put(row("1"), {}), Put(row("1", "other"), {})])
    assert [document.path.tenant for document in (await database.query(of_acme())).documents] == ["acme"]


async def test_a_group_query_sees_all_tenants_and_pages_by_path(database: FirestoreDatabase) -> None:
    paths = [row(document, tenant) for tenant in ("a", "b", "c") for document in ("1", "2")]
    await database.commit([Put(path, {"due": 1}) for path in paths])
    seen: list[Path] = []
    while True:
        after = (1, seen[-1]) if seen else None
        query = of_all(Condition("due", "<=", 1), order=(("due", False),), start_after=after, limit=4)
        page = await database.query(query)
        if not page.documents:
            break
        seen += [document.path for document in page.documents]
    assert seen == paths


async def test_a_group_query_ignores_other_collections_of_the_same_name_and_still_fills_its_limit(
    database: FirestoreDatabase, emulator_host: str, project_id: str
) -> None:
    stranger = FirestoreDatabase(project_id, emulator_host=emulator_host, collection="a-stranger")  # sorts before ours
    await stranger.commit([Put(row(f"x{n}"), {"due": 1}) for n in range(7)])
    await stranger.close()
    await database.commit([Put(row(str(n)), {"due": 1}) for n in range(3)])
    for limit, expected in ((None, "012"), (2, "01"), (3, "012"), (4, "012")):
        query = of_all(Condition("due", "==", 1), limit=limit)
        assert "".join(ids(await database.query(query))) == expected


async def test_a_queries_time_reads_back_what_it_found(database: FirestoreDatabase) -> None:
    await fill(database)
    found = await database.query(of_acme(Condition("n", "==", 3)))
    empty = await database.query(of_acme(Condition("n", "==", 33)))
    await database.commit([Delete(row("3"))])
    read = await database.get([row("3")], at=found.time)
    assert read.documents[row("3")] == found.documents[0]
    assert found.documents[0].update_time <= found.time <= empty.time


async def test_a_query_is_one_call_and_costs_its_results_or_one(database: FirestoreDatabase) -> None:
    await fill(database)
    before = database.calls.snapshot()
    await database.query(of_acme(limit=4))
    await database.query(of_acme(Condition("n", "==", 33)))
    spent = database.calls.since(before)
    assert (spent.rpcs, spent.read, spent.written) == ({"RunQuery": 2}, 5, 0)
