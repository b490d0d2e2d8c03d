"""The check of what Genkit's own stores wrote: sound as they wrote it, damage named, nothing ever touched."""

from typing import Any

import pytest

from store.database import SERVER_TIME, Delete, Kind, Path, Put, Update
from store.fsck.check import check
from store.fsck.findings import Finding, Problem
from tests.contract.fsck_steps import NOW, break_documents, dry, everything, problems, row, session, shard_path
from tests.contract.genkit_documents import (
    BEGAN,
    DIALECTS,
    Dialect,
    GenkitRow,
    conversation,
    genkit_row,
    genkit_writes,
)
from tests.contract.soundness import documents_of, raw
from tests.contract.stores import Stores
from tests.contract.turns import claim, claimed, completed, converse, failed

HANGING = {"status": "pending", "finishReason": None, "heartbeatAt": BEGAN}


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Whose documents they are."""
    found: Dialect = request.param
    return found


async def write(stores: Stores, rows: list[GenkitRow], dialect: Dialect = "python", session_id: str = "s") -> None:
    """A conversation in which every fourth row is a checkpoint."""
    for put in genkit_writes(dialect, rows, session_id):
        await break_documents(stores, put)


async def replace(stores: Stores, path: Path, **changes: Any) -> None:
    """Changes fields of a document as Genkit's stores do it: the whole document anew; None drops a field."""
    fields = {**await raw(stores.database, path), **changes}
    await break_documents(stores, Put(path, {name: value for name, value in fields.items() if value is not None}))


async def found_untouched(stores: Stores) -> list[Finding]:
    """What a dry run finds; a repair finds the same and changes nothing."""
    found = await dry(stores, grace=NOW)
    before = await everything(stores)
    assert (await check(stores.database, repair=True, grace=NOW)).unrepaired == found
    assert await everything(stores) == before
    return found


async def test_what_genkit_wrote_is_counted_and_found_to_be_sound(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(6)
    state = rows[-1]["state"]
    broken = genkit_row(6, state, status="failed", finishReason="failed", error={"status": "INTERNAL"})
    await write(stores, [*rows, broken, genkit_row(7, state, **HANGING)], dialect)
    report = await check(stores.database)
    assert (report.findings, report.sessions) == ([], 1)
    assert report.legacy == len(await everything(stores))
    assert await found_untouched(stores) == []


async def test_a_session_that_a_turn_made_ours_is_found_to_be_sound(stores: Stores, dialect: Dialect) -> None:
    await write(stores, conversation(6), dialect)
    store = stores.open(legacy_owner="tenant")
    lease = await claimed(store, claim("q1", "s"))
    assert await dry(stores, grace=NOW) == []
    await store.settle_turn(lease, failed())
    await converse(store, "q2", "s")
    assert await dry(stores, grace=NOW) == []


async def test_a_row_that_names_its_session_only_in_its_state_is_found_to_be_sound(stores: Stores) -> None:
    await write(stores, conversation(6))
    for number in range(6):
        await replace(stores, row(f"row-{number}"), sessionId=None)
    assert await found_untouched(stores) == []
    await break_documents(stores, Delete(shard_path("row-4_0")))
    found = await found_untouched(stores)
    assert (Problem.CHAIN, "snapshots/acme/row-4") in problems(found)
    assert all("nearest readable ancestor is 'row-3'" in finding.reason for finding in found)


async def test_a_row_of_no_session_is_reported(stores: Stores) -> None:
    await write(stores, [genkit_row(0, {"messages": []})])
    await replace(stores, row("row-0"), sessionId=None)
    found = await found_untouched(stores)
    assert problems(found) == [(Problem.DOCUMENT, "snapshots/acme/row-0"), (Problem.POINTER, "pointers/acme/s")]


async def test_a_missing_shard_is_reported_for_every_row_that_needs_it(stores: Stores, dialect: Dialect) -> None:
    await write(stores, conversation(9), dialect)
    await break_documents(stores, Delete(shard_path("row-4_1")))
    found = await found_untouched(stores)
    assert problems(found) == [(Problem.CHAIN, f"snapshots/acme/row-{number}") for number in (4, 5, 6, 7)]
    assert all("shards/acme/row-4_1" in finding.reason for finding in found)
    assert all("nearest readable ancestor is 'row-3'" in finding.reason for finding in found)


async def test_a_missing_diff_is_reported_with_the_nearest_readable_ancestor(stores: Stores) -> None:
    await write(stores, conversation(9))
    await break_documents(stores, Delete(row("row-2")))
    [found] = await found_untouched(stores)
    assert problems([found]) == [(Problem.CHAIN, "snapshots/acme/row-3")]
    assert "snapshots/acme/row-2: the document is missing" in found.reason
    assert "nearest readable ancestor is 'row-1'" in found.reason


@pytest.mark.parametrize("patch", [None, "[1]", '[{"op":"remove","path":"/nowhere"}]', "{"])
async def test_a_patch_that_cannot_be_read_is_reported_for_every_row_after_it(
    stores: Stores, patch: str | None
) -> None:
    await write(stores, conversation(5))
    await replace(stores, row("row-2"), statePatch=patch)
    found = await found_untouched(stores)
    assert problems(found) == [(Problem.CHAIN, "snapshots/acme/row-2"), (Problem.CHAIN, "snapshots/acme/row-3")]
    assert all("nearest readable ancestor is 'row-1'" in finding.reason for finding in found)


async def test_a_row_that_cannot_be_read_is_reported_and_so_are_those_after_it(
    stores: Stores, dialect: Dialect
) -> None:
    await write(stores, conversation(5), dialect)
    await replace(stores, row("row-1"), kind="checkpoint")
    found = problems(await found_untouched(stores))
    assert found == [
        (Problem.DOCUMENT, "snapshots/acme/row-1"),
        (Problem.CHAIN, "snapshots/acme/row-2"),
        (Problem.CHAIN, "snapshots/acme/row-3"),
    ]


async def test_a_missing_checkpoint_is_reported_though_its_shards_can_be_read(stores: Stores) -> None:
    await write(stores, conversation(7))
    await break_documents(stores, Delete(row("row-4")))
    found = await found_untouched(stores)
    assert problems(found) == [(Problem.CHAIN, "snapshots/acme/row-5"), (Problem.CHAIN, "snapshots/acme/row-6")]
    assert "goes on from 'row-4', which is missing" in found[1].reason
    assert "nearest readable ancestor is 'row-5'" in found[1].reason


async def test_a_missing_parent_is_reported(stores: Stores) -> None:
    await write(stores, conversation(5))
    await break_documents(stores, Delete(row("row-3")))
    [found] = await found_untouched(stores)
    assert problems([found]) == [(Problem.CHAIN, "snapshots/acme/row-4")]


WRONG_POINTERS: list[tuple[dict[str, Any], Problem, str]] = [
    ({"currentSnapshotId": "gone"}, Problem.POINTER, "its latest row is 'gone'"),
    ({"currentSnapshotId": None}, Problem.POINTER, "its latest row is none of its rows"),
    ({"currentSnapshotId": 5}, Problem.DOCUMENT, "currentSnapshotId"),
    ({"segmentPath": ["row-1"]}, Problem.POINTER, "chain of 'row-2'"),
    ({"checkpointId": "row-2"}, Problem.POINTER, "chain of 'row-2'"),
    ({"checkpointShardCount": 99}, Problem.POINTER, "chain of 'row-2'"),
]


@pytest.mark.parametrize(("changes", "problem", "reason"), WRONG_POINTERS, ids=str)
async def test_a_wrong_pointer_is_reported(
    stores: Stores, changes: dict[str, Any], problem: Problem, reason: str
) -> None:
    await write(stores, conversation(3))
    await replace(stores, session(), **changes)
    [found] = await found_untouched(stores)
    assert problems([found]) == [(problem, "pointers/acme/s")]
    assert reason in found.reason


async def test_a_missing_session_document_is_reported(stores: Stores) -> None:
    await write(stores, conversation(3))
    await break_documents(stores, Delete(session()))
    assert problems(await found_untouched(stores)) == [(Problem.MISSING_SESSION, "pointers/acme/s")]


async def test_parents_that_lead_to_no_completed_row_are_reported(stores: Stores) -> None:
    await write(stores, conversation(3))
    for name, parent in (("row-2", "row-1"), ("row-1", "row-2")):
        await replace(stores, row(name), status="failed", parentId=parent)
    [found] = await found_untouched(stores)
    assert problems([found]) == [(Problem.POINTER, "pointers/acme/s")]
    assert "round in a circle" in found.reason
    await replace(stores, row("row-1"), parentId="gone")
    assert problems(await found_untouched(stores)) == [
        (Problem.CHAIN, "snapshots/acme/row-1"),
        (Problem.POINTER, "pointers/acme/s"),
    ]


async def test_the_nearest_ancestor_of_a_row_of_ours_may_be_genkit_s(stores: Stores) -> None:
    await write(stores, conversation(3))
    store = stores.open(legacy_owner="tenant")
    lease = await claimed(store, claim("q", "s"))
    await store.settle_turn(lease, completed(lease))
    ours = [
        document for document in await documents_of(stores.database, Kind.SHARDS) if "formatVersion" in document.fields
    ]
    await break_documents(stores, *(Delete(document.path) for document in ours))
    found = [finding for finding in await dry(stores) if finding.problem is Problem.CHAIN]
    assert len(found) == 2
    assert all("nearest readable ancestor is 'row-2'" in finding.reason for finding in found)


async def test_a_session_of_ours_that_genkit_has_written_over_is_reported(stores: Stores) -> None:
    """Its stores write whole documents, whatever is there; the rows of ours are still checked."""
    rows = conversation(3)
    await write(stores, rows)
    ours = await converse(stores.open(legacy_owner="tenant"), "q", "s")
    await break_documents(stores, genkit_writes("python", rows)[-1])
    [found] = await found_untouched(stores)
    assert problems([found]) == [(Problem.POINTER, "pointers/acme/s")]
    assert "Genkit has written it over ours" in found.reason
    await break_documents(stores, Update(row(ours.snapshot_id), {"statePatch": b"[]"}))
    assert (Problem.CHAIN, f"snapshots/acme/{ours.snapshot_id}") in problems(await found_untouched(stores))


async def test_ids_that_ours_refuses_are_reported(stores: Stores) -> None:
    """Such a session cannot be asked for: what is wrong with it is told from the first look."""
    await write(stores, conversation(2, "a\tb"), session_id="a\tb")
    refused = [
        (Problem.ID, "pointers/acme/a\tb"),
        (Problem.ID, "snapshots/acme/row-0"),
        (Problem.ID, "snapshots/acme/row-1"),
    ]
    assert problems(await found_untouched(stores)) == refused
    await replace(stores, row("row-1"), parentId="__up__")
    found = await found_untouched(stores)
    assert problems(found) == [*refused, (Problem.ID, "snapshots/acme/row-1"), (Problem.CHAIN, "snapshots/acme/row-1")]
    assert [finding.reason.split(" must")[0] for finding in found[:4]] == [
        "its name",
        "sessionId",
        "sessionId",
        "parentId",
    ]


async def test_a_deletion_of_a_session_that_was_genkit_s_is_finished_to_the_last_shard(stores: Stores) -> None:
    await write(stores, conversation(5))
    await converse(stores.open(legacy_owner="tenant"), "q", "s")
    await break_documents(stores, Update(session(), {"deleting": True, "updatedAt": SERVER_TIME}))
    report = await check(stores.database, repair=True, grace=NOW)
    assert {finding.problem for finding in report.findings} == {Problem.DELETION}
    assert await everything(stores) == {}


async def test_a_row_that_genkit_writes_between_two_looks_is_no_finding(stores: Stores) -> None:
    """The first look reads the pointers before the rows and shards."""
    rows = conversation(2)
    writes = genkit_writes("python", rows)
    first = [put for put in writes if put.path.id.startswith("row-0")]
    later = [put for put in writes if put not in first]
    await break_documents(stores, *first, genkit_writes("python", rows[:1])[-1])

    class Writing:
        """A database in which Genkit goes on once the pointers have been read."""

        def __getattr__(self, name: str) -> Any:
            return getattr(stores.database, name)

        async def query(self, query: Any) -> Any:
            found = await stores.database.query(query)
            if query.kind is Kind.POINTERS and later:
                await stores.database.commit([later.pop() for _ in range(len(later))])
            return found

    report = await check(Writing())
    assert (report.findings, later) == ([], [])
