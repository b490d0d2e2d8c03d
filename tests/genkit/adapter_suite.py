"""Run by a test, with Genkit's packages: the promises of our adapter that Genkit's own suite does not ask for.

Prints pytest's summary; not collected by the project's own run, whose environment has no Genkit.
"""

import asyncio
import contextlib
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from genkit import GenkitError
from genkit.exp.agent import SessionSnapshot, SnapshotStatus, SnapshotSubscriber

from store.adapters.genkit import GenkitSessionStore
from store.adapters.own_ids import OwnIds
from store.documents.store import DocumentStore
from store.memory.store import MemoryStore
from store.models import Scope
from store.state import State

ANN = Scope("acme", "ann")
NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def row(snapshot_id: str = "a", **fields: Any) -> SessionSnapshot:
    """A snapshot as Genkit's runtime writes it."""
    state = {"sessionId": "s", "messages": [{"role": "user", "content": [{"text": "Hi"}]}], "custom": {"n": 1}}
    given = {"snapshotId": snapshot_id, "createdAt": NOW.isoformat(), "status": "completed", "state": state}
    return SessionSnapshot.model_validate(given | fields)


@pytest.fixture(params=["plain", "own ids"])
def ours(request: pytest.FixtureRequest) -> DocumentStore:
    """As programs open it by themselves, and as the functions do."""
    store = MemoryStore()
    return store if request.param == "plain" else OwnIds(store)


@pytest.fixture
def adapter(ours: DocumentStore) -> GenkitSessionStore:
    return GenkitSessionStore(ours, ANN)


async def test_a_snapshot_comes_back_as_it_was_saved(adapter: GenkitSessionStore, ours: DocumentStore) -> None:
    saved = await adapter.save_snapshot("a", lambda _: row(parentId="", finishReason="stop"))
    found = await adapter.get_snapshot(snapshot_id="a")
    assert found == saved
    assert found.state == row().state
    assert (found.session_id, found.parent_id, found.finish_reason) == ("s", None, "stop")
    assert datetime.fromisoformat(found.created_at) == NOW
    stored = await ours.get_snapshot(ANN, "a")
    assert stored is not None
    assert isinstance(stored.state, State)
    assert "metadata" not in str(stored.state.text)  # what was never set is not stored


async def test_a_session_gives_its_latest_snapshot(adapter: GenkitSessionStore) -> None:
    await adapter.save_snapshot("a", lambda _: row())
    await adapter.save_snapshot("b", lambda _: row("b", parentId="a", createdAt=datetime.now(UTC).isoformat()))
    latest = await adapter.get_snapshot(session_id="s")
    assert latest is not None
    assert (latest.snapshot_id, latest.parent_id) == ("b", "a")
    assert await adapter.get_snapshot(session_id="unknown") is None
    assert await adapter.get_snapshot(snapshot_id="unknown") is None


async def test_a_mutator_that_gives_none_writes_nothing(adapter: GenkitSessionStore) -> None:
    assert await adapter.save_snapshot("a", lambda _: None) is None
    assert await adapter.get_snapshot(snapshot_id="a") is None


@pytest.mark.parametrize(
    ("first", "then", "status"),
    [
        ({}, {"status": "failed"}, "FAILED_PRECONDITION"),
        ({}, {"sessionId": "other"}, "FAILED_PRECONDITION"),
        ({}, {"state": {"sessionId": "s", "custom": {"n": 2}}}, "FAILED_PRECONDITION"),
        (None, {"createdAt": "yesterday"}, "INVALID_ARGUMENT"),
        (None, {"state": {"sessionId": "a/b"}}, "INVALID_ARGUMENT"),
        (None, {"state": {"sessionId": "s", "custom": float("nan")}}, "INVALID_ARGUMENT"),
    ],
)
async def test_what_the_store_refuses_has_a_status_of_genkit_s(
    adapter: GenkitSessionStore, first: Any, then: Any, status: str
) -> None:
    if first is not None:
        await adapter.save_snapshot("a", lambda _: row(**first))
    with pytest.raises(GenkitError) as refused:
        await adapter.save_snapshot("a", lambda _: row(**then))
    assert refused.value.status == status


async def test_a_mutator_must_be_a_plain_function(adapter: GenkitSessionStore) -> None:
    async def mutator(_: Any) -> Any:
        return row()

    with pytest.raises(GenkitError) as refused:
        await adapter.save_snapshot("a", mutator)
    assert refused.value.status == "INVALID_ARGUMENT"


@pytest.mark.parametrize("selectors", [{}, {"snapshot_id": "a", "session_id": "s"}])
async def test_exactly_one_selector_is_needed(adapter: GenkitSessionStore, selectors: Any) -> None:
    with pytest.raises(GenkitError) as refused:
        await adapter.get_snapshot(**selectors)
    assert refused.value.status == "INVALID_ARGUMENT"


async def test_the_context_tells_whose_sessions_they_are(ours: DocumentStore) -> None:
    adapter = GenkitSessionStore(ours, lambda context: Scope("acme", (context or {})["uid"]))
    await adapter.save_snapshot("a", lambda _: row(), context={"uid": "ann"})
    assert await adapter.get_snapshot(snapshot_id="a", context={"uid": "ann"}) is not None
    assert await adapter.get_snapshot(snapshot_id="a", context={"uid": "bob"}) is None
    with pytest.raises(KeyError):
        await adapter.get_snapshot(snapshot_id="a")


async def test_a_status_is_followed_to_its_end(adapter: GenkitSessionStore) -> None:
    assert isinstance(adapter, SnapshotSubscriber)
    beat = datetime.now(UTC).isoformat()
    await adapter.save_snapshot("a", lambda _: row(status="pending", heartbeatAt=beat))
    stream = await adapter.on_snapshot_status_change("a")
    assert await anext(stream) == "pending"
    await adapter.save_snapshot("a", lambda found: found.model_copy(update={"status": SnapshotStatus.ABORTED}))
    assert [status.value async for status in stream] == ["aborted"]


async def test_a_stream_that_is_closed_ends_for_whoever_waits(adapter: GenkitSessionStore) -> None:
    stream = await adapter.on_snapshot_status_change("missing")
    waiting = asyncio.ensure_future(anext(stream, "ended"))
    for _ in range(5):
        await asyncio.sleep(0)
    await stream.aclose()
    assert await waiting == "ended"
    with contextlib.suppress(StopAsyncIteration):
        pytest.fail(f"a closed stream gave {await anext(stream)}")


async def test_a_pending_snapshot_whose_heartbeats_stopped_reads_as_expired(adapter: GenkitSessionStore) -> None:
    await adapter.save_snapshot("a", lambda _: row(status="pending", heartbeatAt=NOW.isoformat()))
    found = await adapter.get_snapshot(snapshot_id="a")
    assert found is not None
    assert found.status == "expired"
    seen: list[Any] = []
    await adapter.save_snapshot("a", lambda existing: seen.append(existing.status))
    assert seen == ["pending"]  # a mutator decides by what is stored


if __name__ == "__main__":
    options = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-o", "addopts=", "-o", "filterwarnings="]
    sys.exit(pytest.main([*options, __file__]))
