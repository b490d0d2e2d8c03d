"""A session that is deleted while it is read is not found, or read as it was before; it is never taken for damage."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from store.database import Database, Found, Kind, Query, Read
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import NotFoundError, TurnBusyError
from tests.contract.soundness import documents_of
from tests.contract.stores import Stores
from tests.contract.turns import ANN, PENDING, changed, claim, save, state_of

STALENESS = 0.02  # seconds: the session's turn is stale, so that a delete does not find it busy
Operation = Callable[[DocumentStore], Awaitable[object]]

RESUMED = claim("q", "s", snapshot_to_resume="b", last_message_id="b")
OPERATIONS: dict[str, Operation] = {
    "a row by id": lambda store: store.get_snapshot(ANN, "b"),
    "the newest row by id": lambda store: store.get_snapshot(ANN, "turn"),
    "the latest row": lambda store: store.get_latest_snapshot(ANN, "s"),
    "the latest row's metadata": lambda store: store.get_latest_snapshot_metadata(ANN, "s"),
    "the transcript": lambda store: store.get_transcript(ANN, "s"),
    "the session": lambda store: store.get_session(ANN, "s"),
    "a claim": lambda store: store.claim_turn(ANN, claim("q", "s", last_message_id="c")),
    "a claim of an earlier row": lambda store: store.claim_turn(ANN, RESUMED),
    "a save on the head": lambda store: save(store, "new", parent_id="c"),
    "a save behind a row": lambda store: save(store, "new", parent_id="b"),
    "a change of a row": lambda store: store.save_snapshot(ANN, "b", changed(finish_reason="other")),
    "an abort": lambda store: store.abort_turn(ANN, "turn"),
    "an abort by session": lambda store: store.abort_session(ANN, "s"),
    "a truncate": lambda store: store.truncate(ANN, "s", "b"),
    "a restore": lambda store: store.restore(ANN, "s", "b"),
    "a branch": lambda store: store.branch(ANN, "s", "b", "branch"),
    "a rename": lambda store: store.update_session(ANN, "s", title="new"),
}


class Vanishing:
    """Passes everything on. Before its read number `when`, counted from 0, the session is deleted by somebody else."""

    def __init__(self, database: Database, when: int, delete: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._left = when
        self._delete = delete
        self.has_vanished = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def get(self, paths: Sequence[Any], **how: Any) -> Read:
        """As the database's."""
        await self._count()
        return await self._database.get(paths, **how)

    async def query(self, query: Query) -> Found:
        """As the database's."""
        await self._count()
        return await self._database.query(query)

    async def _count(self) -> None:
        if self._left == 0:
            self.has_vanished = True
            await self._delete()
        self._left -= 1


async def talk(stores: Stores, store: DocumentStore) -> None:
    """Three rows with a state, and a turn whose owner is gone."""
    for number, row_id in enumerate("abc"):
        parent = "abc"[number - 1] if number else None
        await save(store, row_id, parent_id=parent, state=state_of(*"abc"[: number + 1]))
    await save(store, "turn", parent_id="c", status=PENDING, state=None)
    await stores.wait(STALENESS)


async def leftover(stores: Stores) -> list[str]:
    """The documents that are still there."""
    return [str(document.path) for kind in Kind for document in await documents_of(stores.database, kind)]


INLINE, IN_SHARDS = 131_072, 0
NEEDS_HEAD = ["the transcript", "a claim", "a save on the head", "a truncate", "a branch"]
CASES = [*((name, INLINE) for name in OPERATIONS), *((name, IN_SHARDS) for name in NEEDS_HEAD)]


@pytest.mark.parametrize(("name", "base_size"), CASES)
async def test_a_session_deleted_meanwhile_is_not_found_and_never_damage(
    stores: Stores, name: str, base_size: int
) -> None:
    """Whichever read of the operation the delete comes before; what a save makes anew is a session of its own."""
    when = 0
    store = stores.open(base_size=base_size, lease_staleness=STALENESS)
    while await is_disturbed(stores, store, OPERATIONS[name], base_size, when := when + 1):
        pass
    is_one_read = name == "the newest row by id" or (name == "the transcript" and base_size > 0)
    assert (when == 1) == is_one_read


async def clear(stores: Stores, store: DocumentStore) -> None:
    """What the operation has left or made goes."""
    for session_id in ("s", "branch"):
        with suppress(NotFoundError):
            try:
                await store.delete_session(ANN, session_id)
            except TurnBusyError:
                await stores.wait(STALENESS)
                await store.delete_session(ANN, session_id)


async def is_disturbed(stores: Stores, other: DocumentStore, operation: Operation, base_size: int, when: int) -> bool:
    """Whether the operation read often enough to be disturbed; it may not find the session then."""
    await talk(stores, other)
    database: Any = Vanishing(stores.database, when, lambda: other.delete_session(ANN, "s"))
    with suppress(NotFoundError):
        await operation(DocumentStore(Shelf(database, Options(base_size=base_size, lease_staleness=STALENESS))))
    await clear(stores, other)
    assert await leftover(stores) == []
    return bool(database.has_vanished)
