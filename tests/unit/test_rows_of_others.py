"""How much of somebody else's row is read before it is refused: nothing that is so large that time would tell of it."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import pytest

from store.conformance.turns import ANN, BOB, claim, claimed, converse
from store.database import Document, Kind, Path, Read
from store.documents.shelf import Shelf
from store.documents.store import DocumentStore
from store.errors import SnapshotNotFoundError
from store.layout.rows import PAYLOAD_FIELDS
from store.memory.database import MemoryDatabase
from store.models import Scope


class Reading(MemoryDatabase):
    """Remembers the rows that were read, as far as they were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Document] = []

    async def get(
        self, paths: Sequence[Path], *, mask: Sequence[str] | None = None, at: datetime | None = None
    ) -> Read:
        read = await super().get(paths, mask=mask, at=at)
        self.rows += [found for found in read.documents.values() if found and found.path.kind is Kind.SNAPSHOTS]
        return read


ASKS: dict[str, Callable[[DocumentStore, Scope, str], Awaitable[object]]] = {
    "get_snapshot": lambda store, scope, row: store.get_snapshot(scope, row),
    "get_snapshot_metadata": lambda store, scope, row: store.get_snapshot_metadata(scope, row),
    "restore": lambda store, scope, row: store.restore(scope, scope.user, row),
    "claim_turn": lambda store, scope, row: store.claim_turn(scope, claim(snapshot_to_resume=row)),
    "claim_turn of a session": lambda store, scope, row: store.claim_turn(
        scope, claim(None, scope.user, snapshot_to_resume=row, check_tail=False)
    ),
    "abort_turn": lambda store, scope, row: store.abort_turn(scope, row),
    "request_segments": lambda store, scope, row: store.request_segments(scope, row),
}


@pytest.mark.parametrize("name", ASKS)
async def test_nothing_large_is_read_of_a_row_that_is_somebody_elses(name: str) -> None:
    database = Reading()
    store = DocumentStore(Shelf(database))
    await converse(store, "first", new_session_id="ann")
    settled = await converse(store, "second", "ann", last_message_id="first-answer")
    running = await claimed(store, claim("third", "ann", last_message_id="second-answer"))
    await converse(store, "bobs", scope=BOB, new_session_id="bob")
    stored = await database.get(
        [Path(Kind.SNAPSHOTS, "acme", row) for row in (settled.snapshot_id, running.snapshot_id)]
    )
    payloads = [set(PAYLOAD_FIELDS) & found.fields.keys() for found in stored.documents.values() if found]
    assert payloads == [{"statePatch"}, {"request"}], "there is nothing large in these rows"
    database.rows.clear()
    for row in (settled.snapshot_id, running.snapshot_id):
        if name.startswith("get_"):
            assert await ASKS[name](DocumentStore(Shelf(database)), BOB, row) is None
        else:
            with pytest.raises(SnapshotNotFoundError):
                await ASKS[name](DocumentStore(Shelf(database)), BOB, row)
    theirs = [found for found in database.rows if found.fields["ownerId"] == ANN.user]
    assert len(theirs) >= 2
    assert not any(set(PAYLOAD_FIELDS) & found.fields.keys() for found in theirs)


async def test_its_owner_gets_the_state_all_the_same() -> None:
    database = Reading()
    store = DocumentStore(Shelf(database))
    await converse(store, "first", new_session_id="ann")
    settled = await converse(store, "second", "ann", last_message_id="first-answer")
    found = await DocumentStore(Shelf(database)).get_snapshot(ANN, settled.snapshot_id)
    assert found is not None
    assert found.state == settled.state
