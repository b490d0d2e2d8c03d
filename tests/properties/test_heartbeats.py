"""All turns of an instance beat in one call, and none of them pays for another one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from store.database import Condition, Database, Delete, Kind, Query
from store.documents.shelf import Options, Shelf, row_path
from store.documents.store import DocumentStore
from store.file.database import FileDatabase
from store.firestore.calls import Calls
from store.firestore.database import FirestoreDatabase
from store.memory.database import MemoryDatabase
from store.models import Beat, Lease
from tests.properties.plain_turns import ADA, claim, claimed

TURNS = 200
TURNS_IN_FILES = 40  # each claim waits for the disk
ABORTED, DELETED = 17, 31


class Setup(NamedTuple):
    """An instance, the documents behind it, how many turns it is to have, and its calls where they are counted."""

    store: DocumentStore
    database: Database
    turns: int
    calls: Calls | None


@pytest.fixture(params=["memory", "file", "firestore"])
async def setup(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Setup]:
    opened = _open(request, tmp_path)
    yield opened
    await opened.database.close()


def _open(request: pytest.FixtureRequest, directory: Path) -> Setup:
    calls = Calls() if request.param == "firestore" else None
    database: Database
    if request.param == "memory":
        database = MemoryDatabase()
    elif request.param == "file":
        database = FileDatabase(directory, poll_interval=0)
    else:
        host, project = request.getfixturevalue("emulator_host"), request.getfixturevalue("project_id")
        database = FirestoreDatabase(project, emulator_host=host, calls=calls)
    turns = TURNS_IN_FILES if request.param == "file" else TURNS
    return Setup(DocumentStore(Shelf(database, Options())), database, turns, calls)


async def many_leases(setup: Setup) -> list[Lease]:
    return [await claimed(setup.store, claim(f"m{number}")) for number in range(setup.turns)]


async def beats_at(database: Database) -> dict[str, object]:
    """When each row's owner beat last."""
    running = Query(Kind.SNAPSHOTS, ADA.tenant, (Condition("ownerId", "==", ADA.user),), mask=("heartbeatAt",))
    found = await database.query(running)
    return {document.path.id: document.fields["heartbeatAt"] for document in found.documents}


async def test_two_hundred_turns_beat_in_one_call(setup: Setup) -> None:
    leases = await many_leases(setup)
    before = await beats_at(setup.database)
    start = setup.calls.snapshot() if setup.calls else None
    assert await setup.store.heartbeat(leases) == [Beat.ALIVE] * setup.turns
    if setup.calls and start:
        tally = setup.calls.since(start)
        assert (tally.rpcs, tally.read, tally.written) == ({"BatchWrite": 1}, 0, setup.turns)
    after = await beats_at(setup.database)
    assert all(after[lease.snapshot_id] != before[lease.snapshot_id] for lease in leases)


async def test_an_aborted_and_a_deleted_row_cost_the_others_no_beat(setup: Setup) -> None:
    leases = await many_leases(setup)
    await DocumentStore(Shelf(setup.database)).abort_turn(ADA, leases[ABORTED].snapshot_id)
    await setup.database.commit([Delete(row_path(ADA, leases[DELETED].snapshot_id))])
    before = await beats_at(setup.database)
    start = setup.calls.snapshot() if setup.calls else None
    expected = [Beat.ALIVE] * setup.turns
    expected[ABORTED], expected[DELETED] = Beat.ABORTING, Beat.LOST
    assert await setup.store.heartbeat(leases) == expected
    if setup.calls and start:
        tally = setup.calls.since(start)
        assert (tally.rpcs, tally.read, tally.written) == (
            {"BatchWrite": 1, "BatchGetDocuments": 1},
            2,
            setup.turns - 2,
        )
    after = await beats_at(setup.database)
    alive = [lease.snapshot_id for lease, beat in zip(leases, expected, strict=True) if beat is Beat.ALIVE]
    assert all(after[row_id] != before[row_id] for row_id in alive)


async def test_the_beat_after_an_abort_was_noticed_is_one_call_again(setup: Setup) -> None:
    leases = [await claimed(setup.store, claim(f"m{number}")) for number in range(3)]
    await DocumentStore(Shelf(setup.database)).abort_turn(ADA, leases[1].snapshot_id)
    await setup.store.heartbeat(leases)
    start = setup.calls.snapshot() if setup.calls else None
    assert await setup.store.heartbeat(leases) == [Beat.ALIVE, Beat.ABORTING, Beat.ALIVE]
    if setup.calls and start:
        assert setup.calls.since(start).rpcs == {"BatchWrite": 1}
