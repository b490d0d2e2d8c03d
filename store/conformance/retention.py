"""Temporary sessions, a tenant's rules, and the cap where sessions are made."""

from datetime import datetime, timedelta

import pytest

from store.conformance.ages import A_DAY, DAY, HOUR, age, aged, kept, records
from store.conformance.conversations import add, all_documents, documents, noise, of_session, plain_turn, taken
from store.conformance.harness import Store, Stores
from store.conformance.interposed import interposed_store
from store.conformance.turns import ANN, BOB, ELSEWHERE, claim, completed, converse, failed
from store.database import Kind
from store.errors import (
    InvalidRequestError,
    SessionNotFoundError,
    SnapshotNotFoundError,
)
from store.models import NewSession, RetentionRules, Segment
from store.state import State

MIB = 2**20


class RetentionCases:
    """What expires, and what the cap takes."""

    async def test_a_temporary_session_expires_a_fixed_time_after_it_was_made(
        self, stores: Stores, store: Store
    ) -> None:
        made = await store.create_session(ANN, "t", NewSession("echo", lifetime=A_DAY))
        assert made.expires_at is not None
        await converse(store, "a", "t")
        await store.update_session(ANN, "t", title="later")
        await store.truncate(ANN, "t", "a")
        found = await store.get_session(ANN, "t")
        assert found is not None
        assert found.temporary
        assert found.expires_at == made.expires_at
        assert abs(made.expires_at - made.created_at - DAY) < timedelta(seconds=5)
        assert (await store.list_sessions(ANN, 10)).sessions == ()

    async def test_every_document_of_a_temporary_session_says_when_the_database_may_drop_it(
        self, stores: Stores, store: Store
    ) -> None:
        """Rows of every origin, the session, shards, those written ahead of their commit too, and segments."""
        custom = State.of({"messages": [], "custom": {"a": 1}})
        made = await store.create_session(ANN, "t", NewSession("echo", lifetime=A_DAY), custom)
        await add(store, "t", plain_turn("a"), artifacts=[noise(4 * MIB)])
        await store.truncate(ANN, "t", "a")
        lease = await taken(store, "b", "t")
        assert made.expires_at is not None
        await store.write_segments(lease, [Segment(0, b'[1,"x",{}]\n', 1, 1)], made.expires_at + DAY)
        await store.settle_turn(lease, failed())
        found = await all_documents(stores)
        assert {path.kind for path in found} == {Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS, Kind.STREAMS}
        assert set(found) == set(of_session(found, "t"))
        assert {document.fields.get("firesessionExpireAt") for document in found.values()} == {made.expires_at + DAY}

    async def test_a_branch_of_a_temporary_session_expires_with_it(self, stores: Stores, store: Store) -> None:
        made = await store.create_session(ANN, "t", NewSession("echo", lifetime=A_DAY))
        await converse(store, "a", "t")
        branch = await store.branch(ANN, "t", "a-answer")
        assert branch.temporary
        assert made.expires_at is not None
        assert branch.expires_at is not None
        assert abs(branch.expires_at - made.expires_at) < timedelta(milliseconds=1)

    async def test_an_expired_session_is_gone_from_every_read(self, stores: Stores, store: Store) -> None:
        await store.create_session(ANN, "t", NewSession("echo", lifetime=A_DAY))
        row = await converse(store, "a", "t")
        assert await store.get_snapshot(ANN, row.snapshot_id) is not None
        await age(stores, "t", DAY)
        for instance in (store, stores.open()):  # the one still has its state in memory
            assert await instance.get_session(ANN, "t") is None
            assert await instance.get_transcript(ANN, "t") is None
            assert await instance.get_snapshot(ANN, row.snapshot_id) is None
            assert await instance.get_snapshot_metadata(ANN, row.snapshot_id) is None
            assert await instance.get_latest_snapshot(ANN, "t") is None
            assert await instance.get_latest_snapshot_metadata(ANN, "t") is None
        before = await documents(stores)
        for refused in (
            store.list_snapshots(ANN, "t", 10),
            store.claim_turn(ANN, claim("b", "t", last_message_id="a-answer")),
            store.truncate(ANN, "t", "a"),
            store.restore(ANN, "t", row.snapshot_id),
            store.branch(ANN, "t", "a"),
            store.update_session(ANN, "t", title="x"),
            store.abort_session(ANN, "t"),
            store.delete_session(ANN, "t"),
            store.create_session(ANN, "t", NewSession("echo")),
        ):
            with pytest.raises(SessionNotFoundError):
                await refused
        with pytest.raises(SnapshotNotFoundError):
            await store.abort_turn(ANN, row.snapshot_id)
        assert await documents(stores) == before

    @pytest.mark.parametrize("is_swept", [False, True], ids=["unswept", "swept"])
    async def test_a_turn_that_outlives_its_session_settles_into_nothing_and_is_told_so(
        self, stores: Stores, store: Store, is_swept: bool
    ) -> None:
        await store.create_session(ANN, "t", NewSession("echo", lifetime=stores.moment))
        lease = await taken(store, "a", "t")
        await stores.wait(stores.moment)
        assert await store.get_snapshot_metadata(ANN, lease.snapshot_id) is None
        if is_swept:
            assert (await stores.open().sweep()).reasons == {"expired": 1}
        with pytest.raises(SessionNotFoundError):
            await store.settle_turn(lease, completed(lease))
        assert await store.get_snapshot(ANN, lease.snapshot_id) is None
        assert await store.get_transcript(ANN, "t") is None
        await stores.open().sweep()
        assert await documents(stores) == {}

    async def test_the_defaults_are_thirty_days_and_thirty_sessions(self, stores: Stores, store: Store) -> None:
        """Case 68."""
        assert await store.get_retention("acme") == RetentionRules(30, 30)
        assert await stores.open(retention=RetentionRules(7, 0)).get_retention("acme") == RetentionRules(7, 0)

    async def test_rules_are_each_tenants_own_and_changed_one_by_one(self, store: Store) -> None:
        """Case 69."""
        assert await store.set_retention("acme", 14, None) == RetentionRules(14, 30)
        assert await store.set_retention("acme", None, 0) == RetentionRules(14, 0)
        assert await store.get_retention("acme") == RetentionRules(14, 0)
        assert await store.get_retention("other") == RetentionRules(30, 30)
        for days, count in ((-1, None), (None, -1)):
            with pytest.raises(InvalidRequestError):
                await store.set_retention("acme", days, count)
        assert await store.get_retention("acme") == RetentionRules(14, 0)

    async def test_rules_that_two_change_at_once_are_both_kept(self, stores: Stores) -> None:
        other = stores.open()
        is_first = True

        async def change(_: object) -> None:
            nonlocal is_first
            if is_first:
                is_first = False
                await other.set_retention("acme", None, 5)

        assert await interposed_store(stores.database, change).set_retention("acme", 14, None) == RetentionRules(14, 5)
        assert await other.get_retention("acme") == RetentionRules(14, 5)

    async def test_the_cap_takes_the_least_recently_used_and_neither_counts_nor_takes_temporary_ones(
        self, stores: Stores, store: Store
    ) -> None:
        await store.set_retention("acme", None, 2)
        for n, name in enumerate(["oldest", "older", "newer", "newest"]):
            await aged(stores, name, (9 - n) * HOUR)
        await aged(stores, "temporary", HOUR, temporary=True)
        await aged(stores, "bob", 9 * HOUR, scope=BOB)
        await aged(stores, "elsewhere", 9 * HOUR, scope=ELSEWHERE)
        assert await store.trim_sessions(ANN) == 2
        assert await kept(stores) == {"newer", "newest", "temporary", "bob", "elsewhere"}
        assert await store.trim_sessions(ANN) == 0

    async def test_the_cap_spares_a_live_turn(self, stores: Stores, store: Store) -> None:
        await store.set_retention("acme", None, 1)
        await aged(stores, "running", HOUR)
        lease = await taken(store, "b", "running")
        await age(stores, "running", 9 * HOUR)
        await aged(stores, "new", HOUR)
        assert await store.trim_sessions(ANN) == 0
        await store.settle_turn(lease, completed(lease))
        assert await kept(stores) == {"running", "new"}

    async def test_no_cap_takes_nothing(self, stores: Stores, store: Store) -> None:
        await store.set_retention("acme", None, 0)
        for name in ("a", "b"):
            await aged(stores, name, HOUR)
        assert await store.trim_sessions(ANN) == 0
        assert await kept(stores) == {"a", "b"}

    async def test_a_deletion_that_was_cut_short_is_due_at_once(self, stores: Stores, store: Store) -> None:
        """However long the session would have been left alone."""
        await aged(stores, "a", -DAY)
        assert not await store.erase_user(ANN, most=1)
        fields = (await records(stores))["a"]
        assert fields["deleting"] is True
        assert isinstance(fields["dueAt"], datetime)
        report = await store.sweep()
        assert report.reasons == {"resumed": 1}
        assert await documents(stores) == {}
