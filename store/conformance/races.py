"""Several callers at once, on one instance and on several: nothing is lost, one wins, mutators run again."""

import asyncio
from dataclasses import replace

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ABORTED,
    ABORTING,
    ANN,
    COMPLETED,
    PENDING,
    changed,
    claim,
    claimed,
    completed,
    converse,
    require,
    save,
    state_of,
)
from store.errors import LeaseLostError, SnapshotSettledError, StoreError, TurnBusyError
from store.models import Abort, Lease, NewSession, SameSend, Session, Snapshot, SnapshotStatus
from store.state import State

WRITERS = 8  # each refusal makes a writer pause, so the test takes a second or two


class RaceCases:
    """Several instances at once."""

    async def test_increments_of_two_instances_in_a_rows_metadata_lose_none(self, stores: Stores, store: Store) -> None:
        await save(store, "row", error={"details": {"n": 0}})
        other = stores.open()

        def increment(row: Snapshot | None) -> Snapshot | None:
            assert row is not None
            assert row.error is not None
            return replace(row, error={"details": {"n": row.error["details"]["n"] + 1}})

        await asyncio.gather(*((store, other)[n % 2].save_snapshot(ANN, "row", increment) for n in range(WRITERS)))
        assert (await require(store, "row")).error == {"details": {"n": WRITERS}}

    async def test_increments_in_a_running_rows_state_lose_none(self, stores: Stores, store: Store) -> None:
        await save(store, "row", status=PENDING, state=state_of(n=0))
        other = stores.open()
        runs = 0

        def increment(row: Snapshot | None) -> Snapshot | None:
            nonlocal runs
            runs += 1
            assert row is not None
            assert row.state is not None
            return replace(row, state=state_of(n=row.state.get("n") + 1))

        saved = await asyncio.gather(
            *((store, other)[n % 2].save_snapshot(ANN, "row", increment) for n in range(WRITERS))
        )
        seen = [row.state.get("n") for row in saved if row and row.state]
        assert sorted(seen) == list(range(1, WRITERS + 1))  # each was told of its own result
        assert (await require(store, "row")).state == state_of(n=WRITERS)
        assert runs > WRITERS  # some ran again, or the test has proved nothing

    async def test_new_rows_of_one_session_are_all_kept(self, stores: Stores) -> None:
        instances = [stores.open() for _ in range(4)]
        await asyncio.gather(*(save(each, f"row-{n}", state=state_of(n=n)) for n, each in enumerate(instances)))
        states = [(await require(instances[0], f"row-{n}")).state for n in range(4)]
        assert states == [state_of(n=n) for n in range(4)]

    async def test_a_retry_that_turns_into_nothing_gives_none(self, stores: Stores, store: Store) -> None:
        """Both want to be the first; the loser's change sees the winner's row when it runs again, and declines."""
        other = stores.open()

        def unless_there(row: Snapshot | None) -> Snapshot | None:
            return None if row else Snapshot("s", state=State.of({}))

        saved = await asyncio.gather(*(each.save_snapshot(ANN, "row", unless_there) for each in (store, other)))
        assert sorted(row is None for row in saved) == [False, True]

    async def test_of_many_claims_exactly_one_gets_the_turn(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        instances = [store, stores.open(), stores.open()]
        claims = [claim(f"q{n}", first.session_id, last_message_id="a-answer") for n in range(6)]
        answers = await asyncio.gather(
            *(instances[n % 3].claim_turn(ANN, each) for n, each in enumerate(claims)), return_exceptions=True
        )
        [lease] = [answer for answer in answers if isinstance(answer, Lease)]
        refused = [answer for answer in answers if answer is not lease]
        assert {type(answer) for answer in refused} == {TurnBusyError}
        assert {answer.snapshot_id for answer in refused if isinstance(answer, TurnBusyError)} == {lease.snapshot_id}
        await store.settle_turn(lease, completed(lease))

    async def test_of_many_first_sends_of_one_message_exactly_one_makes_the_session(self, stores: Stores) -> None:
        instances = [stores.open() for _ in range(3)]
        answers = await asyncio.gather(*(instances[n % 3].claim_turn(ANN, claim("first")) for n in range(6)))
        [lease] = [answer for answer in answers if isinstance(answer, Lease)]
        same = SameSend(lease.session_id, lease.snapshot_id, is_running=True)
        assert [answer for answer in answers if answer is not lease] == [same] * 5

    async def test_of_many_takeovers_exactly_one_gets_the_turn(self, stores: Stores, store: Store) -> None:
        dead = await claimed(store, claim("q"))
        staleness = stores.moment * 30  # long enough for the winner's lease not to be stale to the others
        await stores.wait(staleness)
        instances = [stores.open(lease_staleness=staleness) for _ in range(3)]
        claims = [claim(f"q{n}", dead.session_id) for n in range(3)]
        answers = await asyncio.gather(
            *(each.claim_turn(ANN, given) for each, given in zip(instances, claims, strict=True)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers].count(Lease) == 1
        assert all(isinstance(answer, Lease | TurnBusyError) for answer in answers)
        with pytest.raises(LeaseLostError):
            await store.settle_turn(dead, completed(dead))

    @pytest.mark.parametrize("round_", range(4))
    async def test_a_settle_and_an_abort_at_once_agree_on_how_the_turn_ended(
        self, stores: Stores, store: Store, round_: int
    ) -> None:
        lease = await claimed(store, claim("q"))
        settled, flipped = await asyncio.gather(
            store.settle_turn(lease, completed(lease)), stores.open().abort_turn(ANN, lease.snapshot_id)
        )
        assert isinstance(flipped, Abort)
        expected = {COMPLETED: COMPLETED, ABORTING: ABORTED}[flipped.status]
        assert (await require(store, lease.snapshot_id)).status is settled.status is expected

    async def test_a_settle_and_renames_at_once_are_all_kept(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("q"))
        other = stores.open()
        await asyncio.gather(
            other.update_session(ANN, lease.session_id, title="one"),
            store.settle_turn(lease, completed(lease)),
            other.update_session(ANN, lease.session_id, title="two"),
        )
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert session.title in ("one", "two")
        assert (session.message_count, session.active_snapshot_id) == (2, None)

    async def test_a_heartbeat_and_a_settle_at_once_do_not_lose_the_turn(self, store: Store) -> None:
        lease = await claimed(store, claim("q"))
        _, settled = await asyncio.gather(store.heartbeat([lease]), store.settle_turn(lease, completed(lease)))
        assert settled.status is COMPLETED
        assert await require(store, lease.snapshot_id) == settled

    async def test_of_a_settle_and_a_save_that_ends_the_turn_only_one_happens(
        self, stores: Stores, store: Store
    ) -> None:
        lease = await claimed(store, claim("q"))
        ended = changed(status=SnapshotStatus.FAILED)
        answers = await asyncio.gather(
            stores.open().save_snapshot(ANN, lease.snapshot_id, ended),
            store.settle_turn(lease, completed(lease)),
            return_exceptions=True,
        )
        assert [isinstance(answer, StoreError) for answer in answers].count(True) == 1
        row = await require(store, lease.snapshot_id)
        if isinstance(answers[0], SnapshotSettledError):
            assert row == answers[1]
        else:
            assert isinstance(answers[1], LeaseLostError)
            assert row == answers[0]

    async def test_creating_one_session_several_times_at_once_makes_one(self, stores: Stores) -> None:
        instances = [stores.open() for _ in range(3)]
        new = NewSession("echo", title="t")
        made = await asyncio.gather(*(each.create_session(ANN, "s", new, state_of("a")) for each in instances))
        assert [type(each) for each in made] == [Session] * 3
        assert len({each.head_snapshot_id for each in made}) == 1
