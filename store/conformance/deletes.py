"""Delete: nothing of the session remains, whatever happens in between, and nothing else is touched."""

from collections.abc import Sequence

import pytest

from store.conformance.conversations import add, conversation, documents, of_session, plain_turn, taken
from store.conformance.harness import Store, Stores
from store.conformance.interposed import Crash, dying_store, interposed_store
from store.conformance.turns import ANN, BOB, ELSEWHERE, claim, completed, converse
from store.database import Kind, Path, Put, Write
from store.errors import LeaseLostError, SessionNotFoundError
from store.layout.fields import FORMAT_VERSION
from store.models import NewSession
from store.rules.history import messages_of


async def with_every_kind(stores: Stores, store: Store) -> str:
    """A session with rows, shards, and documents of the kinds that others write."""
    session_id = await conversation(store, "a", "b")
    fields = {"formatVersion": FORMAT_VERSION, "sessionId": session_id}
    await stores.database.commit(
        [Put(Path(kind, ANN.tenant, f"of-{session_id}"), fields) for kind in (Kind.STREAMS, Kind.BLOBS)]
    )
    return session_id


class DeleteCases:
    """Deleting a session, also in several attempts."""

    async def test_no_document_of_a_deleted_session_remains(self, stores: Stores, store: Store) -> None:
        """Case 55."""
        session_id = await with_every_kind(stores, store)
        kinds = {path.kind for path in of_session(await documents(stores), session_id)}
        assert kinds == {Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS, Kind.STREAMS, Kind.BLOBS}
        await store.delete_session(ANN, session_id)
        assert await documents(stores) == {}
        with pytest.raises(SessionNotFoundError):
            await store.delete_session(ANN, session_id)

    async def test_a_deleted_session_reads_as_missing_everywhere(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a")
        row = await store.get_latest_snapshot(ANN, session_id)
        assert row is not None
        await store.delete_session(ANN, session_id)
        for instance in (store, stores.open()):  # the one still has its state in memory
            assert await instance.get_session(ANN, session_id) is None
            assert await instance.get_transcript(ANN, session_id) is None
            assert await instance.get_latest_snapshot(ANN, session_id) is None
            assert await instance.get_snapshot(ANN, row.snapshot_id) is None
            assert (await instance.list_sessions(ANN, 10)).sessions == ()
            for refused in (
                instance.truncate(ANN, session_id, "a"),
                instance.restore(ANN, session_id, row.snapshot_id),
                instance.branch(ANN, session_id, "a"),
                instance.list_snapshots(ANN, session_id, 10),
                instance.update_session(ANN, session_id, title="x"),
            ):
                with pytest.raises(SessionNotFoundError):
                    await refused

    async def test_sessions_whose_ids_begin_alike_are_left_alone(self, stores: Stores, store: Store) -> None:
        for scope, session_id in ((ANN, "s-1"), (ANN, "s-"), (BOB, "s-2"), (ELSEWHERE, "s")):
            await store.create_session(scope, session_id, NewSession("echo"))
            await add(store, session_id, plain_turn("a"), scope=scope)
        before = await documents(stores)
        await store.create_session(ANN, "s", NewSession("echo"))
        await add(store, "s", plain_turn("a"))
        await store.delete_session(ANN, "s")
        assert await documents(stores) == before
        left = [await store.get_transcript(ANN, "s-")]
        await store.delete_session(ANN, "s-1")  # the other way round: its own id begins like another one's
        assert [await store.get_transcript(ANN, "s-")] == left
        assert {path for path in before if path not in await documents(stores)} == {*of_session(before, "s-1")}

    async def test_others_cannot_delete_a_session(self, stores: Stores, store: Store) -> None:
        session_id = await conversation(store, "a")
        before = await documents(stores)
        for scope, target in ((BOB, session_id), (ELSEWHERE, session_id), (ANN, "nothing")):
            with pytest.raises(SessionNotFoundError):
                await store.delete_session(scope, target)
        assert await documents(stores) == before

    async def test_a_deleted_id_can_be_used_again(self, store: Store) -> None:
        await store.create_session(ANN, "s", NewSession("echo"))
        await add(store, "s", plain_turn("a"))
        await store.delete_session(ANN, "s")
        again = await store.create_session(ANN, "s", NewSession("echo"))
        assert (again.message_count, again.head_snapshot_id) == (0, None)
        assert (await converse(store, "a", "s")).session_id == "s"

    @pytest.mark.parametrize("commits", [1, 2, 3])
    async def test_a_delete_that_was_cut_short_reads_as_done_and_is_finished_by_the_next(
        self, stores: Stores, store: Store, commits: int
    ) -> None:
        """After its mark, after its rows, after its shards: whenever the instance dies."""
        session_id = await with_every_kind(stores, store)
        row = await store.get_latest_snapshot(ANN, session_id)
        assert row is not None
        with pytest.raises(Crash):
            await dying_store(stores.database, commits).delete_session(ANN, session_id)
        assert of_session(await documents(stores), session_id)
        assert await stores.open().get_session(ANN, session_id) is None
        with pytest.raises(SessionNotFoundError):
            await store.claim_turn(ANN, claim("c", session_id, last_message_id="b-answer"))
        with pytest.raises(SessionNotFoundError):
            await store.create_session(ANN, session_id, NewSession("echo"))
        await stores.open().delete_session(ANN, session_id)
        assert await documents(stores) == {}

    async def test_a_delete_that_another_one_overtakes_leaves_the_ids_next_session_alone(
        self, stores: Stores, store: Store
    ) -> None:
        """Two calls delete the session; before the slower one's first batch its id is in use again."""
        session_id = await conversation(store, "a")
        commits = 0

        async def reuse_the_id(_: Sequence[Write]) -> None:
            nonlocal commits
            commits += 1
            if commits == 2:  # the first one marked the session
                await store.delete_session(ANN, session_id)
                await store.create_session(ANN, session_id, NewSession("echo"))
                await converse(store, "again", session_id)

        await interposed_store(stores.database, reuse_the_id).delete_session(ANN, session_id)
        assert commits == 2
        transcript = await stores.open().get_transcript(ANN, session_id)
        assert transcript is not None
        assert [message.key for message in messages_of(transcript.state)] == ["again", "again-answer"]
        assert len((await store.list_snapshots(ANN, session_id, 10)).snapshots) == 1

    async def test_a_turn_that_is_deleted_under_its_dead_owner_publishes_nothing(
        self, stores: Stores, store: Store
    ) -> None:
        """Case 26: the owner wakes, finds its row gone, and the session is not made anew."""
        owner = stores.open(lease_staleness=stores.moment)
        session_id = await conversation(owner, "a")
        lease = await taken(owner, "b", session_id)
        await stores.wait(stores.moment)
        await owner.delete_session(ANN, session_id)
        with pytest.raises(LeaseLostError):
            await owner.settle_turn(lease, completed(lease))
        assert await documents(stores) == {}
