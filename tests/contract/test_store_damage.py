"""Corruption is never absence: whatever is damaged fails by the name of a document, and nothing is built on it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as Directory
from typing import Any

import pytest

from store.database import Delete, Document, Kind, Path, Put, Update, Write
from store.documents.store import DocumentStore
from store.errors import DataLossError, StoreError
from store.layout.records import COPY_FIELDS, NO_COPY
from store.layout.rows import read_row
from store.models import Snapshot
from store.state import State
from tests.contract.damages import Change, Damage, damages_of, gone, having, of_copy, of_row, of_session, of_shard
from tests.contract.soundness import documents_of
from tests.contract.stores import MemoryStores, Stores
from tests.contract.turns import ANN, claim, message, save

PAGES = [Directory(__file__).parents[2] / "docs" / name for name in ("storage.md", "conformance.md")]
TURNS = 7  # row 0 and row 4 are checkpoints, row 6 is the head
OPTIONS: dict[str, Any] = {"checkpoint_interval": 4, "shard_size": 2000}

Operation = Callable[[DocumentStore, str], Awaitable[Snapshot | State | None]]


async def read(store: DocumentStore, row_id: str) -> Snapshot | None:
    return await store.get_snapshot(ANN, row_id)


async def save_behind(store: DocumentStore, row_id: str) -> Snapshot | None:
    return await save(store, "new", session_id=row_id[0], parent_id=row_id, state=state("x", 1))


async def resume(store: DocumentStore, row_id: str) -> None:
    await store.claim_turn(ANN, claim("q", row_id[0], snapshot_to_resume=row_id, check_tail=False))


async def latest(store: DocumentStore, session_id: str) -> Snapshot | None:
    return await store.get_latest_snapshot(ANN, session_id)


async def transcript(store: DocumentStore, session_id: str) -> State | None:
    found = await store.get_transcript(ANN, session_id)
    return found.state if found is not None else None


async def take_turn(store: DocumentStore, session_id: str) -> None:
    await store.claim_turn(ANN, claim("q", session_id, check_tail=False))


async def save_on_head(store: DocumentStore, session_id: str) -> Snapshot | None:
    return await save_behind(store, f"{session_id}{TURNS - 1}")


Hit = tuple[Operation, str]
ON_ROW: list[Operation] = [read, save_behind, resume]
ON_HEAD: list[Operation] = [latest, transcript, take_turn, save_on_head]


def rows(session_id: str, *numbers: int) -> frozenset[Hit]:
    """Everything that needs the state of one of these rows."""
    return frozenset((operation, f"{session_id}{number}") for operation in ON_ROW for number in numbers)


def head(session_id: str, *operations: Operation) -> frozenset[Hit]:
    """Everything that needs the session's document and the state of its head."""
    return frozenset((operation, session_id) for operation in operations or ON_HEAD)


def state(session_id: str, turns: int) -> State:
    """A state of some messages, several to a run, and one more for each turn."""
    texts = (f"{session_id}{number} " * 150 for number in range(turns + 7))
    return State.of({"messages": [message(f"m{number}", text) for number, text in enumerate(texts)]})


@dataclass
class Scene:
    """Three sessions: `s` with a base, `t` whose state is too large for one, and `u` to swap things with."""

    stores: Stores
    documents: Mapping[Path, Document]

    @classmethod
    async def built(cls, stores: Stores) -> "Scene":
        for session_id, base_size in (("s", 131_072), ("t", 0), ("u", 131_072)):
            store = stores.open(**OPTIONS, base_size=base_size)
            for number in range(TURNS):
                parent = f"{session_id}{number - 1}" if number else None
                content = state(session_id, number)
                await save(store, f"{session_id}{number}", session_id=session_id, parent_id=parent, state=content)
        return cls(stores, {document.path: document for document in await everything_in(stores)})

    def at(self, kind: Kind, document_id: str) -> Document:
        return self.documents[Path(kind, ANN.tenant, document_id)]

    def shared_shards(self, session_id: str) -> list[Document]:
        """Those that both of the session's checkpoints refer to."""
        chains = [read_row(self.at(Kind.SNAPSHOTS, f"{session_id}{number}")).chain for number in (0, 4)]
        named = [chain.shards for chain in chains if chain is not None]
        return [self.at(Kind.SHARDS, shard_id) for shard_id in named[0] if shard_id in named[1]]

    async def restored(self) -> set[Path]:
        """Makes everything as it was built; what was not."""
        now = {document.path: document.fields for document in await everything_in(self.stores)}
        was = {path: document.fields for path, document in self.documents.items()}
        changed = {path for path in now.keys() | was.keys() if now.get(path) != was.get(path)}
        writes: list[Write] = [Put(path, was[path]) if path in was else Delete(path) for path in changed]
        await self.stores.database.commit(writes)
        return changed

    def damages(self) -> list[Damage[Hit]]:
        """All that is done to them."""
        s, t, u = (self.at(Kind.POINTERS, session_id) for session_id in "stu")
        s1, s2 = (self.at(Kind.SNAPSHOTS, row_id) for row_id in ("s1", "s2"))
        ours, theirs = self.shared_shards("s"), self.shared_shards("t")
        return [
            # The head of `s` is read from the session's copy of it, so that what continues it does not meet the shard.
            *damages_of(ours[0], of_shard(ours[1]), rows("s", *range(TURNS)) - {(save_behind, "s6")}),
            *damages_of(theirs[0], of_shard(theirs[1]), head("t") | rows("t", *range(TURNS))),
            *damages_of(s1, of_row(s2), rows("s", 1, 2, 3)),
            *damages_of(s1, iter([("missing", gone)]), rows("s", 2, 3)),
            *damages_of(s, of_session(u), head("s")),
            *damages_of(s, of_copy(u), head("s")),
            *damages_of(t, of_session(u), head("t")),
            *damages_of(s, of_latest(), head("s", latest)),
            *damages_of(s, of_lease(), head("s", take_turn, save_on_head)),
            *damages_of(s, iter([("missing", gone)]), head("s", save_on_head)),
        ]


def of_latest() -> Iterator[tuple[str, Change]]:
    """What the pointer to the latest row may suffer."""
    yield "its latest row is missing", having(currentSnapshotId="gone")
    yield "its latest row is another session's", having(currentSnapshotId="u3")


def of_lease() -> Iterator[tuple[str, Change]]:
    """What the pointer to the active turn may suffer."""
    yield "its turn's row is missing", having(activeSnapshotId="gone")
    yield "its turn's row is another session's", having(activeSnapshotId="u3")
    yield "the row of its turn, of the same message, is missing", having(activeSnapshotId="gone", activeMessageId="q")


async def everything_in(stores: Stores) -> list[Document]:
    """All documents that a save or a claim could write."""
    kinds = (Kind.SNAPSHOTS, Kind.POINTERS, Kind.SHARDS)
    found = await asyncio.gather(*(documents_of(stores.database, kind) for kind in kinds))
    return [document for documents in found for document in documents]


async def test_every_damage_is_found_and_nothing_is_built_on_it(stores: Stores) -> None:
    """Every operation that needs the damaged document fails by the name of a document, and writes nothing."""
    stores.is_damaged = True
    scene = await Scene.built(stores)
    damages = scene.damages()
    cold = stores.open(cache_size=0)
    missed = []
    for damage in damages:
        await stores.database.commit([damage.inflict()])
        missed += [f"{damage.name}, by {name}" for name in await what_missed(cold, damage)]
        changed = await scene.restored() - {damage.document.path}
        missed += [f"{damage.name}: {path} was written" for path in changed]
    assert missed == []
    assert len(damages) >= 100
    assert [page for page in PAGES if f"{len(damages)} damages" not in page.read_text(encoding="utf-8")] == []


async def what_missed(cold: DocumentStore, damage: Damage[Hit]) -> list[str]:
    """The operations that did not fail as they must."""
    missed = await asyncio.gather(*(what_was_told(cold, damage, *hit) for hit in damage.hits))
    return [each for each in missed if each is not None]


async def what_was_told(cold: DocumentStore, damage: Damage[Hit], operation: Operation, target: str) -> str | None:
    """What the operation told instead of the damage."""
    named = {str(damage.document.path), f"snapshots/acme/{target}", f"pointers/acme/{target[0]}"}
    try:
        await operation(cold, target)
    except StoreError as error:
        is_told = isinstance(error, DataLossError) and error.document in named
        return None if is_told else f"{operation.__name__} of {target}, which says {error.message}"
    return f"{operation.__name__} of {target}"


async def test_what_does_not_need_the_damaged_document_is_read_as_before(stores: Stores) -> None:
    """Damage of one row, shard or session is no damage of another one."""
    stores.is_damaged = True
    scene = await Scene.built(stores)
    reads: set[Hit] = {(read, f"{session_id}{number}") for session_id in "stu" for number in range(TURNS)}
    reads |= {(operation, session_id) for session_id in "stu" for operation in (latest, transcript)}
    cold = stores.open(cache_size=0)
    healthy = {hit: await hit[0](cold, hit[1]) for hit in reads}
    for damage in scene.damages():
        if damage.change is gone:
            await stores.database.commit([damage.inflict()])
            others = reads - damage.hits - {(read, damage.document.path.id)} - {(latest, "s"), (transcript, "s")}
            assert {hit: await hit[0](cold, hit[1]) for hit in others} == {hit: healthy[hit] for hit in others}
            await scene.restored()


async def test_a_row_that_is_gone_itself_is_not_found(stores: Stores) -> None:
    """Nothing refers to it but what is built on it."""
    stores.is_damaged = True
    scene = await Scene.built(stores)
    (damage,) = damages_of(scene.at(Kind.SNAPSHOTS, "s1"), iter([("missing", gone)]), rows("s"))
    await stores.database.commit([damage.inflict()])
    assert await stores.open().get_snapshot(ANN, "s1") is None
    with pytest.raises(DataLossError, match="s1: the document is missing"):
        await stores.open().get_snapshot(ANN, "s2")


async def test_a_session_without_a_copy_is_read_from_no_other_row_than_its_head(stores: Stores) -> None:
    """The row that has its head's id is whole, and another one."""
    stores.is_damaged = True
    await save(stores.open(), "a", state=state("a", 1))
    other = MemoryStores()
    await save(other.open(), "a", state=state("a", 2))
    found = [*await documents_of(other.database, Kind.SNAPSHOTS), *await documents_of(other.database, Kind.SHARDS)]
    puts = [Put(each.path, each.fields) for each in found]
    session = Path(Kind.POINTERS, ANN.tenant, "s")
    await stores.database.commit([*puts, Update(session, NO_COPY, remove=COPY_FIELDS)])
    await other.close()
    cold = stores.open()
    assert (await cold.get_snapshot(ANN, "a")) is not None
    with pytest.raises(DataLossError, match="pointers/acme/s"):
        await cold.get_transcript(ANN, "s")
    with pytest.raises(DataLossError, match="pointers/acme/s"):
        await cold.claim_turn(ANN, claim("q", "s", check_tail=False))
