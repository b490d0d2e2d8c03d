"""How long an abort takes that reaches the server that does not run the turn."""

import asyncio
import statistics
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.chat_client import ServerEvent, client, ok, streamed
from tests.acceptance.server_process import Pair, running_pair

ABORTS = 30
GOAL = 0.250  # seconds, median
WORDS = "word " * 5000

pytestmark = pytest.mark.bench


@pytest.fixture
def pair(emulator_host: str, project_id: str, tmp_path: Path) -> Iterator[Pair]:
    settings = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    with running_pair(tmp_path, settings | {"AGENT": "echo", "ECHO_DELAY_MS": "5"}) as both:
        yield both


async def end_of(events: AsyncIterator[ServerEvent]) -> tuple[ServerEvent, float]:
    """The last event, and when the stream ended."""
    last = [event async for event in events][-1]
    return last, asyncio.get_running_loop().time()


async def seconds_to_stop(here: httpx.AsyncClient, there: httpx.AsyncClient) -> float:
    """From the answer of /abort to the end of the stream."""
    async with asyncio.timeout(30), streamed(here, {"message": WORDS}) as events:
        start = await anext(events)
        await anext(events)
        reading = asyncio.create_task(end_of(events))
        ok(await there.post("/abort", json={"snapshotId": start.data["snapshotId"]}))
        answered = asyncio.get_running_loop().time()
        last, ended = await reading
    assert (last.name, last.data["status"]) == ("turn-end", "aborted")
    return ended - answered


async def test_aborts_from_the_other_server(pair: Pair) -> None:
    user = f"user-{uuid.uuid4()}"
    async with client(pair.first.url, user) as first, client(pair.second.url, user) as second:
        ways = [(first, second), (second, first)]
        seconds = [await seconds_to_stop(*ways[number % 2]) for number in range(ABORTS)]
    assert len(seconds) == ABORTS
    print(
        f"\n{ABORTS} aborts, from the answer of /abort to the end of the stream on the other server: "
        f"median {statistics.median(seconds) * 1000:.0f} ms, max {max(seconds) * 1000:.0f} ms "
        f"(goal: median {GOAL * 1000:.0f} ms)"
    )
