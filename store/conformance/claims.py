"""Claiming a turn: what the lease holds, and the order in which a claim is refused."""

import asyncio
import random
import string
from typing import Any

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.soundness import documents_of
from store.conformance.turns import (
    ANN,
    BOB,
    COMPLETED,
    PENDING,
    RUNNER,
    answered,
    claim,
    claimed,
    completed,
    converse,
    failed,
    message,
    require,
    state_of,
)
from store.database import Kind
from store.errors import (
    InvalidRequestError,
    ModelStaleError,
    SessionNotFoundError,
    StateTooLargeError,
    StoreError,
    TranscriptStaleError,
    TurnBusyError,
)
from store.models import NewSession, Origin
from store.state import EMPTY, Raw


async def everything(stores: Stores) -> list[tuple[Any, ...]]:
    """All documents with the times of their last change."""
    documents = [document for kind in Kind for document in await documents_of(stores.database, kind)]
    return [(document.path, document.update_time, document.fields) for document in documents]


class ClaimCases:
    """Claiming a turn."""

    async def test_a_first_turn_makes_the_session_and_a_pending_row(self, store: Store) -> None:
        lease = await claimed(store, claim("q", model="m", session=NewSession("echo", title="t", model="m")))
        assert (lease.parent_id, lease.state, lease.is_new_session, lease.model) == (None, EMPTY, True, "m")
        row = await require(store, lease.snapshot_id)
        assert (row.status, row.origin, row.state, row.parent_id) == (PENDING, Origin.TURN, None, None)
        assert (row.created_at, row.model, row.message_id) == (lease.created_at, "m", "q")
        assert row.heartbeat_at is not None
        session = await store.get_session(ANN, lease.session_id)
        assert session is not None
        assert (session.agent, session.title, session.model, session.owner_id) == ("echo", "t", "m", "ann")
        assert (session.is_turn_active, session.active_snapshot_id) == (True, lease.snapshot_id)
        assert (session.head_snapshot_id, session.message_count, session.temporary) == (None, 0, False)

    async def test_a_first_turn_in_a_made_session_continues_its_root(self, store: Store) -> None:
        made = await store.create_session(ANN, "s", NewSession("echo"), state_of(custom={"n": 1}))
        lease = await claimed(store, claim("q", "s"))
        assert (lease.parent_id, lease.state, lease.is_new_session) == (
            made.head_snapshot_id,
            state_of(custom={"n": 1}),
            False,
        )

    async def test_a_later_turn_continues_the_head_on_any_instance(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        lease = await claimed(stores.open(), claim("b", first.session_id, last_message_id="a-answer"))
        assert (lease.parent_id, lease.state) == (first.snapshot_id, first.state)
        row = await require(store, lease.snapshot_id)
        assert row.parent_id == first.snapshot_id
        assert row.created_at is not None
        assert first.created_at is not None
        assert row.created_at > first.created_at

    async def test_a_turn_may_follow_a_failed_one(self, store: Store) -> None:
        first = await converse(store, "a")
        broken = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        await store.settle_turn(broken, failed())
        lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
        assert lease.parent_id == first.snapshot_id

    @pytest.mark.parametrize("session_id", ["nothing", "00000000-0000-0000-0000-000000000000"])
    async def test_an_unknown_session_is_not_found(self, store: Store, session_id: str) -> None:
        with pytest.raises(SessionNotFoundError):
            await store.claim_turn(ANN, claim("q", session_id))
        assert await store.get_session(ANN, session_id) is None

    async def test_another_users_session_is_not_found_and_stays_as_it_is(self, stores: Stores, store: Store) -> None:
        first = await converse(store, "a")
        before = await everything(stores)
        with pytest.raises(SessionNotFoundError):
            await store.claim_turn(BOB, claim("q", first.session_id, last_message_id="a-answer"))
        assert await everything(stores) == before

    @pytest.mark.parametrize("tail", [None, "a", "nothing"])
    async def test_a_claim_with_another_tail_is_stale_and_told_the_right_one(self, store: Store, tail: str) -> None:
        first = await converse(store, "a")
        with pytest.raises(TranscriptStaleError) as caught:
            await store.claim_turn(ANN, claim("b", first.session_id, last_message_id=tail))
        assert caught.value.last_message_id == "a-answer"
        assert caught.value.details == {"lastMessageId": "a-answer"}

    async def test_a_tail_is_stale_where_there_are_no_messages(self, store: Store) -> None:
        await store.create_session(ANN, "s", NewSession("echo"))
        for session_id in ("s", None):
            with pytest.raises(TranscriptStaleError) as caught:
                await store.claim_turn(ANN, claim("q", session_id, last_message_id="a"))
            assert caught.value.details == {}
        assert (await store.list_sessions(ANN, 10)).sessions == ((await store.get_session(ANN, "s")),)

    async def test_a_claim_may_go_without_the_guard_on_the_tail(self, store: Store) -> None:
        first = await converse(store, "a")
        lease = await claimed(store, claim("b", first.session_id, last_message_id="nothing", check_tail=False))
        assert lease.parent_id == first.snapshot_id

    async def test_a_busy_session_names_its_turn_and_when_to_ask_again(self, store: Store) -> None:
        lease = await claimed(store, claim("a"))
        with pytest.raises(TurnBusyError) as caught:
            await store.claim_turn(ANN, claim("b", lease.session_id))
        assert (caught.value.snapshot_id, caught.value.retry_after_seconds) == (lease.snapshot_id, 3)
        assert caught.value.details == {"snapshotId": lease.snapshot_id, "retryAfterSeconds": 3}

    async def test_another_model_than_the_sessions_is_stale_and_told_the_right_one(self, store: Store) -> None:
        for session_id, model in (("s", "m"), ("none", None)):
            await store.create_session(ANN, session_id, NewSession("echo", model=model))
            with pytest.raises(ModelStaleError) as caught:
                await store.claim_turn(ANN, claim("q", session_id, model="other"))
            assert caught.value.details == ({"model": "m"} if model else {})

    async def test_the_sessions_model_is_the_turns_whether_asserted_or_not(self, store: Store) -> None:
        await store.create_session(ANN, "s", NewSession("echo", model="m"))
        lease = await claimed(store, claim("q", "s", model="m"))
        assert (await store.settle_turn(lease, completed(lease))).model == "m"
        lease = await claimed(store, claim("r", "s", last_message_id="q-answer"))
        assert lease.model == "m"
        assert (await require(store, lease.snapshot_id)).model == "m"

    async def test_the_order_is_stale_then_busy_then_model(self, store: Store) -> None:
        await store.create_session(ANN, "s", NewSession("echo", model="m"), state_of("a"))
        running = await claimed(store, claim("q", "s", last_message_id="a"))
        with pytest.raises(TranscriptStaleError):
            await store.claim_turn(ANN, claim("r", "s", last_message_id="old", model="other"))
        with pytest.raises(TurnBusyError):
            await store.claim_turn(ANN, claim("r", "s", last_message_id="a", model="other"))
        await store.settle_turn(running, failed())
        with pytest.raises(ModelStaleError):
            await store.claim_turn(ANN, claim("r", "s", last_message_id="a", model="other"))

    async def test_a_refused_claim_changes_no_document(self, stores: Stores) -> None:
        store = stores.open(max_state_size=2000)
        await store.create_session(ANN, "s", NewSession("echo", model="m"), state_of("a"))
        await store.create_session(ANN, "busy", NewSession("echo"))
        await claimed(store, claim("q", "busy"))
        before = await everything(stores)
        for refused in (
            claim("r", "nothing"),
            claim("r", "s", last_message_id="old"),
            claim("r", "busy"),
            claim("r", "s", last_message_id="a", model="other"),
            claim("a", "s", last_message_id="a", text="something else"),
            claim("r", "s", last_message_id="a", text="x" * 2000),
            claim("r", None, text="x" * 2000),
            claim("r", "s", last_message_id="a", snapshot_to_resume="nothing"),
            claim("r", None, last_message_id="a"),
        ):
            with pytest.raises(StoreError):
                await store.claim_turn(ANN, refused)
        assert await everything(stores) == before

    async def test_a_message_that_the_state_cannot_take_is_refused_before_the_agent_works(self, stores: Stores) -> None:
        store = stores.open(max_state_size=1000)
        first = await converse(store, "a")
        for session_id, tail in ((None, None), (first.session_id, "a-answer")):
            with pytest.raises(StateTooLargeError):
                await store.claim_turn(ANN, claim("big", session_id, text="x" * 1000, last_message_id=tail))

    @pytest.mark.parametrize(
        "fields",
        [
            pytest.param({"message": None}, id="neither message nor resume"),
            pytest.param({"resume": Raw.of({})}, id="both"),
            pytest.param({"message": Raw.of({"role": "user"})}, id="a message without an id"),
            pytest.param({"message": Raw.of(message("x" * 129))}, id="a long message id"),
            pytest.param({"message": Raw.of(message("a\n"))}, id="an unprintable message id"),
            pytest.param({"message": None, "resume": Raw.of({})}, id="a resume without a session"),
            pytest.param({"session": NewSession("echo", lifetime=60.0)}, id="a temporary session"),
        ],
    )
    async def test_a_claim_that_makes_no_sense_is_refused(self, stores: Stores, store: Store, fields: Any) -> None:
        with pytest.raises(InvalidRequestError):
            await store.claim_turn(ANN, claim(**fields))
        assert await everything(stores) == []

    async def test_a_resume_continues_the_head_without_a_message(self, store: Store) -> None:
        first = await converse(store, "a")
        resume = claim(None, first.session_id, message=None, resume=Raw.of({"respond": []}), last_message_id="a-answer")
        lease = await claimed(store, resume)
        assert (lease.parent_id, lease.message_id) == (first.snapshot_id, None)
        assert (await store.settle_turn(lease, completed(lease))).status is COMPLETED

    @pytest.mark.parametrize("size", [100, 500_000])
    async def test_the_request_is_kept_by_the_row_until_it_settles(self, stores: Stores, size: int) -> None:
        """Up to 256 KiB compressed it lies in the row, beyond that in shards; neither outlives the turn."""
        store = stores.open(shard_size=100_000)
        text = "".join(random.Random(size).choices(string.ascii_letters, k=size))  # hardly compressible
        lease = await claimed(store, claim("q", text=text))
        [row] = await documents_of(stores.database, Kind.SNAPSHOTS)
        shards = await documents_of(stores.database, Kind.SHARDS)
        assert ("request" in row.fields, bool(shards)) == ((True, False) if size == 100 else (False, True))
        await store.settle_turn(lease, failed())
        assert await documents_of(stores.database, Kind.SHARDS) == []

    async def test_a_claim_that_was_sent_twice_has_one_lease(self, stores: Stores, store: Store) -> None:
        """The caller repeats a claim with the same ids where it has lost the answer."""
        first = await converse(store, "a")
        given = claim("b", first.session_id, last_message_id="a-answer")
        lost, again = [await claimed(each, given) for each in (store, stores.open())]
        assert (again.snapshot_id, again.attempt, again.state) == (lost.snapshot_id, lost.attempt, lost.state)
        settled = await store.settle_turn(again, completed(again))
        assert settled.state == answered(lost)

    async def test_a_first_claim_that_was_sent_twice_has_one_lease(self, stores: Stores, store: Store) -> None:
        given = claim("b")
        lost, again = [await claimed(each, given) for each in (store, stores.open())]
        assert (again.session_id, again.snapshot_id) == (lost.session_id, lost.snapshot_id)
        assert (await store.settle_turn(again, completed(again))).status is COMPLETED

    async def test_turns_of_several_sessions_do_not_disturb_each_other(self, store: Store) -> None:
        leases = await asyncio.gather(*(claimed(store, claim(f"q{n}", runner=RUNNER)) for n in range(5)))
        assert len({lease.session_id for lease in leases}) == 5
        await asyncio.gather(*(store.settle_turn(lease, completed(lease)) for lease in leases))
