"""What every change to a transcript does about a turn that holds the session's lease: a live one hinders it, a dead one
is settled by the very same commit."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest

from store.conformance.conversations import add, documents, plain_turn, state_of_head, taken
from store.conformance.harness import Store, Stores
from store.conformance.interposed import interposed_store
from store.conformance.turns import ABORTED, ANN, FAILED, claim, claimed, completed, require
from store.database import Write
from store.errors import LeaseLostError, TranscriptStaleError, TurnBusyError
from store.models import Lease, NewSession
from store.rules.settle import LEASE_LOST

Change: TypeAlias = Callable[[Store, str], Awaitable[object]]
"""Something done to the session "s", whose rows are "first" and "second"; the second argument is the first row's id."""


CHANGES: dict[str, Change] = {
    "truncate": lambda store, first: store.truncate(ANN, "s", "b", "b-answer"),
    "truncate to where it is": lambda store, first: store.truncate(ANN, "s", "b-answer"),
    "restore": lambda store, first: store.restore(ANN, "s", first, "b-answer"),
    "branch": lambda store, first: store.branch(ANN, "s", "b", "copy"),
    "model": lambda store, first: store.update_session(ANN, "s", model="other"),
    "delete": lambda store, first: store.delete_session(ANN, "s"),
}
STAYS = [name for name in CHANGES if name != "delete"]


async def during_a_turn(store: Store) -> tuple[str, Lease]:
    """The session "s" with two turns and a third that runs: the first one's row, the third one's lease."""
    await store.create_session(ANN, "s", NewSession("echo"))
    first = await add(store, "s", plain_turn("a"))
    await add(store, "s", plain_turn("b"))
    return first.snapshot_id, await taken(store, "c", "s")


def settling(stores: Stores, store: Store, lease: Lease) -> Store:
    """An instance before whose first commit the turn's owner settles."""
    ends = [store.settle_turn]

    async def settle(writes: Sequence[Write]) -> None:
        while ends:
            await ends.pop()(lease, completed(lease))

    return interposed_store(stores.database, settle, lease_staleness=stores.moment)


class EditLeaseCases:
    """Truncate, restore, branch, delete and a change of the model, beside a turn."""

    async def test_a_session_says_whether_a_live_turn_holds_it(self, stores: Stores, store: Store) -> None:
        """Case 1: free, alive, dead."""
        await store.create_session(ANN, "s", NewSession("echo"))

        async def is_active(reader: Store) -> bool:
            session = await reader.get_session(ANN, "s")
            assert session is not None
            return session.is_turn_active

        seen = [await is_active(store)]
        await taken(store, "a", "s")
        seen.append(await is_active(store))
        await stores.wait(stores.moment)
        seen.append(await is_active(stores.open(lease_staleness=stores.moment)))
        assert seen == [False, True, False]

    @pytest.mark.parametrize("change", CHANGES)
    async def test_a_live_turn_refuses_it_and_nothing_is_written(
        self, stores: Stores, store: Store, change: str
    ) -> None:
        """Cases 51 and 56."""
        first, lease = await during_a_turn(store)
        before = await documents(stores)
        with pytest.raises(TurnBusyError) as caught:
            await CHANGES[change](stores.open(), first)
        assert (caught.value.snapshot_id, caught.value.retry_after_seconds) == (lease.snapshot_id, 3)
        assert await documents(stores) == before
        await store.settle_turn(lease, completed(lease))

    @pytest.mark.parametrize("change", STAYS)
    async def test_a_dead_turn_is_settled_by_it_and_the_session_is_free(
        self, stores: Stores, store: Store, change: str
    ) -> None:
        """Cases 51 and 56, and rule 2."""
        first, lease = await during_a_turn(store)
        successor = stores.open(lease_staleness=stores.moment)
        await stores.wait(stores.moment)
        await CHANGES[change](successor, first)
        row = await require(successor, lease.snapshot_id)
        assert (row.status, row.error, row.state) == (FAILED, LEASE_LOST, None)
        session = await successor.get_session(ANN, "s")
        assert session is not None
        assert (session.active_snapshot_id, session.is_turn_active) == (None, False)
        before = await documents(stores)
        with pytest.raises(LeaseLostError):
            await store.settle_turn(lease, completed(lease))
        assert await documents(stores) == before
        following = claim("d", "s", last_message_id=session.last_message_id)
        await successor.settle_turn(lease := await claimed(successor, following), completed(lease))

    async def test_an_abort_that_nobody_carried_out_is_done_by_it(self, stores: Stores, store: Store) -> None:
        _, lease = await during_a_turn(store)
        await store.abort_turn(ANN, lease.snapshot_id)
        successor = stores.open(lease_staleness=stores.moment)
        await stores.wait(stores.moment)
        await successor.truncate(ANN, "s", "b")
        row = await require(successor, lease.snapshot_id)
        assert (row.status, row.finish_reason, row.error) == (ABORTED, "aborted", None)

    @pytest.mark.parametrize("change", CHANGES)
    async def test_an_owner_that_beats_in_between_keeps_its_session_as_it_is(
        self, stores: Stores, store: Store, change: str
    ) -> None:
        """Found dead, and alive again when the commit comes: the commit is refused, and so is the caller."""
        first, lease = await during_a_turn(store)
        staleness = stores.moment * 5  # long enough for the beat to be young when it is read
        await stores.wait(staleness)

        async def beat(writes: Sequence[Write]) -> None:
            assert await store.heartbeat([lease]) == ["alive"]

        with pytest.raises(TurnBusyError):
            await CHANGES[change](interposed_store(stores.database, beat, lease_staleness=staleness), first)
        settled = await store.settle_turn(lease, completed(lease))
        assert await state_of_head(stores.open(), "s") == settled.state

    @pytest.mark.parametrize("change", ["truncate to where it is", "branch", "model"])
    async def test_a_turn_that_ends_in_between_is_part_of_what_is_changed(
        self, stores: Stores, store: Store, change: str
    ) -> None:
        """Found dead, and settled when the commit comes: all is asked again, and nothing of the turn is lost."""
        first, lease = await during_a_turn(store)
        await stores.wait(stores.moment)
        await CHANGES[change](settling(stores, store, lease), first)
        assert (await require(stores.open(), lease.snapshot_id)).state is not None
        assert (await state_of_head(stores.open(), "s")).messages is not None

    @pytest.mark.parametrize("change", ["truncate", "restore"])
    async def test_a_turn_that_ends_in_between_refuses_a_caller_that_did_not_see_it(
        self, stores: Stores, store: Store, change: str
    ) -> None:
        first, lease = await during_a_turn(store)
        await stores.wait(stores.moment)
        with pytest.raises(TranscriptStaleError) as caught:
            await CHANGES[change](settling(stores, store, lease), first)
        assert caught.value.last_message_id == "c-answer"
        assert (await state_of_head(stores.open(), "s")) == (await require(store, lease.snapshot_id)).state
