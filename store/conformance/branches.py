"""Branch: a new session with a prefix of another one's transcript, every message under an id of its own."""

import uuid
from typing import Any

import pytest

from store.conformance.conversations import (
    add,
    all_documents,
    compaction,
    conversation,
    documents,
    empty_session,
    ids,
    kept,
    of_session,
    parts,
    plain_turn,
    state_of_head,
    tool_turn,
)
from store.conformance.harness import Store, Stores
from store.conformance.turns import ANN, BOB, COMPLETED, converse, require
from store.errors import (
    InvalidRequestError,
    MessageNotFoundError,
    SessionExistsError,
    SessionNotFoundError,
)
from store.models import NewSession, Origin
from store.state import State

A, B, C = ([message["id"] for message in tool_turn(name)] for name in "abc")


def without_ids(state: State) -> list[Any]:
    """The messages of a state, their ids left out."""
    return [{name: value for name, value in message.items() if name != "id"} for message in state.get("messages")]


class BranchCases:
    """Copying a beginning."""

    @pytest.mark.parametrize(
        ("target", "count"),
        [
            pytest.param("b", 5, id="52-a user message is left out"),
            pytest.param("b-answer", 10, id="53-a model message is the last one taken"),
            pytest.param("b-calls", 9, id="with the results of its calls"),
            pytest.param("a", 0, id="53-the first user message leaves nothing"),
        ],
    )
    async def test_a_branch_has_the_prefix_under_new_ids(
        self, stores: Stores, store: Store, target: str, count: int
    ) -> None:
        """Cases 52 and 53; the source stays as it is."""
        source = await kept(store, *tool_turn("a"), *tool_turn("b"), *tool_turn("c"), custom={"n": 1}, artifacts=[1])
        before, origin = await documents(stores), await state_of_head(store, source)
        session = await store.branch(ANN, source, target)
        cold = stores.open()
        copy = await state_of_head(cold, session.id)
        assert without_ids(copy) == without_ids(origin)[:count]
        assert (copy.get("custom"), copy.get("artifacts")) == ({"n": 1}, [1])
        fresh = ids(copy)
        assert len(set(fresh)) == count
        assert all(uuid.UUID(name or "").version == 4 for name in fresh)
        assert not set(fresh) & set(ids(origin))
        after = await documents(stores)
        assert {path: after[path] for path in before} == before
        assert session == await cold.get_session(ANN, session.id)

    async def test_a_branch_knows_where_it_comes_from(self, stores: Stores, store: Store) -> None:
        source = await store.create_session(ANN, "s", NewSession("echo", "A name", "m"))
        row = await add(store, "s", plain_turn("a"))
        session = await store.branch(ANN, "s", "a-answer")
        assert session.branched_from == {"sessionId": "s", "snapshotId": row.snapshot_id, "messageId": "a-answer"}
        assert (session.agent, session.title, session.model) == ("echo", source.title, "m")
        assert (session.temporary, session.expires_at, session.active_snapshot_id) == (False, None, None)
        root = await require(stores.open(), session.head_snapshot_id or "")
        assert (root.origin, root.status, root.parent_id, root.model) == (Origin.BRANCH, COMPLETED, None, "m")

    async def test_a_temporary_session_has_temporary_branches_that_expire_with_it(self, store: Store) -> None:
        """Case 54."""
        source = await store.create_session(ANN, "s", NewSession("echo", lifetime=3600.0))
        await add(store, "s", plain_turn("a"))
        session = await store.branch(ANN, "s", "a-answer")
        assert session.temporary
        assert session.expires_at == source.expires_at
        assert [listed.id for listed in (await store.list_sessions(ANN, 10)).sessions] == []

    async def test_a_compaction_is_copied_under_a_new_id(self, store: Store) -> None:
        """Case 54."""
        source = await kept(store, *plain_turn("a"), compaction("k"), *plain_turn("b"))
        session = await store.branch(ANN, source, "b-answer")
        messages = (await state_of_head(store, session.id)).get("messages")
        assert [message.get("metadata") for message in messages] == [None, None, {"isCompaction": True}, None, None]

    async def test_what_names_a_message_in_metadata_follows(self, store: Store) -> None:
        naming = parts(
            "a-answer",
            "model",
            {"text": "a", "metadata": {"quotes": ["a", "elsewhere"]}},
            metadata={"replyTo": "a", "deep": [{"of": "b"}], "own": "a-answer"},
        )
        source = await kept(store, parts("a", "user", {"text": "a"}), naming, *plain_turn("b"))
        session = await store.branch(ANN, source, "a-answer")
        [first, second] = (await state_of_head(store, session.id)).get("messages")
        assert first["content"] == [{"text": "a"}]  # what is said is not touched
        assert second["content"] == [{"text": "a", "metadata": {"quotes": [first["id"], "elsewhere"]}}]
        # A message that was left behind keeps the only name that it has.
        assert second["metadata"] == {"replyTo": first["id"], "deep": [{"of": "b"}], "own": second["id"]}

    async def test_both_go_on_apart(self, stores: Stores, store: Store) -> None:
        source = await conversation(store, "a")
        session = await store.branch(ANN, source, "a-answer")
        await converse(store, "b", source)
        await converse(stores.open(), "b", session.id)
        assert ids(await state_of_head(store, source)) == [*A, "b", "b-answer"]
        assert len(ids(await state_of_head(store, session.id))) == 7

    async def test_the_same_call_again_gives_the_same_branch(self, stores: Stores, store: Store) -> None:
        source = await conversation(store, "a")
        session = await store.branch(ANN, source, "a-answer", "mine")
        await converse(store, "b", source)  # also where the source has gone on
        before = await documents(stores)
        assert await stores.open().branch(ANN, source, "a-answer", "mine") == session
        assert await documents(stores) == before

    async def test_an_id_that_another_session_has_is_refused(self, stores: Stores, store: Store) -> None:
        source = await conversation(store, "a")
        await empty_session(store, "taken")
        await store.branch(ANN, source, "a-answer", "branch")
        before = await documents(stores)
        for new_id, target in (("taken", "a-answer"), ("branch", "a"), (source, "a")):
            with pytest.raises(SessionExistsError):
                await store.branch(ANN, source, target, new_id)
        with pytest.raises(InvalidRequestError):
            await store.branch(ANN, source, "a-answer", "a/b")
        assert await documents(stores) == before

    async def test_a_branch_that_cannot_be_made_leaves_nothing(self, stores: Stores, store: Store) -> None:
        """Case 49."""
        source = await conversation(store, "a")
        await empty_session(store, "empty")
        before = await documents(stores)
        for session_id, target in ((source, "nothing"), ("empty", "a")):
            with pytest.raises(MessageNotFoundError):
                await store.branch(ANN, session_id, target, "new")
        for scope, session_id in ((BOB, source), (ANN, "nothing")):
            with pytest.raises(SessionNotFoundError):
                await store.branch(scope, session_id, "a-answer", "new")
        assert await documents(stores) == before

    async def test_a_branch_outlives_its_source(self, stores: Stores, store: Store) -> None:
        source = await conversation(store, "a")
        session = await store.branch(ANN, source, "a-answer", "mine")
        copy = await state_of_head(store, "mine")
        await store.delete_session(ANN, source)
        cold = stores.open()
        assert await state_of_head(cold, "mine") == copy
        assert await cold.branch(ANN, source, "a-answer", "mine") == session
        assert {path.kind.value for path in of_session(await all_documents(stores), "mine")} == {
            "pointers",
            "shards",
            "snapshots",
        }
