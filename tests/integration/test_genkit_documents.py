"""Sessions that Genkit's real packages wrote into Firestore are read and continued by our store, in the same place."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from store.database import Delete, Kind, Update
from store.database import Path as DocumentPath
from store.documents.shelf import shard_path
from store.documents.store import DocumentStore
from store.firestore.database import FirestoreDatabase
from store.firestore.store import FirestoreStore
from store.fsck.check import check
from store.fsck.findings import Problem
from store.models import SnapshotStatus
from store.state import State
from tests.contract.genkit_documents import BEGAN, TENANT, GenkitRow, conversation, genkit_row
from tests.contract.turns import ANN, converse
from tests.genkit.packages import NODE_FOLDER, PYTHON_FOLDER, run_script

INTERVAL = 5
AWKWARD = {
    "": 1,
    "a/b": {"~": [None, False, 1.5, -0.25, 12345678901]},
    "text": "schön 日本 🙂\n\u2028",
    "deep": {"x": {}},
}


def rows_to_write() -> dict[str, list[GenkitRow]]:
    """A long conversation, one with an awkward state, one whose last turns failed and hang."""
    long = conversation(12, "long")
    awkward = [genkit_row(n, {"sessionId": "odd", "messages": [], "custom": {**AWKWARD, "n": n}}) for n in range(3)]
    state = {"sessionId": "ends", "messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
    broken = {"status": "INTERNAL", "message": "broke", "details": {"why": "no reason"}}
    ends = [
        genkit_row(0, state),
        genkit_row(1, state, status="failed", finishReason="failed", error=broken),
        genkit_row(2, state, status="pending", finishReason=None, heartbeatAt=BEGAN),
    ]
    return {"long": _spelled(long, "long"), "odd": _spelled(awkward, "odd"), "ends": _spelled(ends, "ends")}


def _spelled(rows: list[GenkitRow], session_id: str) -> list[GenkitRow]:
    """The rows as JSON, their ids their session's own."""
    spelled = []
    for row in rows:
        made: dict[str, Any] = {**row, "sessionId": session_id, "snapshotId": f"{session_id}-{row['snapshotId']}"}
        if "parentId" in row:
            made["parentId"] = f"{session_id}-{row['parentId']}"
        for name in ("createdAt", "heartbeatAt"):
            if name in row:
                made[name] = row[name].isoformat(timespec="milliseconds").replace("+00:00", "Z")
        spelled.append(made)
    return spelled


@pytest.fixture(
    params=[
        pytest.param(PYTHON_FOLDER / "write_sessions.py", id="python", marks=pytest.mark.genkit),
        pytest.param(NODE_FOLDER / "write_sessions.mjs", id="javascript", marks=pytest.mark.node),
    ]
)
def found(request: pytest.FixtureRequest, emulator_host: str, project_id: str) -> dict[str, Any]:
    """What Genkit's own store reads of the conversations that it has written."""
    script: Path = request.param
    environ = {"FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    read: dict[str, Any] = run_script(script, {"interval": INTERVAL, "conversations": rows_to_write()}, environ)
    return read


@pytest.fixture
async def store(emulator_host: str, project_id: str) -> AsyncIterator[DocumentStore]:
    """Our store on the same documents."""
    opened = FirestoreStore(project_id, emulator_host=emulator_host, legacy_owner="tenant")
    yield opened
    await opened.close()


def value_of(state: State | None) -> Any:
    return None if state is None else state.value()


@pytest.mark.timeout(900)
async def test_every_snapshot_reads_as_genkit_reads_it(found: dict[str, Any], store: DocumentStore) -> None:
    assert ANN.tenant == TENANT
    for row in (row for rows in rows_to_write().values() for row in rows):
        theirs = found[row["snapshotId"]]
        ours = await store.get_snapshot(ANN, row["snapshotId"])
        assert ours is not None
        assert (ours.session_id, ours.parent_id) == (theirs["sessionId"], theirs.get("parentId"))
        assert (ours.finish_reason, ours.error) == (theirs.get("finishReason"), theirs.get("error"))
        if theirs["status"] != "pending":  # ours has no state while a turn runs
            assert (ours.status, value_of(ours.state)) == (theirs["status"], theirs["state"])


@pytest.mark.timeout(900)
async def test_the_latest_snapshot_is_the_same(found: dict[str, Any], store: DocumentStore) -> None:
    for session_id in ("long", "odd"):
        ours = await store.get_latest_snapshot(ANN, session_id)
        assert ours is not None
        assert ours.snapshot_id == found[session_id]["snapshotId"]
        assert value_of(ours.state) == found[session_id]["state"]
    hanging = await store.get_latest_snapshot(ANN, "ends")
    assert hanging is not None
    assert (hanging.snapshot_id, hanging.status) == (found["ends"]["snapshotId"], SnapshotStatus.EXPIRED)


@pytest.mark.timeout(900)
async def test_a_turn_of_ours_continues_each_session(found: dict[str, Any], store: DocumentStore) -> None:
    continued = {"long": "long-row-11", "odd": "odd-row-2", "ends": "ends-row-0"}
    for session_id, head in continued.items():
        settled = await converse(store, f"next-{session_id}", session_id)
        before = found[head]["state"]
        assert settled.state is not None
        assert settled.state.value()["messages"][: len(before["messages"])] == before["messages"]
        assert settled.state.get("custom") == before.get("custom")
        assert [session.id for session in (await store.list_sessions(ANN, 1)).sessions] == [session_id]


@pytest.fixture
async def database(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    """The documents."""
    opened = FirestoreDatabase(project_id, emulator_host=emulator_host)
    yield opened
    await opened.close()


@pytest.mark.timeout(900)
async def test_the_check_finds_them_sound_and_names_what_is_damaged(
    found: dict[str, Any], database: FirestoreDatabase
) -> None:
    report = await check(database)
    assert (report.findings, report.sessions) == ([], len(rows_to_write()))
    assert report.legacy == sum(report.documents.values()) > len(found)
    await database.commit(
        [
            Delete(shard_path(TENANT, "odd-row-0_0")),
            Delete(DocumentPath(Kind.SNAPSHOTS, TENANT, "long-row-7")),
            Update(DocumentPath(Kind.POINTERS, TENANT, "ends"), {"currentSnapshotId": "gone"}),
        ]
    )
    findings = {str(finding.document): finding for finding in (await check(database, repair=True)).findings}
    assert {name: finding.problem for name, finding in findings.items()} == {
        **{f"snapshots/{TENANT}/odd-row-{number}": Problem.CHAIN for number in range(3)},
        **{f"snapshots/{TENANT}/long-row-{number}": Problem.CHAIN for number in (8, 9)},
        f"pointers/{TENANT}/ends": Problem.POINTER,
    }
    assert "nearest readable ancestor is 'long-row-6'" in findings[f"snapshots/{TENANT}/long-row-9"].reason
    assert not any(finding.is_repaired for finding in findings.values())
