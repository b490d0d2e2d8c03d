"""Erasure as somebody else sees it: the emulator's export of the whole database no longer knows the user."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path as Directory

import pytest

from functions.cli.main import main
from store.firestore.store import FirestoreStore
from store.models import NewSession, Scope, Segment
from tests.contract.conversations import add, plain_turn, taken
from tests.contract.turns import claim, claimed
from tests.integration.test_rules import ask

ADA = Scope("acme", "ada-lovelace-1815")
EVE = Scope("acme", "eve-of-another-kind")
SECRET = "the wedding is in Samarkand"
UNSENT = "not even the caterer knows"


@pytest.fixture
async def store(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreStore]:
    store = FirestoreStore(project_id, emulator_host=emulator_host)
    yield store
    await store.close()


def exported(host: str, project: str, directory: Directory) -> bytes:
    """Every byte of the database's export."""
    directory.mkdir()
    body = {
        "database": f"projects/{project}/databases/(default)",
        "export_directory": str(directory),
        "export_name": "all",
    }
    status, answer = ask(host, "POST", f"/emulator/v1/projects/{project}:export", body)
    assert status == 200, answer
    return b"".join(file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file())


async def lived(store: FirestoreStore, scope: Scope) -> None:
    """A user with sessions of every kind: of several turns, temporary, branched, running, and with a log."""
    name = scope.user
    await store.create_session(scope, f"s-{name}", NewSession("echo", title=f"title of {name}"))
    for n in range(3):
        await add(store, f"s-{name}", plain_turn(f"{name}-{n}"), scope=scope, custom={"mail": name})
    await store.create_session(scope, f"t-{name}", NewSession("echo", lifetime=60.0))
    await taken(store, f"{name}-t", f"t-{name}", scope)
    await store.branch(scope, f"s-{name}", f"{name}-1-answer")
    running = await claimed(store, claim(f"{name}-r", text=f"{SECRET} {name}"), scope)
    line = f'[1,"text-delta",{{"text":"{UNSENT} {name}"}}]\n'.encode()
    await store.write_segments(running, [Segment(0, line, 1, 1)], running.created_at)


TRACES = [ADA.user.encode(), f"{SECRET} {ADA.user}".encode(), f"Question {ADA.user}".encode()]


async def test_after_a_user_is_forgotten_the_export_knows_nothing_of_them(
    store: FirestoreStore,
    emulator_host: str,
    project_id: str,
    tmp_path: Directory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for scope in (ADA, EVE):
        await lived(store, scope)
    await store.set_retention("acme", 7, None)
    before = exported(emulator_host, project_id, tmp_path / "before")
    assert all(trace in before for trace in TRACES)
    eves = before.count(EVE.user.encode())
    monkeypatch.setenv("STORE", "firestore")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project_id)
    assert await asyncio.to_thread(main, ["forget", ADA.user, "--tenant", "acme"]) == 0
    assert "is left" in capsys.readouterr().out
    after = exported(emulator_host, project_id, tmp_path / "after")
    assert [trace for trace in TRACES if trace in after] == []
    assert after.count(EVE.user.encode()) >= eves - 10  # a name may lie across a boundary of the export's blocks
    assert await asyncio.to_thread(main, ["forget", ADA.user, "--tenant", "acme"]) == 0


async def test_forgetting_takes_the_tenant_by_name_and_nobody_elses(
    store: FirestoreStore, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lived(store, ADA)
    monkeypatch.setenv("STORE", "firestore")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project_id)
    assert await asyncio.to_thread(main, ["forget", ADA.user, "--tenant", "other"]) == 0
    assert await store.get_session(ADA, f"s-{ADA.user}") is not None
    with pytest.raises(SystemExit):
        main(["forget", ADA.user])
