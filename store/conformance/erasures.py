"""Erasure: afterwards nothing of the user is left, whatever ran meanwhile, and nothing of anybody else is gone."""

from collections.abc import Sequence

import pytest

from store.conformance.ages import A_DAY, HOUR, aged, kept, records
from store.conformance.conversations import documents, noise, taken
from store.conformance.harness import Store, Stores
from store.conformance.interposed import Crash, dying_store, interposed_store
from store.conformance.turns import ANN, BOB, ELSEWHERE, claim, claimed, completed
from store.database import Create, Kind, Path, Update, Write
from store.errors import LeaseLostError, SessionNotFoundError
from store.models import Beat, NewSession, Segment


class ErasureCases:
    """Erasing a user."""

    async def test_everything_of_the_user_goes_and_nothing_of_others(self, stores: Stores, store: Store) -> None:
        await aged(stores, "bobs", HOUR, scope=BOB)
        await aged(stores, "elsewhere", HOUR, scope=ELSEWHERE)
        others = await documents(stores)
        for n in range(3):
            await aged(stores, f"s{n}", HOUR, turns=2)
        await aged(stores, "temporary", HOUR, temporary=True)
        await store.branch(ANN, "s0", "s0-0-answer")
        assert await store.erase_user(ANN)
        assert await documents(stores) == others
        assert await store.erase_user(ANN)  # of a user who has nothing there is nothing left to do

    async def test_a_running_turn_is_ended_and_its_owner_publishes_nothing(self, stores: Stores, store: Store) -> None:
        await store.create_session(ANN, "s", NewSession("echo"))
        await store.create_session(ANN, "t", NewSession("echo", lifetime=A_DAY))
        leases = [await taken(store, "a", name) for name in ("s", "t")]
        large = await claimed(store, claim("large", text=noise(600_000)))
        await store.write_segments(leases[0], [Segment(0, b'[1,"x",{}]\n', 1, 1)], leases[0].created_at)
        assert await stores.open().erase_user(ANN)
        assert await documents(stores) == {}
        for lease in (*leases, large):
            with pytest.raises(LeaseLostError):
                await store.settle_turn(lease, completed(lease))
        assert await documents(stores) == {}

    async def test_what_a_turn_wrote_after_its_session_was_erased_goes_when_the_turn_ends(
        self, stores: Stores, store: Store
    ) -> None:
        """Its instance hears of it with the next heartbeat; until then it writes its log, and large shards."""
        lease = await claimed(store, claim("a"))
        assert await stores.open().erase_user(ANN)
        await store.write_segments(lease, [Segment(0, b'[1,"x",{}]\n', 1, 1)], lease.created_at)
        assert await store.heartbeat([lease]) == [Beat.LOST]
        with pytest.raises(LeaseLostError):
            await store.settle_turn(lease, completed(lease, text=noise(5_000_000)))
        assert await documents(stores) == {}

    async def test_an_erasure_is_bounded_and_gone_on_with(self, stores: Stores, store: Store) -> None:
        for n in range(5):
            await aged(stores, f"s{n}", HOUR)
        calls = 1
        while not await stores.open().erase_user(ANN, 4):
            calls += 1
        assert 3 <= calls <= 12
        assert await documents(stores) == {}

    async def test_a_session_of_many_documents_takes_several_calls_and_is_gone_from_the_first(
        self, stores: Stores, store: Store
    ) -> None:
        await aged(stores, "large", HOUR)
        parts = [Path(Kind.BLOBS, "acme", f"blob-{n:03}") for n in range(250)]
        await stores.database.commit([Create(path, {"formatVersion": 1, "sessionId": "large"}) for path in parts])
        assert not await store.erase_user(ANN, 100)
        assert await store.get_session(ANN, "large") is None
        with pytest.raises(SessionNotFoundError):
            await store.claim_turn(ANN, claim("c", "large", check_tail=False))
        while not await store.erase_user(ANN, 100):
            assert await kept(stores) == {"large"}
        assert await documents(stores) == {}

    @pytest.mark.parametrize("commits", range(6))
    async def test_an_erasure_that_dies_is_finished_by_the_next(self, stores: Stores, commits: int) -> None:
        for n in range(2):
            await aged(stores, f"s{n}", HOUR)
        with pytest.raises(Crash):
            await dying_store(stores.database, commits).erase_user(ANN)
        assert await stores.open().erase_user(ANN)
        assert await documents(stores) == {}

    async def test_a_session_that_is_used_meanwhile_is_erased_as_well(self, stores: Stores, store: Store) -> None:
        await aged(stores, "s", HOUR)
        names = ["one", "two"]

        async def rename(_: Sequence[Write]) -> None:
            if names:
                await store.update_session(ANN, "s", title=names.pop())

        assert await interposed_store(stores.database, rename).erase_user(ANN)
        assert await documents(stores) == {}

    async def test_a_damaged_session_is_erased_as_any_other(self, stores: Stores, store: Store) -> None:
        await aged(stores, "s", HOUR)
        await stores.database.commit([Update(Path(Kind.POINTERS, "acme", "s"), {"agent": 5, "head": "?"})])
        assert "s" in await records(stores)
        assert await store.erase_user(ANN)
        assert await documents(stores) == {}
