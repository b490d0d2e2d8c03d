"""What a sweep reads on Firestore, and what of other applications it leaves alone."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient

from store.database import Found, Kind, Path, Query, Read
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.firestore.database import FirestoreDatabase
from store.models import NewSession, Scope, SweepReport
from tests.integration.many_sessions import fill, session_fields, sessions_of, time_of

DAY = timedelta(days=1)
TENANTS = 20


class Metered(FirestoreDatabase):
    """Counts what is read to find sessions apart from what is read to delete them."""

    examining = 0

    async def query(self, query: Query) -> Found:
        """Counted where it does not look for the documents of one session."""
        before = self.calls.snapshot()
        found = await super().query(query)
        if not any(condition.field == "sessionId" for condition in query.where):
            self.examining += self.calls.since(before).read
        return found

    async def get(
        self, paths: Sequence[Path], *, mask: Sequence[str] | None = None, at: datetime | None = None
    ) -> Read:
        """Counted where it does not read a session document, which only a deletion does."""
        self.examining += sum(path.kind is not Kind.POINTERS for path in paths)
        return await super().get(paths, mask=mask, at=at)


@pytest.fixture
async def database(emulator_host: str, project_id: str) -> AsyncIterator[Metered]:
    database = Metered(project_id, emulator_host=emulator_host)
    yield database
    await database.close()


def store_on(database: FirestoreDatabase) -> DocumentStore:
    return DocumentStore(Shelf(database, Options()))


def users(tenants: int, each: int) -> list[Scope]:
    return [Scope(f"tenant-{t:02}", f"user-{u:02}") for t in range(tenants) for u in range(each)]


async def with_sessions(database: FirestoreDatabase, due: int, others: int, users: Sequence[Scope]) -> None:
    """So many sessions, spread over the users: those due were used last before 40 days, each with a row; the others
    were looked at before, and put off."""
    now = await time_of(database)
    documents: dict[Path, dict[str, Any]] = {}
    for scope in users:
        old = sessions_of(scope, due // len(users), now - 40 * DAY, "old")
        young = sessions_of(scope, others // len(users), now - 2 * DAY, "young")
        documents |= old | {path: fields | {"dueAt": now + 28 * DAY} for path, fields in young.items()}
        for path in old:
            row = {"formatVersion": 1, "sessionId": path.id, "snapshotId": path.id, "ownerId": scope.user}
            documents[Path(Kind.SNAPSHOTS, scope.tenant, path.id)] = row
    await fill(database, documents)


async def count(database: FirestoreDatabase, kind: Kind) -> int:
    return len((await database.query(Query(kind, None, (), mask=()))).documents)


async def check_reads(database: Metered, due: int, others: int, reads: int) -> None:
    await with_sessions(database, due, others, users(TENANTS, 5))
    database.examining = 0
    report = await store_on(database).sweep(10_000)
    assert database.examining <= reads
    assert report == SweepReport(due, due, 0, True, {"idle": due})
    assert await count(database, Kind.POINTERS) == others
    assert await count(database, Kind.SNAPSHOTS) == 0


async def test_a_sweep_reads_what_is_due_and_little_else(database: Metered) -> None:
    """Each due session once, each tenant's rules once, and a query for each bucket: what is not due costs nothing."""
    await check_reads(database, due=100, others=900, reads=100 + TENANTS + 16 + 4)


@pytest.mark.slow
async def test_a_thousand_due_among_ten_thousand_take_at_most_eleven_hundred_reads(database: Metered) -> None:
    await check_reads(database, due=1000, others=9000, reads=1100)


async def test_sweeps_of_the_usual_size_read_hardly_anything_twice(database: Metered) -> None:
    """Three of them, each of which has to ask for the rules again."""
    await with_sessions(database, 300, 0, users(TENANTS, 5))
    store = store_on(database)
    database.examining = 0
    reports = [await store.sweep(250), await store.sweep(250), await store.sweep(250)]
    assert [report.is_done for report in reports] == [False, False, True]
    assert sum(report.deleted for report in reports) == 300
    assert database.examining <= 300 + 3 * (TENANTS + 16 + 4)


async def test_a_sweep_with_nothing_to_do_costs_a_read_for_each_bucket(database: Metered) -> None:
    await with_sessions(database, 0, 100, users(2, 1))
    before = database.calls.snapshot()
    await store_on(database).sweep()
    spent = database.calls.since(before)
    assert (spent.sent, spent.read, spent.written) == (18, 18, 0)  # and the cursor, and tenants with new rules


async def test_sessions_that_stay_are_put_off_in_one_round_trip(database: Metered) -> None:
    scope = Scope("acme", "ann")
    await fill(database, sessions_of(scope, 25, await time_of(database) - 2 * DAY))
    before = database.calls.snapshot()
    await store_on(database).sweep()
    spent = database.calls.since(before)
    assert spent.written == 25
    assert "Commit" not in spent.rpcs
    assert spent.rpcs["BatchWrite"] <= 16
    assert spent.read <= 25 + 25 + 1 + 18  # each session, the user's cap, the rules, and what nothing costs too


@pytest.fixture
async def client(emulator_host: str, project_id: str) -> AsyncIterator[AsyncClient]:
    """Another application on the same database."""
    client = AsyncClient(project=project_id, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]  # google.auth has no types
    yield client
    api = client._firestore_api_internal  # closing the client leaves its channel open
    if api is not None:
        await api.transport.close()


async def test_other_applications_collections_of_the_same_name_stay_untouched(
    database: Metered, client: AsyncClient
) -> None:
    """More of them than a page holds, due earlier, with our very fields and ids; at the root, below other parents, and
    in another collection of ours."""
    ann = Scope("acme", "ann")
    now = await time_of(database)
    ours = sessions_of(ann, 3, now - 40 * DAY)
    await fill(database, ours)
    old = now - 50 * DAY
    foreign: dict[str, dict[str, Any]] = {"settings/acme/settings/retention": {"underReview": True, "maxIdleDays": 1}}
    for n in range(120):
        fields = session_fields(ann, f"f{n}", old)
        foreign |= {f"pointers/f{n}": fields, f"apps/x/pointers/f{n}": fields | {"bucket": n % 16}}
        foreign[f"other-pointers/acme/pointers/f{n}"] = fields
    for path in ours:
        row = {"formatVersion": 1, "sessionId": path.id, "ownerId": "ann"}
        foreign |= {f"apps/x/snapshots/{path.id}": row, f"other/acme/snapshots/{path.id}": row}
    for name, fields in foreign.items():
        await client.document(name).set(fields)
    assert await store_on(database).sweep() == SweepReport(3, 3, 0, True, {"idle": 3})
    assert await store_on(database).erase_user(ann)
    for name, fields in foreign.items():
        assert (await client.document(name).get()).to_dict() == fields
    assert await count(database, Kind.POINTERS) == 0


async def test_a_tenants_new_rules_cost_one_look_at_each_of_its_sessions(database: Metered) -> None:
    scope = Scope("acme", "ann")
    now = await time_of(database)
    put_off = {path: fields | {"dueAt": now + 20 * DAY} for path, fields in sessions_of(scope, 60, now).items()}
    elsewhere = sessions_of(Scope("other", "ann"), 60, now)
    await fill(database, put_off | elsewhere)
    store = store_on(database)
    await store.set_retention("acme", 60, 0)
    before = database.calls.snapshot()
    assert (await store.sweep()).spared == 60
    spent = database.calls.since(before)
    assert spent.read <= 60 + 1 + 18
    assert spent.written == 1  # they are due early enough as they are
    before = database.calls.snapshot()
    await store.sweep()
    assert database.calls.since(before).read == 18


async def test_the_write_of_a_session_is_the_same_as_the_stores_own(database: Metered) -> None:
    """Else these sessions would prove nothing."""
    scope = Scope("acme", "ann")
    await store_on(database).create_session(scope, "a", NewSession("echo"))
    path = Path(Kind.POINTERS, "acme", "a")
    stored = (await database.get([path])).documents[path]
    assert stored is not None
    assert set(stored.fields) == set(session_fields(scope, "a", await time_of(database)))
