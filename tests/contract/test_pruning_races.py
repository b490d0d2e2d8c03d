"""Pruning between other people's steps: no row is built on one that goes, and an interruption leaves nothing behind."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from store.conformance.interposed import interposed_store
from store.database import CommitUnansweredError, Kind, Update, Write
from store.errors import SnapshotNotFoundError
from store.models import Lease
from tests.contract.soundness import documents_of
from tests.contract.stores import Stores
from tests.contract.turns import ANN, claim, claimed, completed, converse, save, state_of

KEEP = {"max_persisted_chain_length": 1}


def once(act: Callable[[], Awaitable[object]]) -> Callable[[Sequence[Write]], Awaitable[None]]:
    """Acts before the first commit only."""
    waiting = [act]

    async def before_commit(_: Sequence[Write]) -> None:
        if waiting:
            await waiting.pop()()

    return before_commit


def is_pruning(writes: Sequence[Write]) -> bool:
    """Whether a commit is a prune's."""
    return isinstance(writes[0], Update) and "prunedAt" in writes[0].fields


async def test_a_claim_that_read_a_row_before_it_was_pruned_is_told_that_it_is_missing(stores: Stores) -> None:
    pruning = stores.open(**KEEP)
    await save(stores.open(), "a", state=state_of("a"))
    await save(stores.open(), "b", parent_id="a", state=state_of("a", "b"))
    claiming = interposed_store(
        stores.database, once(lambda: save(pruning, "c", parent_id="b", state=state_of("a", "b", "c"))), **KEEP
    )
    with pytest.raises(SnapshotNotFoundError):
        await claiming.claim_turn(ANN, claim("q", "s", snapshot_to_resume="a", last_message_id="a"))


async def test_a_prune_that_a_claim_overtook_spares_the_row_that_the_turn_continues_from(stores: Stores) -> None:
    first = await converse(stores.open(), "q1")
    session_id, leases = first.session_id, list[Lease]()

    async def before_commit(writes: Sequence[Write]) -> None:
        if is_pruning(writes) and not leases:
            again = claim("q3", session_id, snapshot_to_resume=first.snapshot_id, last_message_id="q1-answer")
            leases.append(await claimed(stores.open(), again))

    second = await converse(interposed_store(stores.database, before_commit, **KEEP), "q2", session_id)
    store = stores.open()
    assert await store.get_snapshot(ANN, first.snapshot_id) == first
    await store.settle_turn(leases[0], completed(leases[0]))
    assert await store.get_snapshot(ANN, second.snapshot_id) == second


async def test_a_save_that_read_its_parent_before_it_was_pruned_stores_its_state_whole(stores: Stores) -> None:
    await save(stores.open(), "a", state=state_of("a"))
    early = await save(stores.open(), "b", parent_id="a", state=state_of("a", "b"))
    pruning = stores.open(checkpoint_interval=1, **KEEP)
    saving = interposed_store(
        stores.database, once(lambda: save(pruning, "c", parent_id="b", state=state_of("a", "b", "c"))), **KEEP
    )
    state = state_of("a", "b", "x")
    await save(saving, "an older one", parent_id="b", created_at=early.created_at, state=state)
    row = await stores.open().get_snapshot(ANN, "an older one")
    assert row is not None
    assert row.state == state


async def test_a_turn_is_reported_although_its_prune_failed_and_the_next_one_catches_up(stores: Stores) -> None:
    first = await converse(stores.open(), "q1")
    is_down = True

    async def before_commit(writes: Sequence[Write]) -> None:
        if is_pruning(writes) and is_down:
            raise CommitUnansweredError

    store = interposed_store(stores.database, before_commit, **KEEP)
    second = await converse(store, "q2", first.session_id)
    assert await store.get_snapshot(ANN, first.snapshot_id) == first
    is_down = False
    third = await converse(store, "q3", first.session_id)
    ids = [first.snapshot_id, second.snapshot_id, third.snapshot_id]
    assert [await store.get_snapshot(ANN, row_id) for row_id in ids] == [None, None, third]


async def test_a_prune_that_was_cut_short_is_finished_by_the_next_one(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.documents.pruning._MOST_WRITES", 2)
    parent = None
    for n in range(7):
        await save(stores.open(checkpoint_interval=1), f"row{n}", parent_id=parent, state=state_of(f"m{n}"))
        parent = f"row{n}"
    prunes = 0

    async def before_commit(writes: Sequence[Write]) -> None:
        nonlocal prunes
        prunes += is_pruning(writes)
        if is_pruning(writes) and 2 < prunes < 8:  # two commits of the first prune land
            raise CommitUnansweredError

    store = interposed_store(stores.database, before_commit, checkpoint_interval=1, **KEEP)
    await save(store, "row7", parent_id="row6", state=state_of("m7"))
    left = {document.path.id for document in await documents_of(stores.database, Kind.SNAPSHOTS)}
    assert 1 < len(left) <= 8
    await save(store, "row8", parent_id="row7", state=state_of("m8"))
    assert [document.path.id for document in await documents_of(stores.database, Kind.SNAPSHOTS)] == ["row8"]
    assert len(await documents_of(stores.database, Kind.SHARDS)) == 1
