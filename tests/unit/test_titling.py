"""Titles: the agent's beside the reply, else the first words; whoever renames wins."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from functions.agents.base import Finish, TextDelta, Turn
from functions.engine import titling
from functions.engine.running import RunningTurn
from functions.engine.titling import first_words
from store.memory.store import MemoryStore
from store.models import NewSession
from store.state import State
from tests.contract.engine_turns import ASK, Answer, ScriptedAgent, engine_on, finished, interrupting, request_of, said
from tests.contract.turns import ABORTED, ANN, COMPLETED, FAILED

Hook = Callable[[Turn], Awaitable[Any]]


class TitlingAgent(ScriptedAgent):
    """Has a title for every turn; `titled` counts how often it was asked."""

    def __init__(self, hook: Hook, *answers: Answer) -> None:
        super().__init__(*answers)
        self._hook = hook
        self.titled: list[Turn] = []

    async def title(self, turn: Turn) -> Any:
        """What the hook says."""
        self.titled.append(turn)
        return await self._hook(turn)


def saying(title: Any) -> Hook:
    """A hook that gives `title`, or raises it."""

    async def hook(turn: Turn) -> Any:
        if isinstance(title, BaseException):
            raise title
        return title

    return hook


async def never(turn: Turn) -> Any:
    """A hook that thinks for ever."""
    await asyncio.Event().wait()


async def title_of(store: MemoryStore, session_id: str) -> str:
    session = await store.get_session(ANN, session_id)
    assert session is not None
    return session.title


@pytest.mark.parametrize(
    ("title", "stored"),
    [
        ("Travel plans", "Travel plans"),
        ("  Travel\n plans ", "Travel plans"),
        ("x" * 120, "x" * 100),  # case 29
        ("a" * 99 + " b", "a" * 99),
        ("half \ud800", "half"),
        ("", "Hello"),
        ("\n", "Hello"),
        ("\ud800", "Hello"),
        (None, "Hello"),
        (7, "Hello"),
        (RuntimeError("no title today"), "Hello"),
        (asyncio.CancelledError(), "Hello"),
    ],
)
async def test_a_title_is_the_agents_or_the_first_words(title: Any, stored: str) -> None:
    """Cases 17, 28 and 29."""
    store = MemoryStore()
    async with engine_on(store, TitlingAgent(saying(title))) as engine:
        row = await said(engine, store)
    assert row.status is COMPLETED
    assert await title_of(store, row.session_id) == stored


async def test_a_hook_that_is_no_coroutine_costs_no_turn() -> None:
    class Plain(ScriptedAgent):
        def title(self, turn: Turn) -> str:
            raise RuntimeError("at once")

    store = MemoryStore()
    async with engine_on(store, Plain()) as engine:
        row = await said(engine, store)
    assert (row.status, await title_of(store, row.session_id)) == (COMPLETED, "Hello")


async def test_the_hook_is_asked_beside_the_reply() -> None:
    """Each waits for the other to have begun: one after the other would never end."""
    begun, answered = asyncio.Event(), asyncio.Event()

    async def hook(turn: Turn) -> str:
        begun.set()
        await answered.wait()
        return "Beside"

    class Waiting(TitlingAgent):
        async def run(self, turn: Turn) -> Any:
            await begun.wait()
            answered.set()
            yield TextDelta("ok")

    store = MemoryStore()
    async with engine_on(store, Waiting(hook)) as engine:
        row = await said(engine, store)
    assert await title_of(store, row.session_id) == "Beside"


async def test_a_hook_that_thinks_for_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(titling, "PATIENCE", 0.01)
    store = MemoryStore()
    async with engine_on(store, TitlingAgent(never)) as engine:
        row = await said(engine, store)
    assert (row.status, await title_of(store, row.session_id)) == (COMPLETED, "Hello")
    assert titling.PATIENCE == 0.01


def test_a_title_is_waited_for_at_most_two_seconds() -> None:
    assert titling.PATIENCE == 2.0


async def test_a_hook_that_ignores_its_cancellation_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(titling, "PATIENCE", 0.01)
    release = asyncio.Event()

    async def stubborn(turn: Turn) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    store = MemoryStore()
    async with engine_on(store, TitlingAgent(stubborn)) as engine:
        row = await said(engine, store)
        assert await title_of(store, row.session_id) == "Hello"
        release.set()


async def test_a_rename_wins_also_during_the_turn() -> None:
    """Case 27."""
    store = MemoryStore()
    session = await store.create_session(ANN, None, NewSession("scripted"))

    async def hook(turn: Turn) -> str:
        await store.update_session(ANN, session.id, title="Mine")
        return "The agent's"

    async with engine_on(store, TitlingAgent(hook)) as engine:
        await said(engine, store, session.id)
        assert await title_of(store, session.id) == "Mine"
        await said(engine, store, session.id)
    assert await title_of(store, session.id) == "Mine"


async def test_a_titled_session_is_not_titled_again() -> None:
    """Case 18; neither one that was named when it was made."""
    store = MemoryStore()
    agent = TitlingAgent(saying("First"))
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        await said(engine, store, row.session_id)
        named = await store.create_session(ANN, None, NewSession("scripted", "Mine"))
        await said(engine, store, named.id)
    assert len(agent.titled) == 1
    assert await title_of(store, row.session_id) == "First"


async def test_a_session_that_was_made_with_a_state_is_titled_by_its_first_turn() -> None:
    store = MemoryStore()
    session = await store.create_session(ANN, None, NewSession("scripted"), State.of({"messages": [], "custom": 1}))
    async with engine_on(store, TitlingAgent(saying("First"))) as engine:
        await said(engine, store, session.id)
    assert await title_of(store, session.id) == "First"


async def test_a_failed_turn_gives_no_title_and_the_next_one_does() -> None:
    store = MemoryStore()
    async with engine_on(store, TitlingAgent(saying("Second"), [RuntimeError("down")])) as engine:
        failed = await said(engine, store)
        assert (failed.status, await title_of(store, failed.session_id)) == (FAILED, "")
        await said(engine, store, failed.session_id)
    assert await title_of(store, failed.session_id) == "Second"


async def test_a_message_without_text_leaves_the_title_to_the_next_one() -> None:
    store = MemoryStore()
    async with engine_on(store, ScriptedAgent()) as engine:
        picture = request_of()
        assert picture.message is not None
        picture.message["content"] = [{"media": {"url": "data:,x"}}]
        turn = await finished(engine, picture)
        assert await title_of(store, turn.lease.session_id) == ""
        await said(engine, store, turn.lease.session_id, "Look")
    assert await title_of(store, turn.lease.session_id) == "Look"


async def test_a_resume_gives_no_title() -> None:
    store = MemoryStore()
    agent = TitlingAgent(saying("First"), interrupting(ASK))
    async with engine_on(store, agent) as engine:
        row = await said(engine, store)
        respond = {"respond": [{"toolResponse": {"name": "ask", "ref": "r1", "output": 1}}]}
        await said(engine, store, row.session_id, resume=respond)
    assert len(agent.titled) == 1


async def test_an_abort_does_not_wait_for_a_title_and_the_session_gets_its_first_words() -> None:
    store = MemoryStore()
    agent = TitlingAgent(never, [TextDelta("I"), asyncio.Event()], [Finish("stop")])
    async with engine_on(store, agent) as engine:
        turn = await engine.start(request_of(text="Book a flight"))
        assert isinstance(turn, RunningTurn)
        async with asyncio.timeout(titling.PATIENCE):
            async for _, (name, _) in turn.broadcast.read():
                if name == "text-delta":
                    await store.abort_turn(ANN, turn.lease.snapshot_id)
        assert turn.settled is not None
        assert turn.settled.status is ABORTED
        assert await title_of(store, turn.lease.session_id) == "Book a flight"


async def test_an_abort_that_comes_while_a_title_is_waited_for_is_heard_at_once() -> None:
    store = MemoryStore()
    agent = TitlingAgent(never, [TextDelta("I"), Finish("stop")])
    async with engine_on(store, agent) as engine, asyncio.timeout(titling.PATIENCE):
        turn = await engine.start(request_of(text="Book a flight"))
        assert isinstance(turn, RunningTurn)
        async for _, (name, _) in turn.broadcast.read():
            if name == "text-delta":
                for _ in range(20):
                    await asyncio.sleep(0)  # the agent is done by now, and only the title is missing
                await store.abort_turn(ANN, turn.lease.snapshot_id)
        assert turn.settled is not None
        assert turn.settled.status is ABORTED
        assert await title_of(store, turn.lease.session_id) == "Book a flight"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", None),
        (" \n ", None),
        ("  Book\n a   flight ", "Book a flight"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("word " * 20, "word " * 10 + "word…"),
    ],
)
def test_first_words_are_cut_between_words(text: str, words: str | None) -> None:
    assert first_words({"role": "user", "content": [{"text": text}]}) == words
    assert words is None or len(words) <= 60
