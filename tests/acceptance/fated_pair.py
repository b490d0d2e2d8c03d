"""Two servers, the first of which can be struck at a chosen moment of a turn. Holds no test."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.chat_client import STREAM, ServerEvent, events_of, ok
from tests.acceptance.server_process import ROOT, server

MORTAL = {"HEARTBEAT_INTERVAL": "0.4", "LEASE_STALENESS": "2"}  # a pair that finds each other dead after two seconds
_PATIENCE = 20.0  # seconds within which a moment has to come


class FatedPair:
    """`first` and `second` share the database and the file of the agent's runs, and nothing else."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._runs = folder / "runs"
        self._fate = folder / "fate"
        common = dict(settings) | {
            "AGENT": "tests.acceptance.fated_agent:FatedAgent",
            "PYTHONPATH": str(ROOT),
            "RUNS_FILE": str(self._runs),
            "ABORT_GRACE": "0.5",
            "MAX_TURNS_PER_USER": "50",
        }
        self.first = server(folder, common | {"FATE_FILE": str(self._fate)}, "first")
        self.second = server(folder, common, "second")

    def runs(self, session_id: str) -> list[str]:
        """The rows for which the agent was run, on either server, in order."""
        lines = self._runs.read_text(encoding="utf-8").splitlines() if self._runs.exists() else []
        return [line.split()[1] for line in lines if line.split()[0] == session_id]

    def plan(self, moment: str, what: signal.Signals) -> None:
        """The first server gets the signal when it reaches the moment next."""
        written = self._fate.with_suffix(".new")
        written.write_text(f"{moment}:{what.name}", encoding="utf-8")
        written.rename(self._fate)  # the agent never sees half of it

    async def struck(self) -> None:
        """Returns once the moment has come."""
        async with asyncio.timeout(_PATIENCE):
            while self._fate.exists():  # noqa: ASYNC110 - another process removes it
                await asyncio.sleep(0.01)

    async def revive(self) -> None:
        """The first server anew, after it was killed."""
        self.first.kill()
        self.first.launch()
        await asyncio.to_thread(self.first.wait_until_it_answers)


async def read_to_the_end(http: httpx.AsyncClient, body: Mapping[str, Any]) -> list[ServerEvent]:
    """What a reader of the turn's stream is told until the stream ends, or the server with it."""
    seen: list[ServerEvent] = []
    with suppress(httpx.TransportError):
        async with http.stream("POST", "/chat", json=body, headers={"accept": STREAM}) as response:
            assert response.status_code == 200, (await response.aread()).decode()
            async for event in events_of(response):
                seen.append(event)  # noqa: PERF401 - what came before the end is kept
    return seen


@asynccontextmanager
async def followed(http: httpx.AsyncClient, session_id: str) -> AsyncIterator[None]:
    """Meanwhile the session's next turn is followed through another server than its own: then it writes segments."""
    following = asyncio.create_task(_follow(http, session_id))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _follow(http: httpx.AsyncClient, session_id: str) -> None:
    while (running := ok(await http.get(f"/sessions/{session_id}")).get("activeSnapshotId")) is None:  # noqa: ASYNC110 - the other server starts it
        await asyncio.sleep(0.02)
    async with http.stream("GET", f"/chat/{running}", headers={"accept": STREAM}) as response:
        assert [event async for event in events_of(response)]


async def wait_for(http: httpx.AsyncClient, snapshot_id: str) -> dict[str, Any]:
    """The row once it has ended or expired."""
    return dict(ok(await http.get("/snapshot", params={"snapshotId": snapshot_id, "wait": 30})))


async def rows_of(http: httpx.AsyncClient, session_id: str) -> list[dict[str, Any]]:
    """The session's rows, as its tree lists them."""
    rows: list[dict[str, Any]] = []
    query: dict[str, Any] = {}
    while True:
        page = ok(await http.get(f"/sessions/{session_id}/snapshots", params=query))
        rows += page["snapshots"]
        if "nextCursor" not in page:
            return rows
        query["cursor"] = page["nextCursor"]


def place_of(end: Mapping[str, Any]) -> dict[str, Any]:
    """Where the next turn goes on, as a body names it."""
    return {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
