"""What is done otherwise where a state is large: worked on in a thread, read in several requests, not compared."""

import asyncio
import random
import string
from collections.abc import Sequence
from typing import Any

import pytest

from store.conformance.turns import claim, claimed, completed, require, save
from store.database import Kind, Path, Read
from store.documents import apart, loading
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.layout import chain, distance
from store.layout.chain import Shape, StoragePlan, plan_checkpoint, plan_storage
from store.layout.patches import diff
from store.memory.database import MemoryDatabase
from store.state import State

NO_BASE = Options(base_size=0)


def state_of(count: int, size: int = 2000) -> State:
    """Messages of text that hardly compresses."""
    texts = ("".join(random.Random(n).choices(string.ascii_letters, k=size)) for n in range(count))
    return State.of({"messages": [{"id": f"m{n}", "content": [{"text": text}]} for n, text in enumerate(texts)]})


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for everything that is done in a thread; a state is large from 30,000 bytes on."""
    done: list[object] = []
    real = asyncio.to_thread

    async def noted(work: Any, *arguments: Any) -> object:
        done.append(work)
        return await real(work, *arguments)

    monkeypatch.setattr(apart, "LARGE", 30_000)
    monkeypatch.setattr(asyncio, "to_thread", noted)
    return done


@pytest.mark.parametrize(("count", "in_threads"), [(2, 0), (20, 1)])
async def test_large_states_are_worked_on_in_a_thread(threads: list[object], count: int, in_threads: int) -> None:
    """By a save, a load by id, a load of the head and a settle; the loop goes on meanwhile."""
    database = MemoryDatabase()

    def opened() -> DocumentStore:
        return DocumentStore(Shelf(database, NO_BASE))

    steps: list[int] = []
    await save(opened(), "row", state=state_of(count))
    steps.append(len(threads))
    await require(opened(), "row")
    steps.append(len(threads))
    store = opened()
    lease = await claimed(store, claim("q", "s", last_message_id=f"m{count - 1}"))
    steps.append(len(threads))
    await store.settle_turn(lease, completed(lease))
    steps.append(len(threads))
    assert steps == [in_threads * done for done in (1, 2, 3, 4)]


@pytest.mark.parametrize(("changed", "in_threads"), [(100_000, 0), (140_000, 1)])
async def test_large_changes_are_worked_on_in_a_thread(
    threads: list[object], monkeypatch: pytest.MonkeyPatch, changed: int, in_threads: int
) -> None:
    """Whatever the size of the state: comparing takes longer than storing."""
    monkeypatch.setattr(apart, "LARGE", 8_388_608)
    store = DocumentStore(Shelf(MemoryDatabase(), NO_BASE))
    await save(store, "before", state=State.of({"custom": list(range(1000))}))
    await save(store, "after", parent_id="before", state=State.of({"custom": "x" * changed}))
    assert len(threads) == in_threads


@pytest.mark.parametrize("most", [0, 1])
def test_what_differs_in_too_many_places_is_not_compared(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"custom": {"a": [*range(500)], "b": {"x": 1, "y": 2}, "c": 1}}
    new = {"custom": {"a": [*range(499), -1], "b": {"x": 1, "y": 3}, "c": 1}}
    monkeypatch.setattr(distance, "MOST_DIFFERENCES", 1 + most)
    patch = diff(State.of(old), State.of(new))
    whole = [{"op": "replace", "path": "/custom", "value": new["custom"]}]
    parts = [
        {"op": "replace", "path": "/custom/b/y", "value": 3},
        {"op": "replace", "path": "/custom/a/499", "value": -1},
    ]
    by_path = sorted(patch, key=lambda operation: str(operation["path"]), reverse=True)
    assert by_path == (parts if most else whole)


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ([1, 2, 3], [1, 2, 3], 0),
        ([1, 2, 3], [3, 2, 1], 2),
        ([1], [1, 2, 3], 2),
        ({"a": 1, "b": [1]}, {"b": [2], "c": 1}, 3),
        ([{"a": [1, 2]}], [{"a": [2, 1]}], 2),
        ({"a": 1}, [1], 1),
    ],
)
def test_places_that_differ_are_counted(old: Any, new: Any, places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "MOST_DIFFERENCES", places)
    assert not distance.are_far_apart(old, new)
    monkeypatch.setattr(distance, "MOST_DIFFERENCES", places - 1)
    assert distance.are_far_apart(old, new)


class Asked(MemoryDatabase):
    """Remembers which shards were asked for together, and as of when."""

    def __init__(self) -> None:
        super().__init__()
        self.shards: list[int] = []
        self.moments: set[object] = set()

    async def get(self, paths: Sequence[Path], **keywords: Any) -> Read:
        """As the database's."""
        if count := sum(path.kind is Kind.SHARDS for path in paths):
            self.shards.append(count)
            self.moments.add(keywords["at"])
        return await super().get(paths, **keywords)


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        pytest.param({}, 8, id="all at once"),
        pytest.param({"_MOST_SHARDS": 4}, 4, id="so many documents"),
        pytest.param({"_MOST_BYTES": 120_000}, 3, id="so many bytes"),
        pytest.param({"_MOST_BYTES": 1}, 1, id="each over the limit"),
    ],
)
async def test_shards_are_read_in_as_many_requests_as_it_takes_all_of_one_moment(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], most: int
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(loading, name, value)
    database, state = Asked(), state_of(200)
    await save(DocumentStore(Shelf(database, NO_BASE)), "row", state=state)
    found = await require(DocumentStore(Shelf(database, NO_BASE)), "row")
    assert found.state == state
    assert (max(database.shards), len(database.moments)) == (most, 1)


def planned(new: State) -> StoragePlan:
    """How `new` is stored behind a state of a hundred messages."""
    old = state_of(100)
    ground = plan_checkpoint(Shape(), "old", "t", None, old).ground(old)
    return plan_storage(Shape(), "new", "t", ground, new)


def test_a_change_too_large_to_be_compared_becomes_a_checkpoint_however_large_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = state_of(100)
    more = before.with_messages([*(before.messages or ()), *(state_of(120).messages or ())[100:]])
    monkeypatch.setattr(chain, "_MOST_CHANGED", 50_000)
    assert planned(more).patch is not None
    assert planned(before.with_messages((before.messages or ())[30:])).patch is not None
    monkeypatch.setattr(chain, "_MOST_CHANGED", 30_000)
    assert planned(more).patch is None
    assert planned(before.with_messages((before.messages or ())[30:])).patch is not None
