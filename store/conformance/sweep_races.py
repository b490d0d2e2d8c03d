"""The sweep beside those who use its sessions meanwhile, and beside its own death."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from store.conformance.ages import DAY, HOUR, aged, kept, records
from store.conformance.conversations import documents, opened
from store.conformance.harness import Store, Stores
from store.conformance.interposed import Crash, dying_store, interposed_store, store_on
from store.conformance.turns import ANN, completed, converse, message
from store.database import Delete, Found, Kind, Query, Write
from store.models import RetentionRules, SweepReport

CAPPED = RetentionRules(30, 1)


class ActsAfterQueries:
    """Passes everything on; `act` is called once, after the first query of sessions that found some."""

    def __init__(self, database: Any, act: Callable[[], Awaitable[object]]) -> None:
        self._database = database
        self._act: Callable[[], Awaitable[object]] | None = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def query(self, query: Query) -> Found:
        """As the database's, before somebody else acts."""
        found: Found = await self._database.query(query)
        act = self._act
        if query.kind is Kind.POINTERS and found.documents and act is not None:
            self._act = None
            await act()
        return found


def sweeper(stores: Stores, act: Callable[[], Awaitable[object]], **options: Any) -> Store:
    return store_on(ActsAfterQueries(stores.database, act), **options)


class SweepRaceCases:
    """A sweep and others at once."""

    @pytest.mark.parametrize("change", ["renamed", "claimed", "continued"])
    async def test_a_session_that_wakes_up_after_it_was_found_idle_is_spared(
        self, stores: Stores, store: Store, change: str
    ) -> None:
        """Case 66."""
        await aged(stores, "idle", 31 * DAY)

        async def wake() -> None:
            if change == "renamed":
                await store.update_session(ANN, "idle", title="still here")
            elif change == "claimed":
                await opened(store, message("b"), "idle", ANN)
            else:
                await converse(store, "b", "idle")

        assert await sweeper(stores, wake).sweep() == SweepReport(1, 0, 1, True)
        assert await store.get_session(ANN, "idle") is not None
        assert (await store.sweep()).deleted == 0

    async def test_a_session_that_wakes_up_after_it_was_found_beyond_the_cap_is_spared(
        self, stores: Stores, store: Store
    ) -> None:
        """Case 66, in the other pass."""
        await aged(stores, "older", 2 * HOUR)
        await aged(stores, "newer", HOUR)

        async def wake() -> None:
            await store.update_session(ANN, "older", title="still here")

        assert await sweeper(stores, wake, retention=CAPPED).trim_sessions(ANN) == 0
        assert await kept(stores) == {"older", "newer"}

    async def test_a_session_that_wakes_up_is_not_put_off_by_what_was_known_before(
        self, stores: Stores, store: Store
    ) -> None:
        await aged(stores, "a", 2 * DAY)

        async def wake() -> None:
            await converse(store, "b", "a")

        assert await sweeper(stores, wake).sweep() == SweepReport(1, 0, 1, True)
        fields = (await records(stores))["a"]
        assert fields["dueAt"] - fields["updatedAt"] < 2 * DAY

    async def test_every_delete_repeats_its_condition(self, stores: Stores) -> None:
        await aged(stores, "idle", 31 * DAY)
        await aged(stores, "temporary", 2 * DAY, temporary=True)
        deletes: list[Delete] = []

        async def look(writes: Sequence[Write]) -> None:
            deletes.extend(write for write in writes if isinstance(write, Delete))

        await interposed_store(stores.database, look).sweep()
        assert len(deletes) >= 6
        assert all(delete.update_time is not None for delete in deletes)

    async def test_two_sweeps_at_once_delete_everything_once(self, stores: Stores) -> None:
        for n in range(4):
            await aged(stores, f"s{n}", 31 * DAY)
        other = stores.open()
        first: list[SweepReport] = []

        async def sweep_too() -> None:
            first.append(await other.sweep())

        second = await sweeper(stores, sweep_too).sweep()
        assert first[0].deleted == 4
        assert second.deleted == 0
        assert await documents(stores) == {}

    @pytest.mark.parametrize("commits", range(8))
    async def test_a_sweep_that_dies_is_finished_by_the_next(self, stores: Stores, commits: int) -> None:
        """Between any two of its commits."""
        await aged(stores, "idle", 31 * DAY)
        await aged(stores, "temporary", 2 * DAY, temporary=True)
        await aged(stores, "used", HOUR)
        with pytest.raises(Crash):
            await dying_store(stores.database, commits).sweep()
        report = await stores.open().sweep()
        assert report.is_done
        assert await kept(stores) == {"used"}
        assert {path.kind for path in await documents(stores)} == {Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS}

    async def test_the_owner_of_a_claimed_turn_publishes_although_a_sweep_wanted_its_session(
        self, stores: Stores, store: Store
    ) -> None:
        await aged(stores, "idle", 31 * DAY)
        leases = []

        async def claim() -> None:
            leases.append(await opened(store, message("b"), "idle", ANN))

        await sweeper(stores, claim).sweep()
        await store.settle_turn(leases[0], completed(leases[0]))
        transcript = await store.get_transcript(ANN, "idle")
        assert transcript is not None
        assert transcript.session.message_count == 4
