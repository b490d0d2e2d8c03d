"""What the local backends add to the contract: limits, history, merging, and order across types."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.database import SERVER_TIME, Condition, Create, Delete, Document, Kind, Path, Query, Update
from store.errors import InvalidRequestError, UnavailableError
from store.local.queries import select
from store.local.values import checked, clone, is_same, order_key
from store.local.watches import Watch
from store.local.writes import plan_commit
from store.memory.database import MAX_HISTORY, MemoryDatabase

ROW = Path(Kind.SNAPSHOTS, "acme", "row")
START = datetime(2024, 1, 1, tzinfo=UTC)
LATER = START + timedelta(seconds=1)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.datetimes(timezones=st.just(UTC))
)
MAPS = st.dictionaries(st.text("abc", min_size=1, max_size=2), SCALARS, max_size=3)
VALUES = SCALARS | MAPS | st.lists(SCALARS | MAPS, max_size=3)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def documents(*rows: dict[str, Any]) -> list[Document]:
    return [Document(Path(Kind.SNAPSHOTS, "t", str(n)), fields, START) for n, fields in enumerate(rows)]


def found(rows: Iterable[Document], query: Query) -> list[str]:
    return [document.path.id for document in select(rows, query)]


@given(VALUES)
def test_a_checked_value_is_the_same_value(value: Any) -> None:
    assert repr(checked(value, "v")) == repr(value)
    assert repr(clone(value)) == repr(value)


@given(VALUES, VALUES)
def test_sameness_is_equality_of_value_and_type(left: Any, right: Any) -> None:
    assert is_same(left, right) == (typed(left) == typed(right))


def typed(value: Any) -> Any:
    """`value` such that `==` compares types too, and the order of keys does not matter."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return type(value), value


@given(st.lists(VALUES, max_size=5))
def test_all_values_can_be_sorted_together(values: list[Any]) -> None:
    ranks = [order_key(value)[0] for value in sorted(values, key=order_key)]
    assert ranks == sorted(ranks)


def test_types_sort_as_in_firestore() -> None:
    mixed = [{"a": 1}, b"a", "b", "a", [1], {}, [], START, 2, -1, True, False, None]
    ascending = [None, False, True, -1, 2, START, "a", "b", b"a", [], [1], {}, {"a": 1}]
    assert repr(sorted(mixed, key=order_key)) == repr(ascending)


def test_an_enum_member_is_stored_as_its_plain_text() -> None:
    class Status(StrEnum):
        DONE = "done"

    assert type(checked(Status.DONE, "status")) is str


@pytest.mark.parametrize("value", [[[1]], {"": 1}, {"__x__": 1}, {"a": {"__x__": 1}}], ids=repr)
def test_what_firestore_refuses_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"list|reserved"):
        checked(value, "v")


def test_server_time_stands_for_a_whole_field_only() -> None:
    with pytest.raises(TypeError):
        plan_commit([Create(ROW, {"nested": {"at": SERVER_TIME}})], lambda _: None, START)


def test_a_commit_that_writes_a_document_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        plan_commit([Create(ROW, {}), Update(ROW, {"n": 1})], lambda _: None, START)


@pytest.mark.parametrize("path", [Path(Kind.SNAPSHOTS, "", "row"), Path(Kind.SNAPSHOTS, "t", "")])
def test_a_path_without_a_tenant_or_an_id_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="lacks"):
        plan_commit([Delete(path)], lambda _: None, START)


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="!="):
        select([], Query(Kind.SNAPSHOTS, "t", (Condition("n", "!=", 1),)))


@pytest.mark.parametrize(
    "query",
    [
        Query(Kind.SNAPSHOTS, "t", (), (("n", False),), start_after=(1,)),
        Query(Kind.SNAPSHOTS, "t", (Condition("m", ">", 1),), (("n", False),), start_after=(1, "1")),
        Query(Kind.SNAPSHOTS, None, (), start_after=("1",)),
    ],
)
def test_a_cursor_that_does_not_fit_its_query_is_refused(query: Query) -> None:
    with pytest.raises(ValueError, match=r"[Cc]ursor"):
        select(documents({"n": 1}), query)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), st.booleans(), st.booleans())
def test_pages_of_one_put_together_are_the_whole_result(pairs: list[tuple[int, int]], up: bool, down: bool) -> None:
    rows = documents(*({"a": a, "b": b} for a, b in pairs))
    order = (("a", up), ("b", down))
    whole = select(rows, Query(Kind.SNAPSHOTS, "t", (), order))
    after: tuple[Any, ...] | None = None
    for expected in whole:
        (document,) = select(rows, Query(Kind.SNAPSHOTS, "t", (), order, after, 1))
        assert document == expected
        after = (document.fields["a"], document.fields["b"], document.path.id)
    assert select(rows, Query(Kind.SNAPSHOTS, "t", (), order, after, 1)) == []


def test_a_query_over_all_tenants_orders_by_tenant_before_id() -> None:
    rows = [Document(Path(Kind.SNAPSHOTS, tenant, row), {}, START) for tenant, row in (("b", "1"), ("a", "2"))]
    assert found(rows, Query(Kind.SNAPSHOTS, None, ())) == ["2", "1"]


async def test_commit_times_increase_while_the_clock_stands() -> None:
    database = MemoryDatabase(clock=Clock())
    times = [(await database.commit([Update(ROW, {"n": n}) if n else Create(ROW, {})])).server_time for n in range(5)]
    assert [later - time for time, later in itertools.pairwise(times)] == [timedelta(microseconds=1)] * 4


async def test_commit_times_increase_while_the_clock_goes_back() -> None:
    clock = Clock()
    database = MemoryDatabase(clock=clock)
    first = (await database.commit([Create(ROW, {})])).server_time
    clock.now = START - timedelta(days=1)
    assert (await database.commit([Delete(ROW)])).server_time > first


async def test_a_commit_is_later_than_any_read_before_it_while_the_clock_stands() -> None:
    database = MemoryDatabase(clock=Clock())
    time = (await database.get([ROW])).time
    await database.commit([Create(ROW, {})])
    assert (await database.get([ROW], at=time)).documents[ROW] is None


async def test_a_minute_old_moment_can_be_read_and_an_older_one_cannot() -> None:
    clock = Clock()
    database = MemoryDatabase(clock=clock)
    await database.commit([Create(ROW, {"n": 1})])
    old = (await database.get([ROW])).time
    clock.now += timedelta(seconds=1)
    await database.commit([Update(ROW, {"n": 2})])
    clock.now += timedelta(seconds=60)
    await database.commit([Update(ROW, {"n": 3})])
    document = (await database.get([ROW], at=old)).documents[ROW]
    assert document is not None
    assert document.fields == {"n": 1}
    clock.now += timedelta(seconds=60)
    await database.commit([Update(ROW, {"n": 4})])
    with pytest.raises(UnavailableError):
        await database.get([ROW], at=old)


async def test_the_history_is_bounded_while_the_clock_stands() -> None:
    database = MemoryDatabase(clock=Clock())
    old = (await database.commit([Create(ROW, {"n": 0})])).server_time
    for n in range(1, MAX_HISTORY + 2):
        await database.commit([Update(ROW, {"n": n})])
    with pytest.raises(UnavailableError):
        await database.get([ROW], at=old)


async def test_a_moment_in_the_future_is_refused() -> None:
    database = MemoryDatabase(clock=Clock())
    with pytest.raises(InvalidRequestError):
        await database.get([ROW], at=LATER)


async def test_a_slow_reader_gets_one_merged_delivery() -> None:
    database = MemoryDatabase()
    other = Path(Kind.SNAPSHOTS, "acme", "other")
    async with database.watch(Query(Kind.SNAPSHOTS, "acme", ())) as states:
        await database.commit([Create(ROW, {"n": 0}), Create(other, {})])
        for n in range(1, 100):
            await database.commit([Update(ROW, {"n": n})])
        await database.commit([Delete(other)])
        (document,) = await anext(states)
        assert document is not None
        assert document.fields == {"n": 99}


async def test_a_reader_may_change_what_it_was_delivered() -> None:
    database = MemoryDatabase()
    await database.commit([Create(ROW, {"list": [1]})])
    async with database.watch(ROW) as states:
        (document,) = await anext(states)
    assert document is not None
    document.fields["list"].append(2)
    again = (await database.get([ROW])).documents[ROW]
    assert again is not None
    assert again.fields == {"list": [1]}


async def test_a_watched_query_delivers_its_order_and_mask() -> None:
    database = MemoryDatabase()
    rows = documents({"n": 1, "m": 0}, {"n": 2, "m": 0}, {"n": 3, "m": 0})
    await database.commit([Create(row.path, row.fields) for row in rows])
    async with database.watch(Query(Kind.SNAPSHOTS, "t", (), (("n", True),), mask=("n",))) as states:
        assert [row and row.fields for row in await anext(states)] == [{"n": 3}, {"n": 2}, {"n": 1}]


async def test_a_watch_with_a_limit_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        Watch(Query(Kind.SNAPSHOTS, "t", (), limit=1))


async def test_a_closed_watch_ends_however_often_it_is_asked() -> None:
    database = MemoryDatabase()
    async with database.watch(ROW) as states:
        pass
    assert [await anext(states, "ended"), await anext(states, "ended")] == ["ended", "ended"]


async def test_a_failed_watch_raises_its_error() -> None:
    watch = Watch(ROW)
    watch.fail(UnavailableError("gone"))
    with pytest.raises(UnavailableError):
        await anext(watch)


async def test_what_changes_before_the_first_state_is_part_of_it() -> None:
    watch = Watch(ROW)
    watch.offer({ROW: Document(ROW, {"n": 1}, START)})
    watch.start({ROW: Document(ROW, {"n": 2}, LATER)})
    assert await anext(watch) == [Document(ROW, {"n": 2}, LATER)]


async def test_a_refresh_delivers_only_what_differs() -> None:
    rows = documents({"n": 1}, {"n": 2}, {"n": 3})
    watch = Watch(Query(Kind.SNAPSHOTS, "t", ()))
    watch.start({row.path: row for row in rows})
    await anext(watch)
    changed = Document(rows[1].path, {"n": 4}, LATER)
    watch.refresh({rows[0].path: rows[0], changed.path: changed})
    assert await anext(watch) == [changed]
