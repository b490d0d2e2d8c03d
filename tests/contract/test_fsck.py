"""The check: what is sound, what is counted, what is left over, and what it must not touch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from store.conformance.chains import noise
from store.database import SERVER_TIME, Create, Delete, Kind, Path, Update
from store.fsck.check import check
from store.fsck.findings import Problem
from store.models import Snapshot
from tests.contract.fsck_steps import (
    NOW,
    break_documents,
    dry,
    everything,
    problems,
    repaired,
    save_chain,
    session,
    shard_of,
    shard_path,
)
from tests.contract.soundness import documents_of
from tests.contract.stores import Stores
from tests.contract.turns import (
    ANN,
    COMPLETED,
    ELSEWHERE,
    claim,
    claimed,
    completed,
    converse,
    failed,
    save,
    state_of,
)


async def test_whatever_the_store_wrote_is_found_to_be_sound(stores: Stores) -> None:
    store = stores.open(checkpoint_interval=3)
    await save_chain(store, *"abcdefg")
    await save(store, "sibling", parent_id="c", state=state_of("a", "x"))
    first = await converse(store, "q1")
    await converse(store, "q2", first.session_id)
    lease = await claimed(store, claim("q3", first.session_id, last_message_id="q2-answer"))
    await store.settle_turn(lease, failed())
    await store.truncate(ANN, first.session_id, "q2")
    await store.branch(ANN, first.session_id, "q1-answer")
    await claimed(store, claim("q4", first.session_id, last_message_id="q1-answer"))
    await converse(store, "q1", scope=ELSEWHERE)
    assert await dry(stores, grace=NOW) == []


async def test_a_pruned_chain_is_found_to_be_sound(stores: Stores) -> None:
    await save_chain(stores.open(max_persisted_chain_length=2, checkpoint_interval=5), *"abcdefgh")
    assert await dry(stores, grace=NOW) == []


async def test_every_document_is_counted_and_reported_as_progress(stores: Stores) -> None:
    await save_chain(stores.open(checkpoint_interval=2), *"abc")
    await converse(stores.open(), "q", scope=ELSEWHERE)
    seen: dict[Kind, int] = {}

    def on_progress(progress: Any) -> None:
        seen[progress.kind] = progress.documents

    report = await check(stores.database, on_progress=on_progress)
    stored = {kind: len(await documents_of(stores.database, kind)) for kind in seen}
    assert (seen, dict(report.documents), report.sessions) == (stored, stored, 2)
    assert stored[Kind.SNAPSHOTS] == 4


async def test_a_check_of_one_tenant_looks_at_no_other(stores: Stores) -> None:
    await save_chain(stores.open(), "a")
    await break_documents(stores, Update(session(), {"currentSnapshotId": "nobody"}))
    assert await dry(stores, tenant="other") == []
    assert problems(await dry(stores, tenant="acme")) == [(Problem.POINTER, "pointers/acme/s")]


@pytest.mark.parametrize("ended", [False, True])
async def test_a_session_that_names_a_turn_which_does_not_run_is_released(stores: Stores, ended: bool) -> None:
    store = stores.open()
    first = await converse(store, "q1")
    named = first.snapshot_id if ended else "nobody"
    await break_documents(stores, Update(session(first.session_id), {"activeSnapshotId": named}))
    assert problems(await dry(stores)) == [(Problem.LEASE, f"pointers/acme/{first.session_id}")]
    await repaired(stores)


async def test_a_running_row_that_no_session_names_is_settled_once_it_is_old(stores: Stores) -> None:
    store = stores.open()
    first = await converse(store, "q1")
    lease = await claimed(store, claim("q2", first.session_id, last_message_id="q1-answer"))
    await break_documents(stores, Update(session(first.session_id), remove=("activeSnapshotId", "claimedAt", *MESSAGE)))
    found = await dry(stores)
    assert problems(found) == [(Problem.LEASE, f"snapshots/acme/{lease.snapshot_id}")]
    assert found[0].repair is None
    await repaired(stores, grace=NOW)


MESSAGE = ("activeMessageId", "activeMessageDigest")


@pytest.mark.parametrize("size", [10, 600_000])  # a request that lies in its row, or in shards of it
async def test_a_turn_is_no_finding(stores: Stores, size: int) -> None:
    store = stores.open()
    lease = await claimed(store, claim("q", text=noise(1, size)))
    assert bool(await documents_of(stores.database, Kind.SHARDS)) is (size > 100)
    assert await dry(stores, grace=NOW) == []
    await store.settle_turn(lease, completed(lease))
    assert await dry(stores, grace=NOW) == []


async def test_orphaned_shards_are_deleted_once_they_are_old(stores: Stores) -> None:
    await save_chain(stores.open(), "a")
    for shard_id, session_id in (("x", "s"), ("y", "nobody's")):
        await break_documents(stores, Create(shard_path(shard_id), shard_of(shard_id, session_id)))
    found = await dry(stores)
    assert sorted(problems(found)) == [(Problem.ORPHAN, "shards/acme/x"), (Problem.ORPHAN, "shards/acme/y")]
    assert [finding.repair for finding in found] == [None, None]
    await repaired(stores, grace=NOW)
    stores.is_damaged = False


async def test_rows_without_state_of_a_missing_session_are_deleted_once_they_are_old(stores: Stores) -> None:
    store = stores.open()
    lease = await claimed(store, claim("q"))
    await store.settle_turn(lease, failed())
    await break_documents(stores, Delete(session(lease.session_id)))
    found = await dry(stores)
    assert problems(found) == [(Problem.ORPHAN, f"snapshots/acme/{lease.snapshot_id}")]
    assert found[0].repair is None
    await repaired(stores, grace=NOW)


async def test_a_deletion_that_was_cut_short_is_finished(stores: Stores) -> None:
    await save_chain(stores.open(checkpoint_interval=2), *"abc")
    await break_documents(stores, Update(session(), {"deleting": True, "updatedAt": SERVER_TIME}))
    found = await dry(stores)
    assert {finding.problem for finding in found} == {Problem.DELETION}
    assert all(finding.repair is None for finding in found)
    await repaired(stores, grace=NOW)
    assert await everything(stores) == {}


@pytest.mark.parametrize("kind", [Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS])
async def test_documents_of_another_format_are_reported_and_never_touched(stores: Stores, kind: Kind) -> None:
    strange = {"formatVersion": 2, "sessionId": "s2", "id": "s2", "snapshotId": "s2", "ownerId": "ann"}
    await break_documents(stores, Create(Path(kind, "acme", "s2"), strange))
    assert problems(await dry(stores)) == [(Problem.FORMAT, f"{kind.value}/acme/s2")]
    before = await everything(stores)
    await check(stores.database, repair=True, grace=NOW)
    assert await everything(stores) == before


async def test_a_session_that_changes_between_two_looks_is_judged_by_what_it_is_then(stores: Stores) -> None:
    """The pointers are read before the rows: a turn that settles in between looks like a contradiction at first."""
    store = stores.open()
    first = await converse(store, "q1")
    state = {"done": False}

    def on_progress(progress: Any) -> None:
        state["done"] = progress.kind is Kind.POINTERS

    turning = _Turning(stores, lambda: state["done"], first)
    report = await check(turning, on_progress=on_progress)
    assert turning.turned is not None
    assert turning.turned.status is COMPLETED
    assert report.findings == []


class _Turning:
    """A database in which a turn runs as soon as the pointers have been read."""

    def __init__(self, stores: Stores, is_time: Callable[[], bool], first: Snapshot) -> None:
        self._stores = stores
        self._is_time = is_time
        self._first = first
        self.turned: Snapshot | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stores.database, name)

    async def query(self, query: Any) -> Any:
        """As the database's, perhaps after a turn."""
        if self._is_time() and self.turned is None:
            self.turned = await converse(self._stores.open(), "q2", self._first.session_id)
        return await self._stores.database.query(replace(query))
