"""Damaged sessions: what the check says of them, what a repair does, and that it neither invents nor drops a state."""

import pytest

from store.database import Create, Delete, Kind, Path, Update
from store.fsck.check import check
from store.fsck.findings import Problem
from tests.contract.fsck_steps import (
    NOW,
    break_documents,
    dry,
    everything,
    problems,
    repaired,
    row,
    save_chain,
    session,
    shard_of,
    shard_path,
)
from tests.contract.soundness import documents_of, raw
from tests.contract.stores import Stores
from tests.contract.turns import (
    ANN,
    converse,
    require,
    save,
    state_of,
)


async def test_a_wrong_latest_row_is_found_and_corrected(stores: Stores) -> None:
    await save_chain(stores.open(), *"ab")
    await break_documents(stores, Update(session(), {"currentSnapshotId": "a"}))
    assert problems(await dry(stores)) == [(Problem.POINTER, "pointers/acme/s")]
    await repaired(stores)
    latest = await stores.open().get_latest_snapshot(ANN, "s")
    assert latest is not None
    assert latest.snapshot_id == "b"


async def test_a_head_that_contradicts_its_row_is_corrected(stores: Stores) -> None:
    await save_chain(stores.open(), *"ab")
    head = {**(await raw(stores.database, session()))["head"], "status": "aborted"}  # type: ignore[dict-item]  # a map
    await break_documents(stores, Update(session(), {"head": head}))
    assert problems(await dry(stores)) == [(Problem.POINTER, "pointers/acme/s")]
    await repaired(stores)
    transcript = await stores.open().get_transcript(ANN, "s")
    assert transcript is not None
    assert transcript.state == state_of("a", "b")


@pytest.mark.parametrize("base_size", [0, 131_072])
async def test_a_wrong_copy_is_dropped_and_made_anew_by_the_next_head(stores: Stores, base_size: int) -> None:
    options = {"base_size": base_size}
    await save_chain(stores.open(**options), *"abc")
    tail = (await raw(stores.database, session()))["tail"]
    assert isinstance(tail, list)
    await break_documents(stores, Update(session(), {"tail": tail[:-1]}))
    assert problems(await dry(stores)) == [(Problem.COPY, "pointers/acme/s")]
    await repaired(stores)
    cold = stores.open(**options)
    transcript = await cold.get_transcript(ANN, "s")
    assert transcript is not None
    assert transcript.state == state_of("a", "b", "c")
    await save(cold, "d", parent_id="c", state=state_of("a", "d"))
    await save(cold, "e", parent_id="d", state=state_of("a", "e"))
    stores.is_damaged = False
    assert await dry(stores) == []


async def test_a_copy_whose_base_is_gone_is_dropped(stores: Stores) -> None:
    await save_chain(stores.open(), *"ab")
    await break_documents(stores, Update(session(), remove=("base",)))
    assert problems(await dry(stores)) == [(Problem.COPY, "pointers/acme/s")]
    await repaired(stores)


async def test_a_damaged_chain_is_reported_with_its_nearest_readable_ancestor(stores: Stores) -> None:
    await save_chain(stores.open(), *"abcd")
    await break_documents(stores, Update(row("c"), {"statePatch": b"[]"}))
    found = await dry(stores)
    assert problems(found) == [(Problem.CHAIN, "snapshots/acme/c"), (Problem.CHAIN, "snapshots/acme/d")]
    assert all("nearest readable ancestor is 'b'" in finding.reason for finding in found)
    before = await everything(stores)
    assert len((await check(stores.database, repair=True)).unrepaired) == 2
    assert await everything(stores) == before


async def test_a_missing_shard_is_reported_for_every_row_that_needs_it(stores: Stores) -> None:
    await save_chain(stores.open(), *"ab")
    shard = (await documents_of(stores.database, Kind.SHARDS))[0]
    await break_documents(stores, Delete(shard.path))
    found = await dry(stores)
    assert [problem for problem, _ in problems(found)] == [Problem.CHAIN, Problem.CHAIN]
    assert all(shard.path.id in finding.reason and "no ancestor" in finding.reason for finding in found)


async def test_a_row_that_cannot_be_read_is_reported_and_nothing_is_concluded_from_it(stores: Stores) -> None:
    await save_chain(stores.open(), *"ab")
    await break_documents(stores, Update(row("b"), {"status": "done"}), Create(shard_path("x"), shard_of("x", "s")))
    found = await dry(stores, grace=NOW)
    assert (Problem.DOCUMENT, "snapshots/acme/b") in problems(found)
    assert all(finding.repair is None for finding in found)


async def test_a_lost_session_document_is_rebuilt_from_its_rows(stores: Stores) -> None:
    store = stores.open()
    first = await converse(store, "q1")
    second = await converse(store, "q2", first.session_id)
    log = Create(Path(Kind.STREAMS, "acme", f"{second.snapshot_id}_0"), shard_of("log", first.session_id))
    await break_documents(stores, Delete(session(first.session_id)), log)
    assert problems(await dry(stores)) == [(Problem.MISSING_SESSION, f"pointers/acme/{first.session_id}")]
    await repaired(stores)
    cold = stores.open()
    assert await cold.get_latest_snapshot(ANN, first.session_id) == second
    third = await converse(cold, "q3", first.session_id)
    assert (await require(stores.open(), third.snapshot_id)).state == third.state
    stores.is_damaged = False
    assert await dry(stores) == []


async def test_a_session_document_that_cannot_be_read_is_rebuilt_with_what_it_still_says(stores: Stores) -> None:
    store = stores.open()
    first = await converse(store, "q1")
    await store.update_session(ANN, first.session_id, title="Plans")
    await break_documents(stores, Update(session(first.session_id), {"createdAt": "yesterday", "head": 7}))
    found = problems(await dry(stores))
    assert found == [
        (Problem.DOCUMENT, f"pointers/acme/{first.session_id}"),
        (Problem.POINTER, f"pointers/acme/{first.session_id}"),
    ]
    await check(stores.database, repair=True)
    assert await dry(stores) == []
    again = await stores.open().get_session(ANN, first.session_id)
    assert again is not None
    assert (again.title, again.agent, again.head_snapshot_id) == ("Plans", "echo", first.snapshot_id)


async def test_a_head_whose_row_is_gone_is_replaced_only_once_no_copy_of_it_is_left(stores: Stores) -> None:
    await save_chain(stores.open(), *"abc")
    await break_documents(stores, Delete(row("c")))
    found = await dry(stores)
    assert problems(found) == [(Problem.POINTER, "pointers/acme/s"), (Problem.POINTER, "pointers/acme/s")]
    assert [finding.repair for finding in found] == ["name 'b'", None]
    await break_documents(stores, Update(session(), remove=("base", "tail")))
    await repaired(stores)
    transcript = await stores.open().get_transcript(ANN, "s")
    assert transcript is not None
    assert transcript.state == state_of("a", "b")
