"""When a transcript is summed up by itself, what its agent is asked, and what a stubborn agent costs."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from functions.agents.base import TextDelta, ToolRequest, Usage
from functions.agents.echo import EchoAgent
from functions.engine.compaction import PROMPT, compacted, is_due, require_compactable
from store.errors import AlreadyCompactError, CompactionConflictError, TurnBusyError
from store.memory.store import MemoryStore
from store.models import Beat, Lease
from store.rules.history import is_compaction
from store.state import EMPTY, State
from tests.contract.conversations import asking_turn, compaction, ids, kept, plain_turn, state_of_head, tool_turn
from tests.contract.engine_turns import (
    ASK,
    Answer,
    SummingAgent,
    calls_without_response,
    engine_on,
    finished,
    heard,
    interrupting,
    request_of,
    said,
)
from tests.contract.stores import START
from tests.contract.turns import ABORTED, ANN, COMPLETED, FAILED, message

LONG = "word " * 400


def lease_on(messages: list[dict[str, Any]], usage: dict[str, int] | None = None) -> Lease:
    """A lease of a turn on these messages; its other fields are of no interest."""
    state = State.of({"messages": messages})
    return Lease(ANN, "s", "row", "attempt", None, state, None, START, None, None, parent_usage=usage)


@pytest.mark.parametrize(
    ("messages", "is_possible"),
    [
        ([], False),
        ([message("a")], False),
        (plain_turn("a"), True),
        (tool_turn("a"), True),
        (tool_turn("a")[:4], True),  # it ends with a tool message
        ([*plain_turn("a"), compaction("k")], False),
        ([*plain_turn("a"), compaction("k"), message("b")], False),
        ([*plain_turn("a"), compaction("k"), *plain_turn("b")], True),
        ([None], False),
    ],
)
def test_only_complete_turns_behind_the_newest_compaction_can_be_summed_up(
    messages: list[Any], is_possible: bool
) -> None:
    state = State.of({"messages": messages})
    if is_possible:
        require_compactable(state)
    else:
        with pytest.raises(AlreadyCompactError):
            require_compactable(state)
        assert not is_due(lease_on(messages, {"totalTokens": 10**6}), 1)


def test_an_empty_state_cannot_be_summed_up() -> None:
    with pytest.raises(AlreadyCompactError):
        require_compactable(EMPTY)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"totalTokens": 100}, 100),
        ({"totalTokens": 100, "inputTokens": 1, "outputTokens": 2}, 100),
        ({"inputTokens": 60, "outputTokens": 40}, 100),
        ({"inputTokens": 100}, 100),
        ({"outputTokens": 100}, 100),
    ],
)
def test_the_last_turns_tokens_tell_whether_it_is_time(usage: dict[str, int], tokens: int) -> None:
    lease = lease_on(plain_turn("a"), usage)
    assert is_due(lease, tokens - 1)
    assert not is_due(lease, tokens)
    assert not is_due(lease, 0)  # off


def test_without_tokens_four_characters_count_as_one() -> None:
    """Characters, not bytes; of what the agent would be shown."""
    texts = [message("a", "é" * 1000), message("b", "𝄞" * 1000, "model")]
    overhead = 400
    nothing: dict[str, int] = {}
    for usage in (None, nothing):
        assert is_due(lease_on(texts, usage), 2000 // 4 - 1)
        assert not is_due(lease_on(texts, usage), (2000 + overhead) // 4)
    behind = [message("x", "x" * 10_000), compaction("k"), *texts]
    assert not is_due(lease_on(behind), (2000 + 2 * overhead) // 4)


def test_a_compaction_comes_behind_what_closes_open_calls() -> None:
    state = compacted(State.of({"messages": asking_turn("a"), "custom": 1}), compaction("k"), lambda: "n")
    assert ids(state) == ["a", "a-calls", "n", "k"]
    assert state.get("custom") == 1


def test_the_prompt_names_every_section_of_a_checkpoint() -> None:
    sections = ("objectives", "constraints", "decisions", "completed_work", "blockers", "next_steps")
    assert all(f"<{section}>" in PROMPT and f"</{section}>" in PROMPT for section in sections)


async def test_a_long_transcript_is_summed_up_before_the_next_turn_and_in_the_same_row() -> None:
    """One lease, one settle: the row of the turn holds the compaction, the message and the answer."""
    store = MemoryStore()
    agent = SummingAgent("summary")
    async with engine_on(store, agent, compact_at_tokens=300) as engine:
        first = await said(engine, store, text=LONG)
        second = await said(engine, store, first.session_id, "b")
        third = await said(engine, store, first.session_id, "c")
    assert second.parent_id == first.snapshot_id
    messages = (await state_of_head(store, first.session_id)).get("messages")
    assert [is_compaction(each) for each in messages] == [False, False, True, False, False, False, False]
    assert [each["content"][0]["text"] for each in messages[2:5]] == ["summary", "b", "ok"]
    assert heard(agent.turns[1]) == ["summary"]
    assert heard(agent.turns[2]) == ["summary", "b", "ok"]
    assert len(agent.summed) == 1
    rows = (await store.list_snapshots(ANN, first.session_id, 10)).snapshots
    assert [row.snapshot_id for row in rows] == [first.snapshot_id, second.snapshot_id, third.snapshot_id]


async def test_nothing_is_summed_up_by_itself_unless_a_limit_is_set() -> None:
    store = MemoryStore()
    agent = SummingAgent()
    async with engine_on(store, agent) as engine:
        first = await said(engine, store, text=LONG * 10)
        await said(engine, store, first.session_id)
    assert agent.summed == []


async def test_the_tokens_of_the_turn_before_count_rather_than_the_length() -> None:
    store = MemoryStore()
    answers: list[Answer] = [[TextDelta("short"), Usage(400, 1, 401)], [TextDelta(LONG), Usage(1, 1, 2)]]
    agent = SummingAgent("summary", "another", answers=answers)
    async with engine_on(store, agent, compact_at_tokens=300) as engine:
        first = await said(engine, store)
        await said(engine, store, first.session_id)  # 401 tokens: summed up, though short
        assert len(agent.summed) == 1
        await said(engine, store, first.session_id)  # 2 tokens: not, though long
        assert len(agent.summed) == 1
        await said(engine, store, first.session_id)  # none known: long
        assert len(agent.summed) == 2


async def test_a_turn_that_continues_another_row_goes_by_that_rows_length() -> None:
    store = MemoryStore()
    agent = SummingAgent(answers=[[TextDelta("a")], [TextDelta("b"), Usage(10**6, 0, 10**6)]])
    async with engine_on(store, agent, compact_at_tokens=300) as engine:
        first = await said(engine, store)
        second = await said(engine, store, first.session_id)
        assert second.usage is not None
        sibling = request_of(first.session_id, tail=first.last_message_id, snapshot_id=first.snapshot_id)
        assert (await finished(engine, sibling)).settled is not None
    assert agent.summed == []


@pytest.mark.parametrize("summary", [RuntimeError("down"), "", None, "half \ud800"])
async def test_a_summary_that_fails_does_not_fail_the_turn(summary: object) -> None:
    store = MemoryStore()
    agent = SummingAgent(summary)
    async with engine_on(store, agent, compact_at_tokens=300) as engine:
        first = await said(engine, store, text=LONG)
        second = await said(engine, store, first.session_id, "b")
    assert (second.status, len(agent.summed)) == (COMPLETED, 1)
    assert heard(agent.turns[1]) == [LONG, "ok"]
    assert len((await state_of_head(store, first.session_id)).get("messages")) == 4


async def test_a_turn_that_fails_leaves_no_compaction_behind() -> None:
    store = MemoryStore()
    agent = SummingAgent("one", "two", answers=[[TextDelta("a")], [RuntimeError("down")]])
    async with engine_on(store, agent, compact_at_tokens=300) as engine:
        first = await said(engine, store, text=LONG)
        second = await said(engine, store, first.session_id, "b")
        assert second.status is FAILED
        assert len((await state_of_head(store, first.session_id)).get("messages")) == 2
        await said(engine, store, first.session_id, "b")
    assert heard(agent.turns[2]) == ["two"]


async def test_a_turn_can_be_stopped_while_it_is_summed_up() -> None:
    store = MemoryStore()
    agent = SummingAgent(asyncio.Event())
    async with engine_on(store, agent, compact_at_tokens=300) as engine:
        first = await said(engine, store, text=LONG)
        turn = asyncio.create_task(finished(engine, request_of(first.session_id, tail=first.last_message_id)))
        await agent.asked.wait()
        await store.abort_session(ANN, first.session_id)
        await turn
    messages = (await state_of_head(store, first.session_id)).get("messages")
    assert [each["role"] for each in messages] == ["user", "model", "user", "model"]
    assert messages[-1]["metadata"] == {"interrupted": True}


async def test_open_calls_are_closed_before_they_are_summed_up() -> None:
    """Else the agent would be shown a response without its request."""
    store = MemoryStore()
    agent = SummingAgent("summary", answers=[interrupting(ASK, ToolRequest("look", "r2", LONG))])
    async with engine_on(store, agent, compact_at_tokens=300) as engine:
        first = await said(engine, store)
        await said(engine, store, first.session_id, "b")
        await said(engine, store, first.session_id, "c")
    roles = [each["role"] for each in (await state_of_head(store, first.session_id)).get("messages")]
    assert roles == ["user", "model", "tool", "user", "user", "model", "user", "model"]
    assert calls_without_response(agent.summed[0]) == []
    assert [calls_without_response(turn.history) for turn in agent.turns] == [[], [], []]


async def test_an_answer_is_never_parted_from_its_question_by_a_summary() -> None:
    store = MemoryStore()
    agent = SummingAgent(answers=[[TextDelta(LONG), *interrupting(ASK)]])
    respond = {"respond": [{"toolResponse": {"name": "ask", "ref": "r1", "output": 1}}]}
    async with engine_on(store, agent, compact_at_tokens=300) as engine:
        first = await said(engine, store)
        await said(engine, store, first.session_id, resume=respond)
    assert agent.summed == []
    assert calls_without_response(agent.turns[1].history) == []


async def test_a_summary_that_takes_longer_than_a_lease_lives_keeps_it_by_beating() -> None:
    """Case 15, for a compaction: another caller is still refused."""
    now = START

    class Beating(MemoryStore):
        """Says when it has taken a beat."""

        async def heartbeat(self, leases: Sequence[Lease]) -> Sequence[Beat]:
            beats = await super().heartbeat(leases)
            taken.set()
            return beats

    taken = asyncio.Event()
    store = Beating(clock=lambda: now, lease_staleness=60.0)
    session_id = await kept(store, *plain_turn("a"))
    go_on = asyncio.Event()
    agent = SummingAgent(go_on)
    async with engine_on(store, agent, heartbeat_interval=0.001) as engine:
        compacting = asyncio.create_task(engine.compact(ANN, session_id, None))
        await agent.asked.wait()
        for _ in range(3):
            now += timedelta(seconds=50)
            taken.clear()  # what beats from here on beats at the new time
            await taken.wait()
        with pytest.raises(TurnBusyError):
            await store.truncate(ANN, session_id, "a")
        go_on.set()
        await compacting
    assert len(ids(await state_of_head(store, session_id))) == 3


class StubbornAgent(SummingAgent):
    """Sums up for as long as it likes, whoever cancels it."""

    def __init__(self) -> None:
        super().__init__()
        self.release = asyncio.Event()

    async def compact(self, messages: Any, model: str | None) -> str:
        """Ignores its cancellation."""
        self.asked.set()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"


async def test_an_agent_that_ignores_its_cancellation_does_not_keep_the_session() -> None:
    store = MemoryStore()
    session_id = await kept(store, *plain_turn("a"))
    agent = StubbornAgent()
    async with engine_on(store, agent, abort_grace=0.01) as engine:
        compacting = asyncio.create_task(engine.compact(ANN, session_id, None))
        await agent.asked.wait()
        abort = await store.abort_session(ANN, session_id)
        with pytest.raises(CompactionConflictError):
            await compacting
        row = await store.get_snapshot_metadata(ANN, abort.snapshot_id)
        assert row is not None
        assert row.status is ABORTED
        agent.release.set()
    assert ids(await state_of_head(store, session_id)) == ["a", "a-answer"]


async def test_an_engine_that_closes_ends_its_compactions_first() -> None:
    store = MemoryStore()
    session_id = await kept(store, *plain_turn("a"))
    agent = SummingAgent(asyncio.Event())
    async with engine_on(store, agent) as engine:
        compacting = asyncio.create_task(engine.compact(ANN, session_id, None))
        await agent.asked.wait()
    session = await store.get_session(ANN, session_id)
    assert session is not None
    assert session.active_snapshot_id is None
    with pytest.raises(CompactionConflictError):
        await compacting


async def test_echo_sums_the_same_transcript_up_to_the_same_checkpoint() -> None:
    store = MemoryStore()
    told = []
    async with engine_on(store, EchoAgent()) as engine:
        for _ in range(2):
            session_id = await kept(store, *plain_turn("a"), *tool_turn("b"))
            told.append((await engine.compact(ANN, session_id, None))["content"])
    assert told[0] == told[1]
    assert "Question a" in told[0][0]["text"]
