"""A repair and somebody who writes at the same time: what was written since is judged anew, never overwritten."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from store.conformance.interposed import Interposed
from store.database import Create, Delete, Update, Write
from store.fsck.check import check
from store.models import Lease, Snapshot
from tests.contract.fsck_steps import NOW, break_documents, dry, save_chain, session
from tests.contract.soundness import raw
from tests.contract.stores import Stores
from tests.contract.turns import ANN, claim, claimed, completed, converse, save, state_of


class Meanwhile:
    """Does something once, right before the first commit of the check."""

    def __init__(self, act: Callable[[], Awaitable[Any]]) -> None:
        self._act = act
        self.done: Any = None

    async def __call__(self, _: Sequence[Write]) -> None:
        if self.done is None:
            self.done = await self._act()


async def repaired_meanwhile(stores: Stores, act: Callable[[], Awaitable[Any]]) -> Any:
    """What `act` gave; afterwards nothing is wrong any more."""
    meanwhile = Meanwhile(act)
    database: Any = Interposed(stores.database, meanwhile)
    report = await check(database, repair=True, grace=NOW)
    assert meanwhile.done is not None
    assert report.unrepaired == []
    stores.is_damaged = False
    assert await dry(stores, grace=NOW) == []
    return meanwhile.done


async def test_a_session_is_not_released_from_a_turn_that_was_claimed_since(stores: Stores) -> None:
    first = await converse(stores.open(), "q1")
    await break_documents(stores, Update(session(first.session_id), {"activeSnapshotId": "nobody"}))

    async def claim_it() -> Lease:
        await stores.database.commit([Update(session(first.session_id), remove=("activeSnapshotId",))])
        return await claimed(stores.open(), claim("q2", first.session_id, last_message_id="q1-answer"))

    lease = await repaired_meanwhile(stores, claim_it)
    found = await stores.open().get_session(ANN, first.session_id)
    assert found is not None
    assert found.active_snapshot_id == lease.snapshot_id
    await stores.open().settle_turn(lease, completed(lease))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"currentSnapshotId": "a"}, id="the latest row"),
        pytest.param({"lastMessageId": "another"}, id="the head"),
        pytest.param({"tail": []}, id="the copy"),
    ],
)
async def test_a_head_that_was_saved_since_stays_the_head(stores: Stores, wrong: dict[str, Any]) -> None:
    await save_chain(stores.open(), *"ab")
    fields = await raw(stores.database, session())
    right = {name: fields[name] for name in wrong}
    await break_documents(stores, Update(session(), wrong))

    async def save_it() -> Snapshot:
        await stores.database.commit([Update(session(), right)])
        return await save(stores.open(), "c", parent_id="b", state=state_of("a", "b", "c"))

    saved = await repaired_meanwhile(stores, save_it)
    cold = stores.open()
    found = await cold.get_session(ANN, "s")
    assert found is not None
    assert found.head_snapshot_id == "c"
    assert await cold.get_latest_snapshot(ANN, "s") == saved


async def test_a_session_that_was_made_since_is_not_rebuilt(stores: Stores) -> None:
    first = await converse(stores.open(), "q1")
    fields = await raw(stores.database, session(first.session_id))
    await break_documents(stores, Delete(session(first.session_id)))

    async def put_back() -> bool:
        await stores.database.commit([Create(session(first.session_id), {**fields, "title": "Mine"})])
        return True

    await repaired_meanwhile(stores, put_back)
    found = await stores.open().get_session(ANN, first.session_id)
    assert found is not None
    assert found.title == "Mine"
