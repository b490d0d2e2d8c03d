"""Runs: where a text is cut, which runs stay the same when it changes, and that checkpoints store the new ones only."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.layout.chain import Ground, Shape, StoragePlan, plan_checkpoint, plan_storage, rebuild
from store.layout.codec import Stored, decode
from store.layout.heads import Footing, plan_head
from store.layout.packing import pack_rows, pack_shards, shard_prefix, unpack_rows, unpack_shards
from store.layout.runs import RUN_SIZE, cut_state
from store.state import Raw, State
from tests.benchmarks.prose import cut_in_order, reference_prose

SHARD = 524_288


def message(number: int, size: int = 900) -> Raw:
    """A message of about `size` bytes, the same one whenever it is asked for."""
    text = "".join(random.Random(number).choices("abcdefghij ", k=size))
    return Raw.of({"id": f"m{number}", "role": "user", "content": [{"text": text}]}, depth=3)


def talk(first: int, count: int) -> State:
    return State.of({}).with_messages(message(number) for number in range(first, first + count))


def fresh(state: State) -> State:
    """The same state, knowing nothing of how it came about."""
    return State.parse(state.text)


def keys(state: State, run_size: int = RUN_SIZE) -> list[bytes]:
    return [cut.key for cut in cut_state(state, run_size, SHARD)]


def texts(state: State, run_size: int = RUN_SIZE, shard_size: int = SHARD) -> list[bytes]:
    return [b"".join(cut.texts) for cut in cut_state(state, run_size, shard_size)]


LONG = talk(0, 800)


def test_the_runs_are_the_text_and_half_to_all_of_their_size() -> None:
    runs = texts(LONG)
    assert b"".join(runs) == LONG.text
    assert all(RUN_SIZE // 2 <= len(run) <= RUN_SIZE for run in runs[:-1])
    assert 12 <= len(runs) <= 24


def test_a_run_ends_behind_a_message() -> None:
    assert all(run.endswith(b"}") and run.startswith((b"{", b",")) for run in texts(LONG))


def test_runs_stay_the_same_when_messages_are_added() -> None:
    before = keys(LONG)
    for added in (1, 2, 50):
        assert keys(talk(0, 800 + added))[: len(before) - 1] == before[:-1]


@pytest.mark.parametrize("dropped", [1, 10, 100, 399])
def test_most_runs_stay_the_same_when_the_head_is_dropped(dropped: int) -> None:
    before, after = keys(LONG), keys(talk(dropped, 800 - dropped))
    assert len(set(after) - set(before)) <= 5


def test_the_runs_behind_a_summary_stay_the_same() -> None:
    assert LONG.messages is not None
    after = keys(LONG.with_messages([message(-1, 2000), *LONG.messages[400:]]))
    assert len(set(after) - set(keys(LONG))) <= 4


def test_an_edited_message_changes_the_runs_around_it_only() -> None:
    assert LONG.messages is not None
    edited = [*LONG.messages[:300], message(-1, 1000), *LONG.messages[301:]]
    assert len(set(keys(LONG.with_messages(edited))) - set(keys(LONG))) <= 4


def test_a_member_behind_the_messages_changes_the_last_run_only() -> None:
    with_note = LONG.with_member("custom", Raw.of({"note": "new"}))
    assert keys(with_note)[:-1] == keys(LONG)[:-1]


def test_a_continued_state_is_cut_as_one_that_was_just_read() -> None:
    """What is remembered of the cuts of the beginning is what cutting it would find."""
    state = State.of({"plan": "trip"}).with_messages([])
    for number in range(0, 400, 40):
        state = state.with_messages([*(state.messages or ()), *(message(each) for each in range(number, number + 40))])
        assert (keys(state), texts(state)) == (keys(fresh(state)), texts(fresh(state)))


def test_two_continuations_of_one_beginning_do_not_take_each_others_cuts() -> None:
    root = talk(0, 100)
    keys(root)
    assert root.messages is not None
    left, right = (
        root.with_messages([*root.messages, *(message(number) for number in range(first, first + 300))])
        for first in (1000, 2000)
    )
    assert keys(left) == keys(fresh(left))
    assert keys(right) == keys(fresh(right))
    assert keys(root) == keys(fresh(root))


def test_what_is_remembered_holds_for_the_same_members_before_the_messages_only() -> None:
    state = State.of({"custom": {"step": 1}}).with_messages(LONG.messages or ())
    keys(state)
    for step in range(3):
        state = state.with_member("custom", Raw.of({"step": step, "notes": "n" * step * 10_000}))
        assert keys(state) == keys(fresh(state))


@settings(deadline=None)  # the larger ones take a while on a busy machine
@given(
    st.lists(st.integers(0, 700), max_size=30),
    st.integers(1, 900),
    st.integers(1, 900),
    st.dictionaries(st.text(max_size=40), st.text(max_size=300), max_size=2),
)
def test_runs_are_the_text_whatever_their_size(
    sizes: list[int], run_size: int, shard_size: int, members: dict[str, str]
) -> None:
    state = State.of(members).with_messages(message(number, size) for number, size in enumerate(sizes))
    runs = texts(state, run_size, shard_size)
    assert b"".join(runs) == state.text
    assert all(len(run) <= max(run_size, shard_size) for run in runs)
    assert texts(state, run_size, shard_size) == runs  # what is remembered now
    assert texts(fresh(state), run_size, shard_size) == runs
    assert keys(state, run_size) == keys(fresh(state), run_size)


def test_a_message_over_the_size_of_a_run_stands_alone() -> None:
    state = State.of({}).with_messages([message(1), message(2, 3 * SHARD), message(3)])
    runs = texts(state)
    assert len(runs) == 6
    assert [len(run) for run in runs[1:4]] == [SHARD] * 3
    assert texts(state) == runs


SHAPE = Shape()


def stored_by(plan: StoragePlan, shards: dict[str, Stored]) -> dict[str, Stored]:
    """The shards once the plan is carried out; an id that is there already would be overwritten."""
    assert not plan.shards.keys() & shards.keys()
    return shards | plan.shards


def read_back(plan: StoragePlan, shards: dict[str, Stored]) -> State:
    runs = [decode(shards[each].codec, shards[each].content, each) for each in plan.chain.shards]
    return rebuild("row", plan.chain, runs, [])


def test_a_checkpoint_stores_only_runs_that_the_one_before_did_not() -> None:
    first = plan_checkpoint(SHAPE, "a", "t", None, LONG)
    longer = talk(0, 850)
    second = plan_checkpoint(SHAPE, "b", "t", first.ground(LONG), longer)
    assert len(second.shards) <= 3
    assert set(first.chain.shards) & set(second.chain.shards) == set(first.chain.shards[:-1])
    assert read_back(second, stored_by(second, stored_by(first, {}))) == longer
    assert second.chain.checkpoint_bytes == sum(run.size for run in second.runs)


def test_a_diff_in_between_hands_the_runs_on() -> None:
    ground = plan_checkpoint(SHAPE, "a", "t", None, LONG).ground(LONG)
    diff = plan_storage(SHAPE, "b", "t", ground, talk(0, 801))
    assert diff.patch is not None
    later = plan_checkpoint(SHAPE, "c", "t", diff.ground(talk(0, 801)), talk(0, 802))
    assert len(later.shards) == 1


def test_a_diff_that_had_to_become_a_checkpoint_shares_runs_too() -> None:
    """A head whose tail is full, and whose state is too large for a base."""
    ground = plan_checkpoint(SHAPE, "a", "t", None, LONG).ground(LONG)
    plan = plan_head(SHAPE, "b", "t", Footing(ground, tail_bytes=131_072), talk(0, 801))
    assert plan.storage.chain.is_checkpoint
    assert len(plan.storage.shards) == 1


def test_without_knowledge_of_the_runs_a_checkpoint_stores_all_of_its_own() -> None:
    known = plan_checkpoint(SHAPE, "a", "t", None, LONG).ground(LONG)
    plan = plan_checkpoint(SHAPE, "b", "t", Ground("a", known.chain, LONG), LONG)
    assert set(plan.shards) == set(plan.chain.shards)


def test_a_run_that_comes_twice_in_one_text_is_stored_once() -> None:
    same = [message(1, 40_000)] * 6
    plan = plan_checkpoint(SHAPE, "a", "t", None, State.of({}).with_messages(same))
    assert len(plan.shards) < len(plan.chain.shards)
    assert read_back(plan, plan.shards).messages == tuple(same)


def test_sharing_can_be_switched_off() -> None:
    shape = Shape(share_runs=False)
    first = plan_checkpoint(shape, "a", "t", None, LONG)
    second = plan_checkpoint(shape, "b", "t", first.ground(LONG), talk(0, 801))
    assert set(second.shards) == set(second.chain.shards)
    assert read_back(second, second.shards) == talk(0, 801)


def test_checkpoints_of_a_growing_conversation_cost_what_it_grew_by() -> None:
    """Forty checkpoints of 25 turns of 2 KiB: little more than the text once, compressed run by run."""
    state, ground, written = State.of({}), None, 0
    texts = list(cut_in_order(reference_prose(), 2000, 1000))
    for start in range(0, 1000, 25):
        added = [Raw.of({"id": f"m{start}-{n}", "text": text}, 3) for n, text in enumerate(texts[start : start + 25])]
        state = state.with_messages([*(state.messages or ()), *added])
        plan = plan_checkpoint(SHAPE, f"row{start}", "t", ground, state)
        ground = plan.ground(state)
        written += sum(len(stored.content) for stored in plan.shards.values())
    once = sum(run.size for run in ground.runs) if ground else 0
    assert written <= 2 * once


UUID = "0b8f2c4e-6a1d-4c3b-9f27-5d8e1a7b3c90"


@pytest.mark.parametrize(
    "ids", [(), (UUID,) * 24, ("a", UUID), ("é" * 700,), (UUID.upper(),), (UUID.replace("-", ""),)]
)
def test_row_ids_come_back_as_they_were(ids: tuple[str, ...]) -> None:
    assert unpack_rows(pack_rows(ids)) == ids


@pytest.mark.parametrize("row", [UUID, "é" * 700])
def test_shard_ids_come_back_as_they_were(row: str) -> None:
    ours = tuple(f"{shard_prefix(row, token)}_{n}" for token in "ab" for n in (0, 1, 2, 5, 5, 6, 300))
    for ids in (ours, (*ours, "checkpoint_0", "checkpoint_1"), (f"{'é' * 700}_0",)):
        assert unpack_shards(pack_shards(ids)) == ids


def test_ids_of_our_own_form_take_few_bytes() -> None:
    assert len(pack_rows((UUID,) * 24)) == 24 * 16 + 2
    assert len(pack_shards(tuple(f"{shard_prefix(UUID, 't')}_{n}" for n in range(100)))) == 9 + 4


@pytest.mark.parametrize(
    "content", [b"", b"\x01", b"\x01\x01abc", b"\x01\x02abc", b"\xff" * 20, b"\x01\x00\x01\xff", b"\x00\x00\x00"]
)
def test_bytes_that_nobody_packed_are_refused(content: bytes) -> None:
    for unpack in (unpack_rows, unpack_shards):
        with pytest.raises(ValueError, match=r"."):
            unpack(content)
