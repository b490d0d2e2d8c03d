"""Corruption is never absence: whatever is damaged fails by the name of a document, and nothing is built on it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from store.database import Document, Kind, Path, Put
from store.documents.store import DocumentStore
from store.errors import DataLossError
from store.models import Snapshot
from store.rules.history import messages_of
from store.state import Raw, State
from tests.contract.damages import Damage, damages_of, gone, having, of_copy, of_row, of_session, of_shard
from tests.contract.soundness import documents_of
from tests.contract.stores import Stores
from tests.contract.turns import ANN, claim, message, save

OPTIONS = {"checkpoint_interval": 4, "shard_size": 2000}
TURNS = 7  # rows 0 and 4 are checkpoints, row 6 is the head
READS = frozenset({"latest", "transcript", "claim", "save on the head"})


def state(session_id: str, turns: int) -> State:
    """So many messages of half a run each."""
    texts = (f"{session_id}{number} " * 150 for number in range(turns))
    return State.of({"messages": [message(f"m{number}", text) for number, text in enumerate(texts)]})


async def talk(store: DocumentStore, session_id: str) -> None:
    """A row a turn, each behind the one before."""
    for number in range(TURNS):
        parent = f"{session_id}{number - 1}" if number else None
        row_id = f"{session_id}{number}"
        await save(store, row_id, session_id=session_id, parent_id=parent, state=state(session_id, number + 1))


@dataclass
class Scene:
    """Three sessions: `s` with a base, `t` whose state is too large for one, and `u` to swap things with."""

    stores: Stores
    documents: dict[Path, Document]

    @classmethod
    async def set(cls, stores: Stores) -> "Scene":
        for session_id, base_size in (("s", 131_072), ("t", 0), ("u", 131_072)):
            await talk(stores.open(**OPTIONS, base_size=base_size), session_id)
        return cls(stores, await everything_in(stores))

    def row(self, row_id: str) -> Document:
        return self.documents[Path(Kind.SNAPSHOTS, ANN.tenant, row_id)]

    def session(self, session_id: str) -> Document:
        return self.documents[Path(Kind.POINTERS, ANN.tenant, session_id)]

    def shards(self, session_id: str) -> list[Document]:
        """The session's shards, those of its last checkpoint last."""
        shards = [document for path, document in self.documents.items() if path.kind is Kind.SHARDS]
        return sorted(
            (shard for shard in shards if shard.fields["sessionId"] == session_id), key=lambda shard: shard.update_time
        )

    def damages(self) -> list[Damage]:
        """All of them."""
        s, t, u = (self.session(name) for name in "stu")
        first = self.shards("s")[0]  # a run of the first checkpoint, which every row of the session is built on
        all_rows = frozenset(f"s{number}" for number in range(TURNS))
        found = [
            *damages_of(first, of_shard(self.shards("s")[1]), all_rows),
            *damages_of(self.shards("t")[0], of_shard(self.shards("t")[1]), READS | {"t6"}),
            *damages_of(self.row("s1"), of_row(self.row("s2")), frozenset({"s1", "s2", "s3"})),
            *damages_of(self.row("s1"), iter([("missing", gone)]), frozenset({"s2", "s3"})),
            *damages_of(s, of_session(u), READS),
            *damages_of(s, of_copy(u), READS - {"latest"} | {"latest"}),
            *damages_of(t, of_session(u), READS),
            *damages_of(s, of_latest(), frozenset({"latest"})),
            *damages_of(s, of_lease(), frozenset({"claim", "save on the head"})),
            *damages_of(s, iter([("missing", gone)]), frozenset({"save on the head"})),
        ]
        return found


def of_latest():
    yield "a latest row that is missing", having(currentSnapshotId="gone")
    yield "a latest row that is another session's", having(currentSnapshotId="u3")


def of_lease():
    yield "a turn whose row is missing", having(activeSnapshotId="gone")
    yield "a turn whose row is another session's", having(activeSnapshotId="u3")
