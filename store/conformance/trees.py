"""The tree of a session's rows, page by page, and what each row says of its turn."""

import pytest

from store.conformance.conversations import add, compact, empty_session, parts, plain_turn, taken
from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ANN,
    BOB,
    COMPLETED,
    EXPIRED,
    FAILED,
    PENDING,
    claim,
    claimed,
    completed,
    failed,
    message,
)
from store.errors import InvalidRequestError, SessionNotFoundError
from store.models import Origin, Snapshot, SnapshotPage


async def pages(store: Store, session_id: str, limit: int) -> list[SnapshotPage]:
    """All pages of a session's tree."""
    found = [await store.list_snapshots(ANN, session_id, limit)]
    while found[-1].next_cursor is not None:
        found.append(await store.list_snapshots(ANN, session_id, limit, found[-1].next_cursor))
    return found


async def grown(store: Store) -> list[Snapshot]:
    """Rows of every origin, in the order in which they were made: turns, a sibling, a failure, and changes."""
    first = await add(store, None, [message("a", "  What\nis   it? " + "x" * 200), message("a-answer", "It", "model")])
    session_id = first.session_id
    rows = [first, await add(store, session_id, plain_turn("b"))]
    sibling = claim("c", session_id, last_message_id="a-answer", snapshot_to_resume=first.snapshot_id)
    rows.append(await store.settle_turn(lease := await claimed(store, sibling), completed(lease)))
    rows.append(await store.settle_turn(await taken(store, "d", session_id), failed()))
    rows.append(await compact(store, session_id, "k"))
    for change in (store.truncate(ANN, session_id, "k"), store.restore(ANN, session_id, rows[1].snapshot_id)):
        head = (await change).head_snapshot_id or ""
        row = await store.get_snapshot(ANN, head)
        assert row is not None
        rows.append(row)
    return rows


class TreeCases:
    """Listing rows."""

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_the_tree_is_told_oldest_first_and_each_row_once(
        self, stores: Stores, store: Store, limit: int
    ) -> None:
        rows = await grown(store)
        await taken(store, "e", rows[0].session_id)
        told = [row for page in await pages(stores.open(), rows[0].session_id, limit) for row in page.snapshots]
        assert [row.snapshot_id for row in told[:-1]] == [row.snapshot_id for row in rows]
        assert [row.parent_id for row in told[:-1]] == [row.parent_id for row in rows]
        assert [(row.origin, row.status) for row in told] == [
            (Origin.TURN, COMPLETED),
            (Origin.TURN, COMPLETED),
            (Origin.TURN, COMPLETED),
            (Origin.TURN, FAILED),
            (Origin.COMPACT, COMPLETED),
            (Origin.TRUNCATE, COMPLETED),
            (Origin.RESTORE, COMPLETED),
            (Origin.TURN, PENDING),
        ]
        assert all(row.state is None for row in told)

    async def test_a_row_tells_the_beginning_of_its_users_message(self, store: Store) -> None:
        rows = await grown(store)
        session_id = rows[0].session_id
        await add(store, session_id, [parts("pic", "user", {"media": {"url": "data:,x"}}), *plain_turn("pic")[1:]])
        told = [row.message_text for page in await pages(store, session_id, 100) for row in page.snapshots]
        assert told[0] is not None
        assert told[0].startswith("What is it? xxx")
        assert len(told[0]) == 100
        assert told[1:] == ["Question b", "Hello", "Question d", None, None, None, None]

    async def test_a_dead_turn_is_told_as_expired(self, stores: Stores, store: Store) -> None:
        first = await add(store, None, plain_turn("a"))
        await taken(store, "b", first.session_id)
        other = stores.open(lease_staleness=stores.moment)
        await stores.wait(stores.moment)
        [page] = await pages(other, first.session_id, 100)
        assert [row.status for row in page.snapshots] == [COMPLETED, EXPIRED]

    async def test_a_session_without_any_turn_has_an_empty_tree(self, store: Store) -> None:
        await empty_session(store, "s")
        assert await store.list_snapshots(ANN, "s", 10) == SnapshotPage(())

    async def test_others_trees_answer_as_missing(self, store: Store) -> None:
        await empty_session(store, "s")
        for scope, session_id in ((BOB, "s"), (ANN, "nothing")):
            with pytest.raises(SessionNotFoundError):
                await store.list_snapshots(scope, session_id, 10)

    async def test_a_cursor_of_a_tree_that_was_not_made_here_is_refused(self, store: Store) -> None:
        await empty_session(store, "s")
        for cursor in ("x", "", "WyJ4Il0", "bnVsbA"):
            with pytest.raises(InvalidRequestError):
                await store.list_snapshots(ANN, "s", 10, cursor)

    async def test_every_row_keeps_the_model_that_it_ran_on(self, store: Store) -> None:
        first = await add(store, None, plain_turn("a"))
        await store.update_session(ANN, first.session_id, model="m1")
        await add(store, first.session_id, plain_turn("b"))
        await store.update_session(ANN, first.session_id, model="m2")
        await add(store, first.session_id, plain_turn("c"))
        await store.truncate(ANN, first.session_id, "c")
        [page] = await pages(store, first.session_id, 100)
        assert [row.model for row in page.snapshots] == [None, "m1", "m2", "m2"]
