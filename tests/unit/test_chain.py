"""Checkpoints and diffs: which of the two a row becomes, and how its state is put together, or found damaged."""

import random
import string
from collections.abc import Sequence

import pytest

from store.errors import DataLossError
from store.layout.chain import (
    Chain,
    Ground,
    Place,
    Shape,
    StoragePlan,
    cut_runs,
    pack_chain,
    pack_ids,
    plan_storage,
    rebuild,
    unpack_chain,
    unpack_ids,
)
from store.layout.codec import decode
from store.layout.heads import Footing, plan_head
from store.state import Raw, State

SHAPE = Shape()
SMALL = Shape(checkpoint_interval=4, shard_size=500, base_size=300)


def noise(seed: int, size: int) -> str:
    """Text that hardly compresses."""
    return "".join(random.Random(seed).choices(string.ascii_letters, k=size))


def talk(count: int, size: int = 30) -> State:
    """A conversation of so many messages."""
    return State.of(
        {"messages": [{"id": f"m{n}", "text": noise(n, size)} for n in range(count)], "custom": {"n": count}}
    )


def text_of(plan: StoragePlan) -> list[bytes]:
    """The runs that a checkpoint stores, decoded."""
    return [decode(stored.codec, stored.content, shard_id) for shard_id, stored in plan.shards.items()]


def patch_of(plan: StoragePlan) -> bytes:
    assert plan.patch is not None
    return decode(plan.patch.codec, plan.patch.content, "row")


def grown(shape: Shape, turns: int, size: int = 30) -> list[StoragePlan]:
    """The plans of a conversation that grows by two messages a turn."""
    plans: list[StoragePlan] = []
    ground: Ground | None = None
    for n in range(turns):
        state = talk(2 * n + 2, size)
        plans.append(plan_storage(shape, f"row{n}", f"token{n}", ground, state))
        ground = plans[-1].ground(state)
    return plans


def test_a_root_is_a_checkpoint() -> None:
    state = talk(2)
    plan = plan_storage(SHAPE, "row", "token", None, state)
    assert plan.patch is None
    assert plan.chain.is_checkpoint
    assert (plan.chain.checkpoint_id, plan.chain.state_digest) == ("row", state.digest)
    assert list(plan.shards) == list(plan.chain.shards)
    assert rebuild("row", plan.chain, text_of(plan), []) == state


@pytest.mark.parametrize("interval", [1, 2, 3, 25])
def test_every_interval_begins_with_a_checkpoint(interval: int) -> None:
    plans = grown(Shape(checkpoint_interval=interval), 2 * interval + 1)
    assert [plan.chain.is_checkpoint for plan in plans] == [n % interval == 0 for n in range(len(plans))]
    for n, plan in enumerate(plans):
        start = n - n % interval
        assert plan.chain.checkpoint_id == f"row{start}"
        assert plan.chain.segment_path == tuple(f"row{each}" for each in range(start + 1, n + 1))


def test_a_diff_names_its_checkpoints_shards_and_stores_none() -> None:
    first, second = grown(SHAPE, 2)
    assert second.shards == {}
    assert second.chain.shards == first.chain.shards
    state = rebuild("row1", second.chain, text_of(first), [("row1", patch_of(second))])
    assert state.text == talk(4).text


def test_a_patch_over_the_shard_size_becomes_a_checkpoint() -> None:
    plans = grown(Shape(shard_size=500), 2, size=900)
    assert [plan.chain.is_checkpoint for plan in plans] == [True, True]


def test_a_patch_as_large_as_its_checkpoint_becomes_one() -> None:
    small, large = talk(1), State.of({"custom": noise(1, 20_000)})
    ground = plan_storage(SHAPE, "a", "t", None, small).ground(small)
    assert plan_storage(SHAPE, "b", "t", ground, large).chain.is_checkpoint


def test_a_small_first_checkpoint_does_not_turn_every_turn_into_one() -> None:
    state = State.of({})
    ground = plan_storage(SHAPE, "a", "t", None, state).ground(state)
    assert not plan_storage(SHAPE, "b", "t", ground, talk(2)).chain.is_checkpoint


def test_shards_of_different_writers_of_one_row_have_different_ids() -> None:
    plans = [plan_storage(SHAPE, "row", token, None, talk(2)) for token in ("one", "two")]
    assert not set(plans[0].shards) & set(plans[1].shards)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_no_shard_is_larger_than_allowed(size: int) -> None:
    state = State.of({"é🎉": noise(1, 500), "messages": [{"id": "🎉" * 40}]})
    plan = plan_storage(Shape(shard_size=size), "row", "token", None, state)
    stored = text_of(plan)
    assert all(len(run) <= size for run in stored)
    by_id = dict(zip(plan.shards, stored, strict=True))
    assert b"".join(by_id[shard_id] for shard_id in plan.chain.shards) == state.text


def test_runs_join_parts_and_cut_only_what_is_too_long() -> None:
    parts = [b"a" * 30, b"b" * 30, b"c" * 250, b"d" * 50]
    runs = list(cut_runs(iter(parts), 64, 100))
    assert runs == [b"a" * 30 + b"b" * 30, b"c" * 100, b"c" * 100, b"c" * 50, b"d" * 50]
    assert list(cut_runs(iter([]), 64, 100)) == []


@pytest.mark.parametrize("size", [30, 400, 1200, 3000])
def test_checkpoints_that_refer_to_former_runs_are_whole(size: int) -> None:
    """Also where one message takes several shards; each state continues the one before, as a turn does."""
    shape = Shape(checkpoint_interval=1, shard_size=500)
    stored: dict[str, bytes] = {}
    state, ground = State.of({"custom": 1, "messages": []}), None
    for n in range(6):
        state = state.with_messages([*(state.messages or ()), Raw.of({"id": f"m{n}", "text": noise(n, size)}, depth=3)])
        plan = plan_storage(shape, f"row{n}", f"token{n}", ground, state)
        stored |= dict(zip(plan.shards, text_of(plan), strict=True))
        assert rebuild(f"row{n}", plan.chain, [stored[shard_id] for shard_id in plan.chain.shards], []) == state
        ground = plan.ground(state)


def damaged(chain: Chain, runs: Sequence[bytes], patches: Sequence[tuple[str, bytes]]) -> str:
    """The document that is named as damaged."""
    with pytest.raises(DataLossError) as caught:
        rebuild("row", chain, runs, patches)
    return caught.value.document


def test_damage_names_the_document_that_does_not_fit() -> None:
    first, second, third = grown(SHAPE, 3)
    runs, patches = text_of(first), [("row1", patch_of(second)), ("row2", patch_of(third))]
    assert rebuild("row2", third.chain, runs, patches) == talk(6)
    assert damaged(third.chain, runs, patches[:1]) == "row"  # nothing wrong but the sum
    assert damaged(third.chain, runs, [patches[1], patches[0]]) in ("row", "row1", "row2")
    assert damaged(third.chain, [b"[1]"], patches) == "row"
    assert damaged(third.chain, [runs[0][:-5]], patches) == "row"


@pytest.mark.parametrize(
    "patch",
    [
        b"", b"[", b"\xff", b"{}", b"1", b"[1]", b"[{}]", b'[{"op":"add"}]', b'[{"op":1,"path":"/a"}]',
        b'[{"path":"/a"}]', b'[{"op":"add","path":1,"value":1}]', b'[{"op":"add","path":"/a"}]',
        b'[{"op":"remove","path":"/gone"}]',
        b'[{"op":"replace","path":"","value":[]}]', b'[{"op":"replace","path":"","value":NaN}]',
        b'[{"op":"remove","path":"/messages/99"}]', b'[{"op":"spam","path":"/a"}]', b"[" * 100_000,
    ],
    ids=lambda patch: ascii(patch[:40]),
)  # fmt: skip
def test_a_patch_that_cannot_be_applied_is_damage_of_its_document(patch: bytes) -> None:
    plan = plan_storage(SHAPE, "row", "token", None, talk(2))
    assert damaged(plan.chain, text_of(plan), [("the patch", patch)]) == "the patch"


def test_a_chain_is_packed_and_unpacked() -> None:
    for plan in grown(SMALL, 9, size=200):
        own = (plan.chain.checkpoint_id, *plan.chain.segment_path)[-1]
        place = Place("session", own, "parent")
        packed = pack_chain(plan.chain, place, tuple(plan.shards))
        assert unpack_chain("document", place, packed, plan.chain.state_digest) == (plan.chain, tuple(plan.shards))
        for wrong in (packed[:-1], packed + b"x", b"", bytes([packed[0] ^ 1]) + packed[1:]):
            with pytest.raises(DataLossError, match="document"):
                unpack_chain("document", place, wrong, plan.chain.state_digest)
        for other in (Place("session", "other", "parent"), Place("other", own, "parent"), Place("session", own, None)):
            with pytest.raises(DataLossError, match="another snapshot's"):
                unpack_chain("document", other, packed, plan.chain.state_digest)
        with pytest.raises(DataLossError, match="another snapshot's"):
            unpack_chain("document", place, packed, b"\0" * 16)


@pytest.mark.parametrize(
    "ids",
    [
        [],
        ["a_0"],
        ["a_0", "a_1", "a_2"],
        ["a_0", "b_0", "b_1", "a_1"],
        ["a_2", "a_1"],
        ["a__0", "a_b_7"],
        ["é_0", "🎉 /_3"],
    ],
)
def test_ids_are_packed_as_ranges_and_unpacked(ids: list[str]) -> None:
    assert unpack_ids("document", pack_ids(ids)) == tuple(ids)


def test_a_long_run_of_ids_is_one_entry() -> None:
    assert pack_ids([f"row_{n}" for n in range(1000)]) == ["row_0-999"]


@pytest.mark.parametrize("packed", [None, "a_0-1", ["a"], ["a_0"], ["_0-1"], ["a_x-1"], ["a_0-"], ["a_0-200000"], [1]])
def test_damaged_ranges_are_damage_of_their_document(packed: object) -> None:
    with pytest.raises(DataLossError, match="document"):
        unpack_ids("document", packed)


def footing(state: State, **fields: object) -> Footing:
    """A footing on a checkpoint of `state`."""
    ground = plan_storage(SHAPE, "parent", "t", None, state).ground(state)
    return Footing(ground, **fields)  # type: ignore[arg-type]  # each test names fields of its own


def test_a_diff_on_the_head_is_added_to_the_tail() -> None:
    plan = plan_head(SHAPE, "row", "t", footing(talk(2), tail_bytes=10, has_base=True), talk(4))
    [entry] = plan.append["tail"]
    assert plan.fields == {"tailBytes": 10 + len(entry), "hasBase": True}
    assert plan.remove == ()
    assert entry.startswith(b"row\0")


def test_a_checkpoint_writes_a_new_base_and_empties_the_tail() -> None:
    plan = plan_head(SHAPE, "row", "t", Footing(), talk(2))
    assert plan.storage.chain.is_checkpoint
    assert (plan.fields["tail"], plan.fields["tailBytes"], plan.fields["hasBase"]) == ([], 0, True)
    assert plan.append == {}


def test_a_head_that_continues_another_row_writes_a_new_base_beside_its_diff() -> None:
    plan = plan_head(SHAPE, "row", "t", footing(talk(2), parent_is_head=False), talk(4))
    assert plan.storage.patch is not None
    assert plan.fields["hasBase"]
    assert plan.fields["tail"] == []


def test_where_neither_base_nor_tail_fits_the_row_is_a_checkpoint() -> None:
    """A reader then needs the shards besides, and nothing else."""
    large = State.of({"custom": noise(1, 3000)})
    plan = plan_head(SMALL, "row", "t", footing(large, parent_is_head=False), large.with_messages([]))
    assert plan.storage.chain.is_checkpoint
    assert (plan.fields, plan.remove) == ({"tail": [], "tailBytes": 0, "hasBase": False}, ("base",))


def test_a_tail_that_is_full_makes_a_checkpoint_or_a_base() -> None:
    plan = plan_head(SHAPE, "row", "t", footing(talk(2), tail_bytes=131_072, has_base=True), talk(4))
    assert plan.append == {}
    assert plan.fields["tailBytes"] == 0
