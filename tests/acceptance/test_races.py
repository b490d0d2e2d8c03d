"""Several clients on two servers send to one session at once: one of them runs, the others are told so."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.acceptance.chat_client import client, ok, send, transcript
from tests.acceptance.fated_pair import FatedPair, place_of
from tests.acceptance.races import REFUSALS, Race

FAST, FULL = 10, 100  # rounds


async def race(pair: FatedPair, user: str, clients: int, rounds: int) -> Race:
    async with AsyncExitStack() as connections:
        urls = [(pair.first.url, pair.second.url)[number % 2] for number in range(clients)]
        https = [await connections.enter_async_context(client(url, user)) for url in urls]
        raced = Race(pair, https)
        await raced.run(rounds)
        return raced


@pytest.mark.parametrize("clients", [2, 4])
async def test_of_clients_that_send_at_once_exactly_one_runs(steady: FatedPair, user: str, clients: int) -> None:
    raced = await race(steady, user, clients, FAST)
    assert raced.seen["completed"] == FAST
    assert sum(raced.seen[code] for code in REFUSALS) == FAST * (clients - 1)
    assert raced.seen["agent_session_busy"] > 0  # they did meet


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 4])
async def test_of_clients_that_send_at_once_exactly_one_runs_a_hundred_times(
    steady: FatedPair, user: str, clients: int
) -> None:
    raced = await race(steady, user, clients, FULL)
    assert raced.seen["completed"] == FULL


async def test_of_two_messages_that_are_each_sent_to_both_servers_one_runs_once(steady: FatedPair, user: str) -> None:
    async with client(steady.first.url, user) as first, client(steady.second.url, user) as second:
        place = place_of(await send(first, {"message": "begin"}))
        for number in range(FAST):
            place = await _doubled_round(place, number, [first, second])
        session_id = place["sessionId"]
        assert len(await transcript(second, session_id)) == 2 + 2 * FAST
        assert len(steady.runs(session_id)) == 1 + FAST


async def _doubled_round(place: dict[str, Any], number: int, clients: list[Any]) -> dict[str, Any]:
    """Two impatient tabs: each sends its message to both servers."""
    bodies = [
        place | {"message": {"id": f"{number}-{tab}", "role": "user", "content": [{"text": "/sleep 0.05"}]}}
        for tab in range(2)
    ]
    answers = await asyncio.gather(*(http.post("/chat", json=body) for body in bodies for http in clients))
    tabs = [answers[:2], answers[2:]]
    (won,) = [tab for tab in tabs if tab[0].is_success]
    (lost,) = [tab for tab in tabs if tab is not won]
    assert ok(won[0]) == ok(won[1])
    assert {ok(answer, 409)["code"] for answer in lost} <= REFUSALS
    return place_of(won[0].json())
