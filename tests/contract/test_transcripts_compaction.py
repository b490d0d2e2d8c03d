"""Compaction through an engine, on every store: under the lease of the session, and never half-way."""

import asyncio

import pytest

from functions.engine.compacting import CompactionFailedError
from store.documents.store import DocumentStore
from store.errors import (
    AlreadyCompactError,
    CompactionConflictError,
    ModelUnavailableError,
    SessionNotFoundError,
    StoreError,
    TurnBusyError,
)
from store.models import Origin
from store.rules.history import is_compaction
from tests.contract.conversations import add, compaction, documents, empty_session, ids, kept, plain_turn, state_of_head
from tests.contract.engine_turns import ScriptedAgent, SummingAgent, engine_on, heard, said
from tests.contract.stores import Stores
from tests.contract.turns import ABORTED, ANN, BOB, COMPLETED, FAILED, claim, claimed, completed, message, require


async def test_a_compaction_is_appended_and_everything_before_it_kept(stores: Stores, store: DocumentStore) -> None:
    """Case 38."""
    session_id = await kept(store, *plain_turn("a"), *plain_turn("b"), custom={"n": 1})
    before = await store.get_latest_snapshot(ANN, session_id)
    assert before is not None
    agent = SummingAgent("<checkpoint/>")
    async with engine_on(store, agent) as engine:
        stored = await engine.compact(ANN, session_id, None)
    assert stored["role"] == "user"
    assert stored["metadata"] == {"isCompaction": True}
    assert stored["content"] == [{"text": "<checkpoint/>"}]
    cold = stores.open()
    state = await state_of_head(cold, session_id)
    assert state.get("messages") == [*plain_turn("a"), *plain_turn("b"), stored]
    assert state.get("custom") == {"n": 1}
    row = await cold.get_latest_snapshot(ANN, session_id)
    assert row is not None
    assert (row.origin, row.status, row.parent_id) == (Origin.COMPACT, COMPLETED, before.snapshot_id)
    assert (row.last_message_id, row.message_id) == (stored["id"], None)
    assert await require(cold, before.snapshot_id) == before
    session = await cold.get_session(ANN, session_id)
    assert session is not None
    assert (session.last_message_id, session.message_count, session.active_snapshot_id) == (stored["id"], 5, None)


async def test_later_turns_and_compactions_see_the_newest_one_and_what_follows(store: DocumentStore) -> None:
    """Cases 39 and 40."""
    session_id = await kept(store, *plain_turn("a"))
    agent = SummingAgent("first", "second")
    async with engine_on(store, agent) as engine:
        await engine.compact(ANN, session_id, None)
        await said(engine, store, session_id, "b")
        assert heard(agent.turns[0]) == ["first"]
        await said(engine, store, session_id, "c")
        assert heard(agent.turns[1]) == ["first", "b", "ok"]
        await engine.compact(ANN, session_id, None)
        await said(engine, store, session_id, "d")
    assert [heard_of["content"][0]["text"] for heard_of in agent.summed[0]] == ["Question a", "Answer to a"]
    assert [heard_of["content"][0]["text"] for heard_of in agent.summed[1]] == ["first", "b", "ok", "c", "ok"]
    assert heard(agent.turns[2]) == ["second"]
    messages = (await state_of_head(store, session_id)).get("messages")
    assert [is_compaction(each) for each in messages].count(True) == 2
    assert len(messages) == 10


async def test_without_a_complete_turn_there_is_nothing_to_sum_up(stores: Stores, store: DocumentStore) -> None:
    """Case 41: an empty session, a message that nobody answered, and a compaction at the end."""
    await empty_session(store, "empty")
    sessions = [
        "empty",
        await kept(store, message("a")),
        await kept(store, *plain_turn("a"), compaction("k")),
        await kept(store, *plain_turn("a"), compaction("k"), message("b")),
    ]
    before = await documents(stores)
    agent = SummingAgent()
    async with engine_on(store, agent) as engine:
        for session_id in sessions:
            with pytest.raises(AlreadyCompactError):
                await engine.compact(ANN, session_id, None)
        for scope, session_id in ((BOB, sessions[1]), (ANN, "nothing")):
            with pytest.raises(SessionNotFoundError):
                await engine.compact(scope, session_id, None)
    assert agent.summed == []
    assert await documents(stores) == before


async def test_a_session_is_busy_while_it_is_summed_up(stores: Stores, store: DocumentStore) -> None:
    """Case 42, on another instance too."""
    session_id = await kept(store, *plain_turn("a"))
    go_on = asyncio.Event()
    agent = SummingAgent(go_on)
    async with engine_on(store, agent) as engine:
        compacting = asyncio.create_task(engine.compact(ANN, session_id, None))
        await agent.asked.wait()
        other = stores.open()
        with pytest.raises(TurnBusyError):
            await other.claim_turn(ANN, claim("b", session_id, last_message_id="a-answer"))
        with pytest.raises(TurnBusyError):
            await other.truncate(ANN, session_id, "a")
        with pytest.raises(TurnBusyError):
            await engine.compact(ANN, session_id, None)
        go_on.set()
        stored = await compacting
        await said(engine, store, session_id, "b")
    assert ids(await state_of_head(store, session_id))[:3] == ["a", "a-answer", stored["id"]]


async def test_a_turn_refuses_a_compaction_while_it_lives_and_yields_to_it_when_dead(
    stores: Stores, store: DocumentStore
) -> None:
    """Case 51."""
    first = await add(store, None, plain_turn("a"))
    lease = await claimed(store, claim("b", first.session_id, last_message_id="a-answer"))
    agent = SummingAgent("summary")
    successor = stores.open(lease_staleness=stores.moment)
    async with engine_on(store, agent) as engine, engine_on(successor, agent) as late:
        with pytest.raises(TurnBusyError):
            await engine.compact(ANN, first.session_id, None)
        await stores.wait(stores.moment)
        stored = await late.compact(ANN, first.session_id, None)
    assert (await require(store, lease.snapshot_id)).status is FAILED
    assert ids(await state_of_head(store, first.session_id)) == ["a", "a-answer", stored["id"]]


async def test_a_compaction_discards_itself_where_the_transcript_has_changed(
    stores: Stores, store: DocumentStore
) -> None:
    """Cases 43 and 44: its lease went stale, and somebody else went on."""
    session_id = await kept(store, *plain_turn("a"))
    go_on = asyncio.Event()
    agent = SummingAgent(go_on)
    async with engine_on(store, agent) as engine:
        compacting = asyncio.create_task(engine.compact(ANN, session_id, None))
        await agent.asked.wait()
        successor = stores.open(lease_staleness=stores.moment)
        await stores.wait(stores.moment)
        lease = await claimed(successor, claim("b", session_id, last_message_id="a-answer"))
        await successor.settle_turn(lease, completed(lease))
        before = await documents(stores)
        go_on.set()
        with pytest.raises(CompactionConflictError):
            await compacting
    assert await documents(stores) == before
    assert ids(await state_of_head(store, session_id)) == ["a", "a-answer", "b", "b-answer"]


async def test_an_abort_stops_a_compaction_and_leaves_the_transcript(stores: Stores, store: DocumentStore) -> None:
    session_id = await kept(store, *plain_turn("a"))
    before = await state_of_head(store, session_id)
    agent = SummingAgent(asyncio.Event())
    async with engine_on(store, agent) as engine:
        compacting = asyncio.create_task(engine.compact(ANN, session_id, None))
        await agent.asked.wait()
        abort = await stores.open().abort_session(ANN, session_id)
        with pytest.raises(CompactionConflictError):
            await compacting
    row = await require(store, abort.snapshot_id)
    assert (row.origin, row.status, row.state) == (Origin.COMPACT, ABORTED, None)
    session = await stores.open().get_session(ANN, session_id)
    assert session is not None
    assert (session.active_snapshot_id, session.last_message_id) == (None, "a-answer")
    assert await state_of_head(stores.open(), session_id) == before


async def test_an_agent_that_fails_leaves_the_transcript_and_the_session_free(
    stores: Stores, store: DocumentStore
) -> None:
    """Case 46; what an agent may not give as a summary fails likewise."""
    session_id = await kept(store, *plain_turn("a"))
    before = await state_of_head(store, session_id)
    agent = SummingAgent(RuntimeError("secret"), "", " \n", None, 7, "half \ud800", "summary")
    async with engine_on(store, agent) as engine:
        for _ in range(6):
            with pytest.raises(CompactionFailedError) as caught:
                await engine.compact(ANN, session_id, None)
            assert "secret" not in caught.value.message
            row = await stores.open().get_latest_snapshot(ANN, session_id)
            assert row is not None
            assert (row.origin, row.status, row.state) == (Origin.COMPACT, FAILED, None)
            assert await state_of_head(stores.open(), session_id) == before
        await engine.compact(ANN, session_id, None)


async def test_a_model_that_is_configured_no_more_refuses_a_compaction(stores: Stores, store: DocumentStore) -> None:
    session_id = await kept(store, *plain_turn("a"))
    await store.update_session(ANN, session_id, model="gone")
    before = await documents(stores)

    class Choosy(SummingAgent):
        models = ("here",)

    agent = Choosy("summary")
    async with engine_on(store, agent) as engine:
        with pytest.raises(ModelUnavailableError):
            await engine.compact(ANN, session_id, None)
        assert await documents(stores) == before
        await store.update_session(ANN, session_id, model="here")
        await engine.compact(ANN, session_id, None)
    row = await store.get_latest_snapshot(ANN, session_id)
    assert row is not None
    assert row.model == "here"


async def test_a_compaction_over_the_limit_fails_and_frees_the_session(stores: Stores) -> None:
    store = stores.open(max_state_size=1000)
    session_id = await kept(store, *plain_turn("a"))
    async with engine_on(store, SummingAgent("x" * 1000)) as engine:
        with pytest.raises(StoreError):
            await engine.compact(ANN, session_id, None)
    session = await store.get_session(ANN, session_id)
    assert session is not None
    assert (session.active_snapshot_id, session.last_message_id) == (None, "a-answer")


async def test_an_agent_without_a_hook_is_asked_for_a_checkpoint(store: DocumentStore) -> None:
    session_id = await kept(store, *plain_turn("a"))
    agent = ScriptedAgent()
    async with engine_on(store, agent) as engine:
        stored = await engine.compact(ANN, session_id, "the numbers")
    assert stored["content"] == [{"text": "ok"}]
    [turn] = agent.turns
    assert heard(turn) == ["Question a", "Answer to a"]
    assert turn.message is not None
    [part] = turn.message["content"]
    for element in ("objectives", "constraints", "decisions", "completed_work", "blockers", "next_steps"):
        assert f"<{element}>" in part["text"]
    assert "the numbers" in part["text"]
