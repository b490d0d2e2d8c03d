"""The sweep: what it deletes, what it leaves, how much it does at once, and what it says of that."""

from datetime import timedelta

import pytest

from store.conformance.ages import DAY, HOUR, age, aged, kept, records
from store.conformance.conversations import all_documents, documents, taken
from store.conformance.harness import Store, Stores
from store.conformance.interposed import interposed_store
from store.conformance.turns import ANN, BOB, ELSEWHERE, completed
from store.database import Create, Kind, Path, Update, Write
from store.layout.fields import FORMAT_VERSION
from store.models import RetentionRules, SweepReport
from store.rules.retention import bucket_of

NOTHING = SweepReport(0, 0, 0, True)


async def expired(stores: Stores, count: int) -> None:
    """Temporary sessions without a turn, which have expired; made in one commit."""
    now = (await stores.database.get([Path(Kind.SETTINGS, "acme", "x")])).time
    writes: list[Write] = [
        Create(
            Path(Kind.POINTERS, "acme", f"t{n}"),
            {
                "formatVersion": FORMAT_VERSION,
                "id": f"t{n}",
                "ownerId": f"user-{n}",
                "agent": "echo",
                "title": "",
                "temporary": True,
                "bucket": bucket_of(f"t{n}"),
                "createdAt": now - 2 * DAY,
                "updatedAt": now - 2 * DAY,
                "dueAt": now - DAY,
                "expiresAt": now - DAY,
            },
        )
        for n in range(count)
    ]
    await stores.database.commit(writes)


class SweepCases:
    """One sweep after the other."""

    async def test_of_two_that_are_equally_old_the_temporary_one_goes(self, stores: Stores, store: Store) -> None:
        """Case 61."""
        await aged(stores, "temporary", 25 * HOUR, temporary=True)
        await aged(stores, "persisted", 25 * HOUR)
        assert await store.sweep() == SweepReport(2, 1, 1, True, {"expired": 1})
        assert await kept(stores) == {"persisted"}
        assert {path.kind for path in await all_documents(stores)} == {Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS}

    async def test_an_idle_session_goes_and_a_young_temporary_one_stays(self, stores: Stores, store: Store) -> None:
        """Case 62."""
        await aged(stores, "idle", 31 * DAY)
        await aged(stores, "used", 29 * DAY)
        await aged(stores, "temporary", HOUR, temporary=True)
        assert (await store.sweep()).reasons == {"idle": 1}
        assert await kept(stores) == {"used", "temporary"}

    async def test_the_cap_keeps_each_users_newest(self, stores: Stores, store: Store) -> None:
        """Case 63: found a day after the last change, where it was not seen to when the session was made."""
        for n in range(1, 5):
            await aged(stores, f"ann-{n}", (n + 1) * DAY)
        await aged(stores, "ann-temporary", HOUR, temporary=True)
        await aged(stores, "bob", 9 * DAY, scope=BOB)
        for n in range(1, 4):
            await aged(stores, f"else-{n}", (n + 1) * DAY, scope=ELSEWHERE)
        sweeper = stores.open(retention=RetentionRules(30, 2))
        assert (await sweeper.sweep()).reasons == {"cap": 3}
        assert await kept(stores) == {"ann-1", "ann-2", "ann-temporary", "bob", "else-1", "else-2"}

    async def test_without_rules_only_what_has_expired_goes(self, stores: Stores, store: Store) -> None:
        """Case 64."""
        await store.set_retention("acme", 0, 0)
        for n in range(3):
            await aged(stores, f"old-{n}", 400 * DAY)
        await aged(stores, "temporary", 25 * HOUR, temporary=True)
        assert (await store.sweep()).reasons == {"expired": 1}
        assert await kept(stores) == {"old-0", "old-1", "old-2"}

    @pytest.mark.parametrize(("days", "count", "reason"), [(7, None, "idle"), (None, 1, "cap")])
    async def test_the_next_sweep_obeys_rules_that_were_changed(
        self, stores: Stores, store: Store, days: int | None, count: int | None, reason: str
    ) -> None:
        """Case 65: although the sessions were put off by the former rules."""
        await aged(stores, "old", 10 * DAY)
        await aged(stores, "young", 2 * DAY)
        await aged(stores, "elsewhere", 10 * DAY, scope=ELSEWHERE)
        assert await store.sweep() == SweepReport(3, 0, 3, True)
        assert await store.sweep() == NOTHING
        await store.set_retention("acme", days, count)
        assert (await store.sweep()).reasons == {reason: 1}
        assert await kept(stores) == {"young", "elsewhere"}
        assert await store.sweep() == NOTHING

    async def test_new_rules_are_held_against_all_sessions_however_many_calls_it_takes(
        self, stores: Stores, store: Store
    ) -> None:
        for n in range(1, 6):
            await aged(stores, f"s{n}", 2 * n * DAY, turns=0)
        await store.sweep()
        await store.set_retention("acme", 5, None)
        calls = 0
        while not (await stores.open().sweep(1)).is_done:
            calls += 1
        assert calls >= 3
        assert await kept(stores) == {"s1", "s2"}

    async def test_rules_that_change_again_are_held_against_those_that_were_seen_too(
        self, stores: Stores, store: Store
    ) -> None:
        for n in range(4):
            await aged(stores, f"s{n}", 10 * DAY, turns=0)
        await store.sweep()
        await store.set_retention("acme", 20, None)
        is_first = True

        async def change(_: object) -> None:
            nonlocal is_first
            if is_first:
                is_first = False
                await store.set_retention("acme", 5, None)

        assert (await interposed_store(stores.database, change).sweep()).deleted == 0
        assert (await store.sweep()).reasons == {"idle": 4}

    async def test_a_session_that_stays_is_looked_at_again_when_a_rule_can_apply(
        self, stores: Stores, store: Store
    ) -> None:
        session = await aged(stores, "a", 2 * DAY)
        assert await store.sweep() == SweepReport(1, 0, 1, True)
        due = (await records(stores))["a"]["dueAt"]
        assert due == session.updated_at - 2 * DAY + 30 * DAY
        assert await store.sweep() == NOTHING
        await age(stores, "a", 28 * DAY + HOUR)
        assert (await store.sweep()).reasons == {"idle": 1}

    async def test_a_session_of_which_a_turn_lives_is_spared(self, stores: Stores, store: Store) -> None:
        await aged(stores, "idle", HOUR)
        lease = await taken(store, "b", "idle")
        await age(stores, "idle", 40 * DAY)
        assert await store.sweep() == SweepReport(1, 0, 1, True)
        await store.settle_turn(lease, completed(lease))
        assert await store.sweep() == NOTHING

    async def test_a_turn_whose_owner_is_gone_spares_nothing(self, stores: Stores) -> None:
        store = stores.open(lease_staleness=stores.moment)
        await aged(stores, "idle", HOUR)
        await taken(store, "b", "idle")
        await stores.wait(stores.moment)
        await age(stores, "idle", 40 * DAY)
        assert (await store.sweep()).reasons == {"idle": 1}
        assert await documents(stores) == {}

    async def test_two_hundred_and_fifty_go_in_one_sweep(self, stores: Stores) -> None:
        """Case 67. No commit deletes more than a hundred documents."""
        await expired(stores, 250)
        sizes: list[int] = []

        async def count(writes: object) -> None:
            assert isinstance(writes, list)
            sizes.append(len(writes))

        report = await interposed_store(stores.database, count).sweep()
        assert report == SweepReport(250, 250, 0, True, {"expired": 250})
        assert await documents(stores) == {}
        assert max(sizes) <= 100

    async def test_a_large_session_goes_in_batches_of_a_hundred_and_over_several_sweeps(
        self, stores: Stores, store: Store
    ) -> None:
        await aged(stores, "large", 40 * DAY)
        parts = [Path(Kind.BLOBS, "acme", f"blob-{n:03}") for n in range(350)]
        await stores.database.commit([Create(path, {"formatVersion": 1, "sessionId": "large"}) for path in parts])
        assert await store.sweep(150) == SweepReport(1, 1, 0, False, {"idle": 1})
        left = len(await documents(stores))
        assert 353 - 150 - 100 <= left <= 353 - 150
        assert await store.get_session(ANN, "large") is None
        reports = [await stores.open().sweep(150), await stores.open().sweep(150)]
        assert [report.reasons for report in reports] == [{"resumed": 1}, {"resumed": 1}]
        await stores.open().sweep(150)
        assert {path.kind for path in await documents(stores)} <= {Kind.SETTINGS}

    async def test_a_sweep_is_bounded_and_the_next_goes_on(self, stores: Stores) -> None:
        await expired(stores, 40)
        reports: list[SweepReport] = []
        while not reports or not reports[-1].is_done:
            reports.append(await stores.open().sweep(15))
        assert [report.deleted for report in reports] == [15, 15, 10]
        assert await kept(stores) == set()

    async def test_a_sweep_looks_at_no_more_than_twenty_times_what_it_may_delete(
        self, stores: Stores, store: Store
    ) -> None:
        for n in range(45):
            await aged(stores, f"s{n}", 2 * DAY, turns=0)
        reports = [await stores.open(retention=RetentionRules(30, 0)).sweep(1) for _ in range(3)]
        assert [(report.spared, report.is_done) for report in reports] == [(20, False), (20, False), (5, True)]

    async def test_a_dry_run_writes_nothing_and_says_what_would_go(self, stores: Stores, store: Store) -> None:
        await aged(stores, "idle", 31 * DAY)
        await aged(stores, "temporary", 25 * HOUR, temporary=True)
        for n in range(4):
            await aged(stores, f"bob-{n}", (2 + n) * DAY, scope=BOB)
        await aged(stores, "busy", HOUR, scope=ELSEWHERE)
        lease = await taken(store, "b", "busy", ELSEWHERE)
        await age(stores, "busy", 40 * DAY, ELSEWHERE.tenant)
        await store.set_retention("acme", None, 2)
        before = await documents(stores)
        planned = await store.sweep(dry_run=True)
        assert await documents(stores) == before
        assert planned == SweepReport(7, 4, 3, True, {"idle": 1, "expired": 1, "cap": 2})
        assert await store.sweep() == planned
        assert await kept(stores) == {"bob-0", "bob-1", "busy"}
        await store.settle_turn(lease, completed(lease))

    async def test_a_dry_run_is_bounded_too(self, stores: Stores, store: Store) -> None:
        await expired(stores, 40)
        assert await store.sweep(15, dry_run=True) == SweepReport(15, 15, 0, False, {"expired": 15})

    async def test_a_damaged_session_does_not_keep_the_others_from_being_swept(self, stores: Stores) -> None:
        for n in range(4):
            await aged(stores, f"s{n}", 31 * DAY + timedelta(hours=n))
        await stores.database.commit([Update(Path(Kind.POINTERS, "acme", "s3"), {"agent": 5})])
        assert await stores.open().sweep() == SweepReport(4, 3, 1, True, {"idle": 3})
        assert await kept(stores) == {"s3"}
        stores.is_damaged = True

    async def test_what_has_no_expired_sessions_is_not_written_to(self, stores: Stores, store: Store) -> None:
        await aged(stores, "a", timedelta())
        before = await documents(stores)
        assert await store.sweep() == NOTHING
        assert await documents(stores) == before
