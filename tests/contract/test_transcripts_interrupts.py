"""Humans in the loop, on every store: an agent asks, its turn ends as interrupted, the next one answers or moves on."""

import asyncio
from typing import Any

import pytest

from functions.agents.base import AgentEvent, Finish, TextDelta, ToolRequest, ToolResponse
from functions.engine.running import RunningTurn
from store.canonical import Json
from store.documents.store import DocumentStore
from store.errors import InvalidRequestError
from store.models import Snapshot
from tests.contract.conversations import documents, state_of_head
from tests.contract.engine_turns import (
    ASK,
    ASK_AGAIN,
    ScriptedAgent,
    SummingAgent,
    calls_without_response,
    engine_on,
    finished,
    interrupting,
    request_of,
    said,
)
from tests.contract.stores import Stores
from tests.contract.turns import ABORTED, ANN, COMPLETED


def result(ref: str, name: str = "ask", output: Json = "yes", **more: Json) -> dict[str, Json]:
    """A part that answers a call."""
    return {"toolResponse": {"name": name, "ref": ref, "output": output}, **more}


def again(ref: str, name: str = "ask", call_input: Json = None) -> dict[str, Json]:
    """A part that asks for a call to be run again."""
    return {"toolRequest": {"name": name, "ref": ref, "input": call_input}}


async def messages_of(store: DocumentStore, row: Snapshot) -> list[Any]:
    """The session's transcript."""
    messages: list[Any] = (await state_of_head(store, row.session_id)).get("messages")
    return messages


async def test_an_interrupting_request_ends_the_turn_as_interrupted(stores: Stores, store: DocumentStore) -> None:
    agent = ScriptedAgent([TextDelta("May I?"), *interrupting(ASK)])
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
    assert (row.status, row.finish_reason) == (COMPLETED, "interrupted")
    last = (await messages_of(stores.open(), row))[-1]
    assert last["content"] == [
        {"text": "May I?"},
        {"toolRequest": {"name": "ask", "ref": "r1", "input": {"q": 1}}, "metadata": {"interrupt": True}},
    ]


async def test_a_response_is_kept_as_given_and_the_turn_goes_on(stores: Stores, store: DocumentStore) -> None:
    agent = ScriptedAgent(interrupting(ASK, ASK_AGAIN))
    given = [result("r2", output=[None], metadata={"by": "ann"}), result("r1")]
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        await said(engine, store, row.session_id, resume={"respond": given})
    asked, answered, last = (await messages_of(stores.open(), row))[1:]
    assert (answered["role"], answered["content"]) == ("tool", given)
    assert (last["role"], last["content"]) == ("model", [{"text": "ok"}])
    turn = agent.turns[1]
    assert (turn.message, turn.resume) == (None, {"respond": given})
    assert turn.history[1:] == [asked, answered]
    assert calls_without_response(turn.history) == []


async def test_calls_that_a_resume_leaves_out_are_closed(store: DocumentStore) -> None:
    agent = ScriptedAgent(interrupting(ASK, ASK_AGAIN))
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        await said(engine, store, row.session_id, resume={"respond": [result("r2")]})
    answered = (await messages_of(store, row))[2]
    assert answered["content"][0] == result("r2")
    closed = answered["content"][1]
    assert closed["toolResponse"]["ref"] == "r1"
    assert closed["metadata"] == {"interrupted": True}
    assert calls_without_response(agent.turns[1].history) == []


async def test_a_call_that_shall_run_again_is_the_agents_to_answer(store: DocumentStore) -> None:
    """The other one is closed; the agent sees the open call, and what it answers makes the pair whole."""
    agent = ScriptedAgent(interrupting(ASK, ASK_AGAIN), [ToolResponse("ask", "r1", 7), TextDelta("done")])
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        await said(engine, store, row.session_id, resume={"restart": [again("r1", call_input={"q": 1})]})
        await said(engine, store, row.session_id)
    assert calls_without_response(agent.turns[1].history) == ["r1"]
    assert calls_without_response(agent.turns[2].history) == []
    assert calls_without_response(await messages_of(store, row)) == []


@pytest.mark.parametrize("ending", ["silence", "text", "failure", "another question"])
async def test_a_call_that_shall_run_again_and_does_not_is_closed_by_the_next_message(
    store: DocumentStore, ending: str
) -> None:
    endings: dict[str, list[Any]] = {
        "silence": [Finish("stop")],
        "text": [TextDelta("I will not.")],
        "failure": [RuntimeError("down")],
        "another question": interrupting(ToolRequest("ask", "r9", None, interrupt=True)),
    }
    agent = ScriptedAgent(interrupting(ASK), endings[ending])
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        await said(engine, store, row.session_id, resume={"restart": [again("r1", call_input={"q": 1})]})
        await said(engine, store, row.session_id)
    assert calls_without_response(agent.turns[2].history) == []


FORGED: dict[str, dict[str, Json]] = {
    "unknown ref": {"respond": [result("r3")]},
    "another name": {"respond": [result("r1", "other")]},
    "one of two unknown": {"respond": [result("r1"), result("r3")]},
    "twice": {"respond": [result("r1"), result("r1")]},
    "answered and restarted": {"respond": [result("r1")], "restart": [again("r1", call_input={"q": 1})]},
    "restart of an unknown ref": {"restart": [again("r3", call_input={"q": 1})]},
    "restart under another name": {"restart": [again("r1", "other", {"q": 1})]},
    "restart with another input": {"restart": [again("r1", call_input={"q": 1.0})]},
    "restart with a truthy input": {"restart": [again("r1", call_input={"q": True})]},
}


async def test_a_forged_answer_is_refused_and_nothing_is_written(stores: Stores, store: DocumentStore) -> None:
    agent = ScriptedAgent(interrupting(ASK))
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        before = await documents(stores)
        for resume in FORGED.values():
            with pytest.raises(InvalidRequestError):
                await finished(engine, request_of(row.session_id, tail=row.last_message_id, resume=resume))
        assert await documents(stores) == before
        await said(engine, store, row.session_id, resume={"respond": [result("r1")]})
        answered = await documents(stores)
        with pytest.raises(InvalidRequestError):  # it is not open any more
            await said(engine, store, row.session_id, resume={"respond": [result("r1")]})
        assert await documents(stores) == answered
    assert len(agent.turns) == 2


async def test_a_new_message_closes_what_was_asked(stores: Stores, store: DocumentStore) -> None:
    """Case 30."""
    agent = ScriptedAgent(interrupting(ASK, ASK_AGAIN))
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        await said(engine, store, row.session_id, "Never mind")
    closed, question, _ = (await messages_of(stores.open(), row))[2:]
    assert closed["role"] == "tool"
    assert [part["toolResponse"]["ref"] for part in closed["content"]] == ["r1", "r2"]
    assert all(part["metadata"] == {"interrupted": True} for part in closed["content"])
    assert question["content"] == [{"text": "Never mind"}]
    assert calls_without_response(agent.turns[1].history) == []


async def test_a_failed_turn_leaves_the_question_open(store: DocumentStore) -> None:
    """Case 30 as API.md has it: a failed turn leaves the transcript, hence the call can still be answered."""
    agent = ScriptedAgent(interrupting(ASK), [RuntimeError("down")])
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        await said(engine, store, row.session_id, "Never mind")
        last = await said(engine, store, row.session_id, resume={"respond": [result("r1")]})
    assert last.status is COMPLETED


async def test_a_question_that_was_passed_over_can_be_answered_once_its_turn_is_restored(store: DocumentStore) -> None:
    """A cut at the question leaves what closed it: tool messages are part of the model's."""
    agent = ScriptedAgent(interrupting(ASK))
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        await said(engine, store, row.session_id, "Never mind")
        await store.truncate(ANN, row.session_id, (await messages_of(store, row))[1]["id"])
        assert [message["role"] for message in await messages_of(store, row)] == ["user", "model", "tool"]
        with pytest.raises(InvalidRequestError):
            await said(engine, store, row.session_id, resume={"respond": [result("r1")]})
        await store.restore(ANN, row.session_id, row.snapshot_id)
        await said(engine, store, row.session_id, resume={"respond": [result("r1")]})
    assert (await messages_of(store, row))[2]["content"] == [result("r1")]


async def test_a_compaction_closes_what_was_asked(store: DocumentStore) -> None:
    agent = SummingAgent("summary", answers=[interrupting(ASK)])
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        stored = await engine.compact(ANN, row.session_id, None)
        with pytest.raises(InvalidRequestError):
            await said(engine, store, row.session_id, resume={"respond": [result("r1")]})
        messages = await messages_of(store, row)
    assert calls_without_response(agent.summed[0]) == []
    assert [messages[-2]["role"], messages[-1]["id"]] == ["tool", stored["id"]]  # closed before it is summed up
    assert calls_without_response(messages) == []


async def test_an_abort_closes_every_call_that_the_turn_leaves_open(stores: Stores, store: DocumentStore) -> None:
    """Case 23; also one that is not in the newest message of the model, and a restarted one of the turn before."""
    calls: list[AgentEvent] = [ToolRequest("look", "a", 1), ToolRequest("weigh", "b", 2), ToolResponse("weigh", "b", 3)]
    more: list[AgentEvent] = [TextDelta("so"), ToolRequest("look", "c", 4), TextDelta("wait")]
    agent = ScriptedAgent(interrupting(ASK), [*calls, *more, asyncio.Event()])
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        resume = {"restart": [again("r1", call_input={"q": 1})]}
        turn = await engine.start(request_of(row.session_id, tail=row.last_message_id, resume=resume))
        assert isinstance(turn, RunningTurn)
        async for _, (name, data) in turn.broadcast.read():
            if name == "text-delta" and data["text"] == "wait":
                await stores.open().abort_session(ANN, row.session_id)
        assert turn.settled is not None
        assert turn.settled.status is ABORTED
        await said(engine, store, row.session_id)
    messages = await messages_of(stores.open(), row)
    assert calls_without_response(messages) == []
    assert calls_without_response(agent.turns[2].history) == []
    closed = [part["toolResponse"]["ref"] for part in messages[-3]["content"]]
    assert closed == ["r1", "a", "c"]
