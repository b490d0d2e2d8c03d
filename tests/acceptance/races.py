"""Clients that send to one session at once, over several servers. Holds no test."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx

from tests.acceptance.chat_client import ok, send, text_of, transcript
from tests.acceptance.fated_pair import FatedPair, place_of, rows_of

REFUSALS = {"agent_session_busy", "agent_session_stale"}


class Race:
    """Round after round, every client sends a message of its own to the same session; `seen` counts the answers."""

    def __init__(self, pair: FatedPair, clients: Sequence[httpx.AsyncClient]) -> None:
        self.seen: Counter[str] = Counter()
        self._pair = pair
        self._clients = clients
        self._place: dict[str, Any] = {}
        self._acknowledged: list[str] = []

    async def run(self, rounds: int) -> None:
        """AssertionError where a round has not exactly one winner, or a loser's agent was run."""
        self._place = place_of(await send(self._clients[0], {"message": "begin"}))
        for number in range(rounds):
            await self._round(number)
        for http in self._clients:
            await self._check(http)

    async def _round(self, number: int) -> None:
        pause = "/sleep 0.05\n" if number % 2 else ""  # by turns, so that some losers come during the turn
        messages = [f"{pause}round {number} of {client}" for client in range(len(self._clients))]
        answers = await asyncio.gather(
            *(
                http.post("/chat", json=self._place | {"message": message})
                for http, message in zip(self._clients, messages, strict=True)
            )
        )
        won = [(answer, message) for answer, message in zip(answers, messages, strict=True) if answer.is_success]
        codes = [ok(answer, 409)["code"] for answer in answers if not answer.is_success]
        assert (len(won), set(codes) <= REFUSALS) == (1, True), [answer.text for answer in answers]
        ((answer, message),) = won
        assert answer.json()["status"] == "completed"
        self.seen.update(["completed", *codes])
        self._place = place_of(answer.json())
        self._acknowledged.append(message)

    async def _check(self, http: httpx.AsyncClient) -> None:
        """Every acknowledged message is there once, in order, and nothing else; the agent was run for nothing else."""
        session_id = self._place["sessionId"]
        messages = await transcript(http, session_id)
        asked = [text_of(message) for message in messages if message["role"] == "user"]
        assert asked == ["begin", *self._acknowledged]
        assert len(messages) == 2 * len(asked)
        rows = await rows_of(http, session_id)
        assert {row["status"] for row in rows} == {"completed"}
        runs = self._pair.runs(session_id)
        assert sorted(runs) == sorted(row["snapshotId"] for row in rows)
