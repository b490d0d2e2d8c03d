"""Session records: made once, read, listed in order, renamed, gone when they expire."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ANN,
    BOB,
    COMPLETED,
    ELSEWHERE,
    FAILED,
    claim,
    claimed,
    completed,
    converse,
    require,
    save,
    state_of,
)
from store.errors import (
    InvalidRequestError,
    SessionNotFoundError,
    SnapshotNotFoundError,
    StateTooLargeError,
    TurnBusyError,
)
from store.models import NewSession, Origin, Scope, Session
from store.state import State

ECHO = NewSession("echo")


async def named(store: Store, session_id: str, scope: Scope = ANN) -> Session:
    """A session that must be there."""
    session = await store.get_session(scope, session_id)
    assert session is not None
    return session


async def listed(store: Store, limit: int, scope: Scope = ANN) -> AsyncIterator[tuple[Session, ...]]:
    """The pages of a list, one after another."""
    cursor: str | None = None
    while True:
        page = await store.list_sessions(scope, limit, cursor)
        if page.sessions:
            yield page.sessions
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


async def ids(store: Store, limit: int, scope: Scope = ANN) -> list[str]:
    """The ids of all pages."""
    return [session.id async for page in listed(store, limit, scope) for session in page]


class SessionCases:
    """Session records."""

    async def test_a_made_session_is_read_as_it_was_returned(self, stores: Stores, store: Store) -> None:
        made = await store.create_session(ANN, "s", NewSession("echo", title="Plans", model="m"))
        assert (made.id, made.owner_id, made.agent, made.title, made.model) == ("s", "ann", "echo", "Plans", "m")
        assert (made.temporary, made.expires_at, made.is_turn_active, made.message_count) == (False, None, False, 0)
        assert made.created_at == made.updated_at
        assert await stores.open().get_session(ANN, "s") == made

    async def test_an_absent_session_id_is_minted(self, store: Store) -> None:
        made = [await store.create_session(ANN, None, ECHO) for _ in range(2)]
        assert made[0].id != made[1].id
        assert await named(store, made[0].id) == made[0]

    async def test_the_same_id_again_is_the_same_session(self, store: Store) -> None:
        made = await store.create_session(ANN, "s", NewSession("echo", title="one", model="m"), state_of(custom=1))
        again = await store.create_session(ANN, "s", NewSession("other", title="two"), state_of(custom=2))
        assert again == made
        transcript = await store.get_transcript(ANN, "s")
        assert transcript is not None
        assert transcript.state == state_of(custom=1)

    async def test_the_same_id_during_a_turn_is_the_session_with_its_turn(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        again = await store.create_session(ANN, lease.session_id, ECHO)
        assert (again.is_turn_active, again.active_snapshot_id) == (True, lease.snapshot_id)
        await store.settle_turn(lease, completed(lease))

    async def test_the_same_id_in_another_tenant_is_another_session(self, store: Store) -> None:
        await store.create_session(ANN, "s", NewSession("echo", title="here"))
        await store.create_session(ELSEWHERE, "s", NewSession("echo", title="there"))
        assert (await named(store, "s")).title == "here"
        assert (await named(store, "s", ELSEWHERE)).title == "there"

    async def test_custom_state_makes_a_completed_root(self, stores: Stores, store: Store) -> None:
        custom = State.of({"custom": {"plan": [1, None]}})
        made = await store.create_session(ANN, "s", NewSession("echo", title="t", model="m"), custom)
        assert made == await named(stores.open(), "s")
        assert made.head_snapshot_id is not None
        root = await require(stores.open(), made.head_snapshot_id)
        assert (root.status, root.origin, root.state, root.parent_id) == (COMPLETED, Origin.SAVE, custom, None)
        assert (made.title, made.model, root.model) == ("t", "m", "m")

    async def test_a_custom_state_over_the_limit_makes_no_session(self, stores: Stores) -> None:
        store = stores.open(max_state_size=1000)
        with pytest.raises(StateTooLargeError):
            await store.create_session(ANN, "s", ECHO, state_of(custom="x" * 1000))
        assert await store.get_session(ANN, "s") is None

    async def test_a_rename_moves_the_update_and_nothing_else(self, stores: Stores, store: Store) -> None:
        made = await store.create_session(ANN, "s", ECHO, state_of("a"))
        renamed = await store.update_session(ANN, "s", title="new")
        assert renamed == replace(made, title="new", updated_at=renamed.updated_at)
        assert renamed.updated_at > made.updated_at
        assert await named(stores.open(), "s") == renamed

    async def test_a_missing_session_cannot_be_renamed(self, store: Store) -> None:
        await store.create_session(ANN, "s", ECHO)
        for scope, session_id in ((ANN, "nothing"), (BOB, "s"), (ELSEWHERE, "s")):
            with pytest.raises(SessionNotFoundError):
                await store.update_session(scope, session_id, title="new")
        assert (await named(store, "s")).title == ""

    async def test_the_model_changes_between_turns_only(self, store: Store) -> None:
        await store.create_session(ANN, "s", NewSession("echo", model="m"))
        assert (await store.update_session(ANN, "s", model="n")).model == "n"
        lease = await claimed(store, claim("a", "s", model="n"))
        with pytest.raises(TurnBusyError):
            await store.update_session(ANN, "s", model="o")
        await store.settle_turn(lease, completed(lease))
        assert (await store.update_session(ANN, "s", title="t", model="o")).model == "o"
        assert (await named(store, "s")).model == "o"

    async def test_a_model_change_settles_a_stale_turn(self, stores: Stores, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        await stores.wait(stores.moment)
        late = stores.open(lease_staleness=stores.moment)
        changed = await late.update_session(ANN, lease.session_id, model="n")
        assert changed == await named(store, lease.session_id)
        assert (changed.model, changed.active_snapshot_id) == ("n", None)
        assert (await require(store, lease.snapshot_id)).status is FAILED

    async def test_the_transcript_is_the_session_with_its_heads_state(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        second = await converse(store, "b", first.session_id)
        transcript = await stores.open().get_transcript(ANN, first.session_id)
        assert transcript is not None
        assert transcript.state == second.state
        assert transcript.session == await named(store, first.session_id)

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    async def test_a_list_is_newest_first_and_each_session_comes_once(self, store: Store, limit: int) -> None:
        for session_id in ("c", "a", "b", "e", "d", "f", "g"):
            await store.create_session(ANN, session_id, ECHO)
        await store.update_session(ANN, "a", title="touched")
        assert await ids(store, limit) == ["a", "g", "f", "d", "e", "b", "c"]
        pages = [len(page) async for page in listed(store, limit)]
        assert max(pages) <= limit

    async def test_a_list_shows_metadata_only_of_the_users_own_persisted_sessions(self, store: Store) -> None:
        own = await store.create_session(ANN, "own", NewSession("echo", title="t"), state_of("a"))
        await store.create_session(ANN, "temporary", NewSession("echo", lifetime=1000.0))
        await store.create_session(BOB, "bobs", ECHO)
        await store.create_session(ELSEWHERE, "elsewhere", ECHO)
        page = await store.list_sessions(ANN, 10)
        assert (page.sessions, page.next_cursor) == ((own,), None)
        assert await ids(store, 10, BOB) == ["bobs"]
        assert (await store.list_sessions(Scope("acme", "nobody"), 10)).sessions == ()

    async def test_a_turn_moves_its_session_to_the_front_of_the_list(self, store: Store) -> None:
        first = await converse(store, "a")
        await store.create_session(ANN, "other", ECHO)
        assert await ids(store, 10) == ["other", first.session_id]
        lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        assert await ids(store, 10) == [first.session_id, "other"]
        await save(store, "row", session_id="third")
        await store.heartbeat([lease])
        assert await ids(store, 10) == ["third", first.session_id, "other"]

    async def test_a_session_that_changes_between_pages_does_not_repeat_others(self, store: Store) -> None:
        for session_id in ("a", "b", "c", "d"):
            await store.create_session(ANN, session_id, ECHO)
        page = await store.list_sessions(ANN, 2)
        await store.update_session(ANN, "a", title="now the newest")
        rest = await store.list_sessions(ANN, 2, page.next_cursor)
        assert [session.id for session in page.sessions + rest.sessions] == ["d", "c", "b"]

    @pytest.mark.parametrize(
        "cursor",
        [
            "",
            "x",
            "!!!",
            "bnVsbA",
            "WyIyMDI2LTAxLTAxIiwieCJd",
            "WyIyMDI2LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwxXQ",
            "é",
            "W10",
        ],
    )
    async def test_a_cursor_that_was_not_made_here_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidRequestError, match="cursor"):
            await store.list_sessions(ANN, 10, cursor)

    async def test_a_temporary_session_lives_for_its_time(self, stores: Stores, store: Store) -> None:
        made = await store.create_session(ANN, "s", NewSession("echo", lifetime=3600.0), state_of("a"))
        assert made.temporary
        assert made.expires_at is not None
        assert abs(made.expires_at - made.created_at - timedelta(hours=1)) < timedelta(seconds=1)
        lease = await claimed(store, claim("b", "s", last_message_id="a"))
        settled = await store.settle_turn(lease, completed(lease))
        assert settled.updated_at is not None
        assert await require(stores.open(), settled.snapshot_id) == settled
        assert await named(stores.open(), "s") == replace(
            made,
            updated_at=settled.updated_at,
            head_snapshot_id=settled.snapshot_id,
            last_message_id="b-answer",
            message_count=3,
        )
        assert await ids(store, 10) == []

    @pytest.mark.parametrize("with_root", [False, True])
    async def test_an_expired_session_and_its_rows_read_as_missing(
        self, stores: Stores, store: Store, with_root: bool
    ) -> None:
        await converse(store, "other")  # the first calls of a database can be slow, and a lifetime is real time there
        new = NewSession("echo", lifetime=stores.moment * 10)
        await store.create_session(ANN, "s", new, state_of("a") if with_root else None)
        lease = await claimed(store, claim("b", "s", last_message_id="a" if with_root else None))
        settled = await store.settle_turn(lease, completed(lease))
        await stores.wait(stores.moment * 10)
        for instance in (store, stores.open()):
            assert await instance.get_session(ANN, "s") is None
            assert await instance.get_transcript(ANN, "s") is None
            assert await instance.get_latest_snapshot(ANN, "s") is None
            assert await instance.get_latest_snapshot_metadata(ANN, "s") is None
            assert await instance.get_snapshot(ANN, settled.snapshot_id) is None
            assert await instance.get_snapshot_metadata(ANN, settled.snapshot_id) is None
        for refused in (
            store.claim_turn(ANN, claim("c", "s", last_message_id="b-answer")),
            store.update_session(ANN, "s", title="late"),
            store.abort_session(ANN, "s"),
            store.create_session(ANN, "s", ECHO),
        ):
            with pytest.raises(SessionNotFoundError):
                await refused
        with pytest.raises(SnapshotNotFoundError):
            await store.abort_turn(ANN, settled.snapshot_id)

    async def test_a_turn_that_outlives_its_session_is_told_so(self, stores: Stores, store: Store) -> None:
        await converse(store, "other")
        await store.create_session(ANN, "s", NewSession("echo", lifetime=stores.moment * 10))
        lease = await claimed(store, claim("a", "s"))
        await stores.wait(stores.moment * 10)
        with pytest.raises(SessionNotFoundError):
            await store.settle_turn(lease, completed(lease))
        assert await store.get_snapshot(ANN, lease.snapshot_id) is None
