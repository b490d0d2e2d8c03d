"""How far behind a reader is who follows a turn on the server that does not run it."""

import asyncio
import statistics
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.chat_client import STREAM, ServerEvent, client, events_of, streamed
from tests.acceptance.server_process import Pair, running_pair

READERS = 5  # of as many turns at once
GOAL = 1.5  # seconds
WORDS = "word " * 150  # fifteen seconds

pytestmark = pytest.mark.bench


@pytest.fixture
def pair(emulator_host: str, project_id: str, tmp_path: Path) -> Iterator[Pair]:
    settings = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    with running_pair(tmp_path, settings | {"AGENT": "echo", "ECHO_DELAY_MS": "100"}) as both:
        yield both


async def moments(events: AsyncIterator[ServerEvent]) -> dict[int, float]:
    """When each event came, by its number."""
    now = asyncio.get_running_loop().time
    return {event.id: now() async for event in events}


async def lags(here: httpx.AsyncClient, there: httpx.AsyncClient) -> list[float]:
    """Seconds between an event's coming here and there, for each event of a turn that was told while it ran."""
    async with streamed(here, {"message": WORDS}) as live:
        start = await anext(live)
        reading = asyncio.create_task(moments(live))
        path = f"/chat/{start.data['snapshotId']}"
        async with there.stream("GET", path, headers={"accept": STREAM}) as response:
            followed = await moments(events_of(response))
        told = await reading
    assert followed.keys() == told.keys() | {start.id}
    return [followed[number] - moment for number, moment in told.items()]


async def test_a_follower_on_the_other_server(pair: Pair) -> None:
    user = f"user-{uuid.uuid4()}"
    async with client(pair.first.url, user) as first, client(pair.second.url, user) as second:
        ways = [(first, second), (second, first)]
        seconds = await asyncio.gather(*(lags(*ways[number % 2]) for number in range(READERS)))
    every = [lag for turn in seconds for lag in turn]
    print(
        f"\n{len(every)} events of {READERS} turns, followed on the other server: behind the live stream by "
        f"{statistics.median(every) * 1000:.0f} ms in the median, {max(every) * 1000:.0f} ms at most "
        f"(goal: {GOAL * 1000:.0f} ms)"
    )
