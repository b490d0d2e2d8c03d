"""Any size: large messages, patches, errors and ids, and a writer that dies in the middle of a large state."""

import random
import string
from collections.abc import Sequence
from typing import Any

import pytest

from store.database import Committed, Database, Kind, Path, Write
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.models import Outcome, Scope, Snapshot
from store.rules.history import messages_of
from store.state import Raw, State
from tests.contract.soundness import documents_of, raw
from tests.contract.stores import Stores
from tests.contract.turns import (
    ABORTED,
    ANN,
    COMPLETED,
    FAILED,
    aborted,
    answered,
    changed,
    claim,
    claimed,
    completed,
    failed,
    require,
    same_send,
    save,
)

MEBIBYTE = 1 << 20


def noise(seed: int, size: int) -> str:
    """Text that compresses to three quarters."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits + "+/", k=size))


def text(message_id: str, content: str) -> Raw:
    return Raw.of({"id": message_id, "role": "user", "content": [{"text": content}]}, depth=3)


def large(mebibytes: int, of: str = "a word and another, ") -> State:
    """A state of so many messages of a mebibyte."""
    content = of * (MEBIBYTE // len(of))
    return State.of({}).with_messages(text(f"m{number}", f"{number} {content}") for number in range(mebibytes))


async def kind_of(stores: Stores, snapshot_id: str) -> object:
    return (await raw(stores.database, Path(Kind.SNAPSHOTS, ANN.tenant, snapshot_id)))["kind"]


@pytest.mark.parametrize(
    ("added", "kind"),
    [("prose that repeats itself " * 80_660, "diff"), (noise(1, 2 * MEBIBYTE), "checkpoint")],
    ids=["a patch that compresses", "a patch that does not"],
)
async def test_two_mebibytes_more_on_ten_are_a_diff_where_that_fits_into_a_document(
    stores: Stores, added: str, kind: str
) -> None:
    store, before = stores.open(), large(10)
    await save(store, "before", state=before)
    after = before.with_messages([*messages_of(before), text("new", added)])
    await save(store, "after", parent_id="before", state=after)
    assert await kind_of(stores, "after") == kind
    cold = stores.open(cache_size=0)
    assert (await require(cold, "after")).state == after
    assert (await require(cold, "before")).state == before


async def test_a_first_message_of_six_megabytes_is_a_turn_like_any_other(stores: Stores) -> None:
    store, content = stores.open(), noise(2, 6_000_000)
    given = claim("q", text=content)
    lease = await claimed(store, given)
    assert len(await documents_of(stores.database, Kind.SHARDS)) > 8  # what was asked, until the turn ends
    settled = await store.settle_turn(lease, Outcome(COMPLETED, "stop", answered_with(lease.state, given.message)))
    cold = stores.open()
    assert (await require(cold, settled.snapshot_id)).state == settled.state
    again = await same_send(cold, claim("q", text=content))
    assert (again.snapshot_id, again.is_running) == (settled.snapshot_id, False)


def answered_with(state: State, question: Raw | None) -> State:
    assert question is not None
    return state.with_messages([*messages_of(state), question, text("answer", "Hi")])


HUGE = {"status": "INTERNAL", "message": "It broke. " * 10_000, "details": {"trace": [noise(3, 1000)] * 3000}}


async def test_huge_errors_are_cut_and_their_turns_end(stores: Stores) -> None:
    store = stores.open()
    first = await claimed(store, claim("q1"))
    failed = await store.settle_turn(first, Outcome(FAILED, "failed", error=HUGE))
    second = await claimed(store, claim("q2", first.session_id))
    await store.settle_turn(second, Outcome(ABORTED, "aborted", answered(second), error=HUGE))
    await save(store, "saved", session_id=first.session_id, status=FAILED, state=None, error=HUGE)
    for row_id in (failed.snapshot_id, second.snapshot_id, "saved"):
        error = (await require(stores.open(), row_id)).error
        assert error is not None
        assert (error["status"], error["truncated"], "details" in error) == ("INTERNAL", True, False)
        assert str(HUGE["message"]).startswith(error["message"])
        assert 1000 < len(error["message"]) <= 16_384


LONGEST = "é" * 698 + "id__"  # 1,400 bytes
LONG_SCOPE = Scope("acme", "é" * 700)


async def test_ids_of_1400_bytes_are_ids_like_any_other(stores: Stores) -> None:
    """A whole segment of them, a checkpoint at either end, and a turn on top."""
    store, parent, state = stores.open(checkpoint_interval=6), None, State.of({})
    for number in range(8):
        state = state.with_messages([*messages_of(state), text(f"m{number}", "Hello")])
        row_id = f"{LONGEST[:-1]}{number}"
        await save(store, row_id, scope=LONG_SCOPE, session_id=LONGEST, parent_id=parent, state=state)
        parent = row_id
    lease = await claimed(store, claim("q", LONGEST, last_message_id="m7", snapshot_id=LONGEST), LONG_SCOPE)
    settled = await store.settle_turn(lease, completed(lease))
    cold = stores.open()
    assert (await require(cold, str(parent), LONG_SCOPE)).state == state
    assert (await require(cold, LONGEST, LONG_SCOPE)).state == settled.state
    latest = await cold.get_latest_snapshot(LONG_SCOPE, LONGEST)
    assert latest is not None
    assert latest.snapshot_id == LONGEST


class Died(Exception):
    """The process is no more."""


class DyingDatabase:
    """Carries out so many commits, and then no more."""

    def __init__(self, database: Database, commits: int) -> None:
        self._database = database
        self._left = commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def commit(self, writes: Sequence[Write]) -> Committed:
        """The next commit, or the end."""
        if self._left == 0:
            raise Died
        self._left -= 1
        return await self._database.commit(writes)


SMALL_COMMITS = Options(commit_size=65_536, base_size=0, shard_size=30_000)


async def test_a_writer_that_dies_between_commits_leaves_the_old_state(stores: Stores) -> None:
    """A state whose shards take several commits of their own before the one that counts."""
    stores.is_damaged = True  # the shards of the writers that died lie there until the sweep takes them
    store = stores.open()
    old = large(1, "as it was, ")
    await save(store, "old", state=old)
    new = State.of({}).with_messages(text(f"n{number}", noise(number, 30_000)) for number in range(12))
    row = Snapshot("s", parent_id="old", state=new)
    commits = 0
    while True:
        dying: Any = DyingDatabase(stores.database, commits)
        try:
            await DocumentStore(Shelf(dying, SMALL_COMMITS)).save_snapshot(ANN, "new", lambda _: row)
            break
        except Died:
            commits += 1
        await assert_is(stores, old)
    assert commits >= 4
    assert (await require(stores.open(), "new")).state == new
    assert (await require(stores.open(), "old")).state == old


async def test_a_turn_that_dies_between_commits_of_its_settle_leaves_the_old_state(stores: Stores) -> None:
    stores.is_damaged = True
    store = stores.open()
    lease = await claimed(store, claim("q"))
    old = (await store.settle_turn(lease, completed(lease))).state
    lease = await claimed(store, claim("q2", lease.session_id, last_message_id="q-answer"))
    new = answered(lease, noise(9, 300_000))
    dying: Any = DyingDatabase(stores.database, 3)
    with pytest.raises(Died):
        await DocumentStore(Shelf(dying, SMALL_COMMITS)).settle_turn(lease, Outcome(COMPLETED, "stop", new))
    transcript = await stores.open().get_transcript(ANN, lease.session_id)
    assert transcript is not None
    assert (transcript.state, transcript.session.active_snapshot_id) == (old, lease.snapshot_id)
    settled = await store.settle_turn(lease, aborted(lease))
    assert (await require(stores.open(), lease.snapshot_id)).state == settled.state


async def test_a_turn_that_was_taken_over_leaves_nothing_of_a_state_that_was_saved_into_its_row(stores: Stores) -> None:
    store = stores.open(base_size=0, lease_staleness=0.3)
    lost = await claimed(store, claim("q"))
    await store.save_snapshot(ANN, lost.snapshot_id, changed(state=answered(lost, noise(5, 900_000))))
    await stores.wait(0.3)
    await claimed(store, claim("q2", lost.session_id))
    row = await require(stores.open(), lost.snapshot_id)
    assert (row.status, row.state) == (FAILED, None)
    assert await documents_of(stores.database, Kind.SHARDS) == []


@pytest.mark.parametrize("ending", ["completed", "failed"])
async def test_a_settle_leaves_nothing_of_a_state_that_was_saved_into_its_running_row(
    stores: Stores, ending: str
) -> None:
    """A progress save of a long turn: its shards and its patch go, whatever the turn ends with."""
    store = stores.open(base_size=0)
    first = await claimed(store, claim("q"))
    await store.settle_turn(first, completed(first))
    lease = await claimed(store, claim("q2", first.session_id, last_message_id="q-answer"))
    for progress in (answered(lease, noise(5, 900_000)), answered(lease, "small")):
        await store.save_snapshot(ANN, lease.snapshot_id, changed(state=progress))
    outcome = completed(lease) if ending == "completed" else failed()
    settled = await store.settle_turn(lease, outcome)
    row = await require(stores.open(), lease.snapshot_id)
    assert (row.status, row.state) == (settled.status, outcome.state)
    fields = await raw(stores.database, Path(Kind.SNAPSHOTS, ANN.tenant, lease.snapshot_id))
    assert ("chain" in fields, "statePatch" in fields) == (ending == "completed",) * 2


async def assert_is(stores: Stores, old: State) -> None:
    """Every read says that nothing has happened."""
    cold = stores.open()
    assert await cold.get_snapshot(ANN, "new") is None
    latest, transcript = await cold.get_latest_snapshot(ANN, "s"), await cold.get_transcript(ANN, "s")
    assert latest is not None
    assert transcript is not None
    assert (latest.snapshot_id, latest.state, transcript.state) == ("old", old, old)
