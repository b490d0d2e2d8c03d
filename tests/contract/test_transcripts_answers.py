"""What became of a change whose answer was lost: recognised by what it wrote, and never made twice (rule 3)."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from store.database import Kind
from store.documents.store import DocumentStore
from store.models import NewSession, Session
from tests.contract.conversations import (
    Documents,
    add,
    documents,
    faulty_store,
    ids,
    noise,
    parts,
    plain_turn,
    state_of_head,
)
from tests.contract.stores import Stores
from tests.contract.turns import ANN, require
from tests.properties.faulty_database import Fault

Change: TypeAlias = Callable[[DocumentStore, str], Awaitable[Session]]
"""Something done to the session "s"; the second argument is the id of its first row."""

CHANGES: dict[str, Change] = {
    "truncate": lambda store, first: store.truncate(ANN, "s", "b", "b-answer"),
    "truncate unguarded": lambda store, first: store.truncate(ANN, "s", "b"),
    "truncate at an answer": lambda store, first: store.truncate(ANN, "s", "a-answer", "b-answer"),
    "restore": lambda store, first: store.restore(ANN, "s", first, "b-answer"),
    "branch": lambda store, first: store.branch(ANN, "s", "b", "copy"),
    "branch under any id": lambda store, first: store.branch(ANN, "s", "b"),
}
FAULTS = [[Fault.LOST_ANSWER], [Fault.LATE], [Fault.DROPPED, Fault.LATE]]


async def two_turns(store: DocumentStore) -> str:
    """The session "s"; its first row's id."""
    await store.create_session(ANN, "s", NewSession("echo"))
    first = await add(store, "s", plain_turn("a"))
    await add(store, "s", plain_turn("b"))
    return first.snapshot_id


def kinds_of_new(before: Documents, after: Documents) -> list[Kind]:
    """Kinds of the documents that were added."""
    return sorted(path.kind for path in after if path not in before)


@pytest.mark.parametrize("faults", FAULTS, ids=", then ".join)
@pytest.mark.parametrize("change", CHANGES)
async def test_it_is_made_once_and_told_as_made(
    stores: Stores, store: DocumentStore, change: str, faults: list[Fault]
) -> None:
    """Lost answer: it landed at once. Late: it lands when the next try has begun. Dropped: it never lands."""
    first = await two_turns(store)
    before = await documents(stores)
    session = await CHANGES[change](faulty_store(stores.database, faults), first)
    added = kinds_of_new(before, await documents(stores))
    if change.startswith("branch"):
        assert added == [Kind.POINTERS, Kind.SHARDS, Kind.SNAPSHOTS]
    else:
        assert added == [Kind.SNAPSHOTS]
    cold = stores.open()
    assert session == await cold.get_session(ANN, session.id)
    assert len(ids(await state_of_head(cold, session.id))) == 2


@pytest.mark.parametrize("landing", ["get pointer", "commit snapshot"])
async def test_a_branch_written_ahead_that_lands_late_keeps_its_own_shards(stores: Stores, landing: str) -> None:
    """Its second try has other message ids: they must not get into the first one's shards. The late commit lands before
    the second try has begun, or when it has written its shards."""
    options = {"commit_size": 65_536, "shard_size": 40_000, "base_size": 0}
    store = stores.open(**options)
    await store.create_session(ANN, "s", NewSession("echo"))
    answer = parts("a-answer", "model", {"text": noise(150_000)})
    await add(store, "s", [*plain_turn("a")[:1], answer])
    # Two commits of shards, then the one that makes them visible.
    faulty = faulty_store(stores.database, [Fault.NONE, Fault.NONE, Fault.LATE], landing=landing, **options)
    session = await faulty.branch(ANN, "s", "a-answer")
    copy = await state_of_head(stores.open(**options), session.id)
    assert copy.get("messages")[1]["content"] == answer["content"]
    stores.is_damaged = True  # shards of a try that was given up stay until they are a day old


@pytest.mark.parametrize("faults", FAULTS, ids=", then ".join)
async def test_a_delete_is_made_once_and_told_as_made(
    stores: Stores, store: DocumentStore, faults: list[Fault]
) -> None:
    """Every commit of it in turn is the one that is lost."""
    for position in range(4):
        first = await two_turns(store)
        await faulty_store(stores.database, [Fault.NONE] * position + faults).delete_session(ANN, "s")
        assert await documents(stores) == {}
        assert await store.get_snapshot(ANN, first) is None


@pytest.mark.parametrize("faults", FAULTS, ids=", then ".join)
async def test_a_rename_is_told_as_made(stores: Stores, store: DocumentStore, faults: list[Fault]) -> None:
    first = await two_turns(store)
    session = await faulty_store(stores.database, faults).update_session(ANN, "s", title="A name", model="m")
    assert (session.title, session.model) == ("A name", "m")
    assert session == await stores.open().get_session(ANN, "s")
    assert (await require(store, first)).state is not None
