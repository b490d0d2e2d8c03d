"""A writer that dies, or is replaced, in the middle of a large state: the old state stands, and nothing is left."""

from collections.abc import Sequence
from typing import Any

import pytest

from store.conformance.harness import Stores
from store.conformance.interposed import store_on
from store.conformance.sizes import large, noise, text
from store.conformance.soundness import documents_of, raw
from store.conformance.turns import (
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
    save,
)
from store.database import Committed, Database, Kind, Path, Write
from store.models import Outcome, Snapshot
from store.state import State


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


SMALL_COMMITS = {"commit_size": 65_536, "base_size": 0, "shard_size": 30_000}


async def assert_is(stores: Stores, old: State) -> None:
    """Every read says that nothing has happened."""
    cold = stores.open()
    assert await cold.get_snapshot(ANN, "new") is None
    latest, transcript = await cold.get_latest_snapshot(ANN, "s"), await cold.get_transcript(ANN, "s")
    assert latest is not None
    assert transcript is not None
    assert (latest.snapshot_id, latest.state, transcript.state) == ("old", old, old)


class InterruptionCases:
    """Between the commits of one write."""

    async def test_a_writer_that_dies_between_commits_leaves_the_old_state(self, stores: Stores) -> None:
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
                await store_on(dying, **SMALL_COMMITS).save_snapshot(ANN, "new", lambda _: row)
                break
            except Died:
                commits += 1
            await assert_is(stores, old)
        assert commits >= 4
        assert (await require(stores.open(), "new")).state == new
        assert (await require(stores.open(), "old")).state == old

    async def test_a_turn_that_dies_between_commits_of_its_settle_leaves_the_old_state(self, stores: Stores) -> None:
        stores.is_damaged = True
        store = stores.open()
        lease = await claimed(store, claim("q"))
        old = (await store.settle_turn(lease, completed(lease))).state
        lease = await claimed(store, claim("q2", lease.session_id, last_message_id="q-answer"))
        new = answered(lease, noise(9, 300_000))
        dying: Any = DyingDatabase(stores.database, 3)
        with pytest.raises(Died):
            await store_on(dying, **SMALL_COMMITS).settle_turn(lease, Outcome(COMPLETED, "stop", new))
        transcript = await stores.open().get_transcript(ANN, lease.session_id)
        assert transcript is not None
        assert (transcript.state, transcript.session.active_snapshot_id) == (old, lease.snapshot_id)
        settled = await store.settle_turn(lease, aborted(lease))
        assert (await require(stores.open(), lease.snapshot_id)).state == settled.state

    async def test_a_turn_that_was_taken_over_leaves_nothing_of_a_state_that_was_saved_into_its_row(
        self, stores: Stores
    ) -> None:
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
        self, stores: Stores, ending: str
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
