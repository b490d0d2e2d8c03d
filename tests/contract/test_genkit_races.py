"""The first write to a session of Genkit's, and somebody who writes between its reads and its commit."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from store.conformance.interposed import interposed_store
from store.database import Write
from store.documents.store import DocumentStore
from store.errors import SessionNotFoundError
from store.rules.history import messages_of
from tests.contract.genkit_documents import BEGAN, DIALECTS, Dialect, conversation, genkit_writes
from tests.contract.stores import Stores
from tests.contract.turns import ANN, BOB, converse, save, state_of

FIRST_WRITES: dict[str, Callable[[DocumentStore], Awaitable[object]]] = {
    "a turn": lambda store: converse(store, "anns", "s"),
    "a save": lambda store: save(store, "anns", state=state_of("anns")),
    "an older save": lambda store: save(store, "anns", state=state_of("anns"), created_at=BEGAN - timedelta(days=1)),
    "a new name": lambda store: store.update_session(ANN, "s", title="Ann's"),
    "a deletion": lambda store: store.delete_session(ANN, "s"),
}


def before_the_first_commit(stores: Stores, act: Callable[[], Awaitable[object]]) -> DocumentStore:
    """An instance whose first commit is overtaken by `act`."""
    left = [act]

    async def overtaken(_: Sequence[Write]) -> None:
        if left:
            await left.pop()()

    return interposed_store(stores.database, overtaken, legacy_owner="tenant")


async def written(stores: Stores, dialect: Dialect, turns: int) -> None:
    stores.is_damaged = True  # the check afterwards knows documents of ours only
    await stores.database.commit(genkit_writes(dialect, conversation(turns)))


@pytest.mark.parametrize("name", FIRST_WRITES)
async def test_who_is_overtaken_by_another_users_first_write_finds_nothing(stores: Stores, name: str) -> None:
    await written(stores, "go", 2)
    bobs = stores.open(legacy_owner="tenant")
    store = before_the_first_commit(stores, lambda: converse(bobs, "bobs", "s", scope=BOB))
    with pytest.raises(SessionNotFoundError):
        await FIRST_WRITES[name](store)
    cold = stores.open(legacy_owner="tenant")
    assert await cold.get_session(ANN, "s") is None
    found = await cold.get_transcript(BOB, "s")
    assert found is not None
    assert found.session.owner_id == "bob"
    assert [message.key for message in messages_of(found.state)][-2:] == ["bobs", "bobs-answer"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_turn_that_genkit_overtakes_continues_what_it_wrote(stores: Stores, dialect: Dialect) -> None:
    await written(stores, dialect, 2)
    store = before_the_first_commit(stores, lambda: stores.database.commit(genkit_writes(dialect, conversation(3))))
    settled = await converse(store, "anns", "s")
    assert len(messages_of(settled.state)) == 2 * 3 + 2
