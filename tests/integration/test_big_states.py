"""States of many megabytes on the emulator: saved, loaded and changed by processes whose memory is measured."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from store.conformance.soundness import documents_of
from store.database import Kind
from store.firestore.database import FirestoreDatabase
from store.firestore.store import FirestoreStore
from tests.integration.big_state_child import NEXT, ROOT, SCOPE, big_state, grown

MOST_MEMORY = 5  # times the state


@pytest.fixture
async def store(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreStore]:
    opened = FirestoreStore(project_id, emulator_host=emulator_host)
    yield opened
    await opened.close()


async def step(host: str, project: str, name: str, mebibytes: int) -> dict[str, Any]:
    """One step in a process of its own: seconds, and bytes of memory at most."""
    arguments = ("-m", "tests.integration.big_state_child", host, project, name, str(mebibytes))
    child = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    output, _ = await child.communicate()
    assert child.returncode == 0
    told: dict[str, Any] = json.loads(output)
    return told


@pytest.mark.parametrize("mebibytes", [8, pytest.param(64, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
async def test_a_big_state_is_saved_loaded_and_changed_in_bounded_memory(
    emulator_host: str, project_id: str, store: FirestoreStore, mebibytes: int
) -> None:
    for name in ("save", "load", "diff"):
        told = await step(emulator_host, project_id, name, mebibytes)
        assert told["peak"] <= MOST_MEMORY * (mebibytes << 20), name
    root = await store.get_snapshot(SCOPE, ROOT)
    newest = await store.get_snapshot(SCOPE, NEXT)
    assert root is not None
    assert newest is not None
    state = big_state(mebibytes)
    assert root.state == state
    assert newest.state == grown(state)


async def test_changing_a_big_state_stores_what_changed(emulator_host: str, project_id: str) -> None:
    """A patch of some hundred bytes, and no shard."""
    await step(emulator_host, project_id, "save", 8)
    database = FirestoreDatabase(project_id, emulator_host=emulator_host)
    shards = len(await documents_of(database, Kind.SHARDS))
    await step(emulator_host, project_id, "diff", 8)
    rows = {row.path.id: row.fields for row in await documents_of(database, Kind.SNAPSHOTS)}
    assert len(await documents_of(database, Kind.SHARDS)) == shards
    assert (rows[NEXT]["kind"], len(rows[NEXT]["statePatch"]) < 500) == ("diff", True)
    await database.close()
