"""Real input: recorded sessions of a tool-calling model, sent turn by turn to two servers in turn."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.chat_client import client, send, send_streaming, transcript
from tests.acceptance.server_process import ROOT, Pair, running_pair

FILE = Path("..", "shared", "data", "airline_sessions.jsonl")
AT_ONCE = 8  # recordings; enough to keep both servers busy
PAGE = 7  # messages; small, so that paging is part of it

Message = dict[str, Any]


@pytest.fixture(scope="module")
def recordings() -> dict[str, list[Message]]:
    """Each recording's messages without the system's and without a last user message that nobody answered."""
    if not (ROOT / FILE).is_file():
        pytest.skip(f"the recorded sessions are not at {FILE}")
    recorded = [json.loads(line) for line in (ROOT / FILE).read_text(encoding="utf-8").splitlines()]
    return {recording["key"]: _answered(recording["messages"]) for recording in recorded}


def _answered(messages: list[Message]) -> list[Message]:
    spoken = [message for message in messages if message["role"] != "system"]
    return spoken[:-1] if spoken[-1]["role"] == "user" else spoken


@pytest.fixture(scope="module")
def replaying(firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers that answer as the recorded model did."""
    settings = firestore_settings | {"AGENT": "replay", "REPLAY_FILE": str(FILE)}
    with running_pair(tmp_path_factory.mktemp("replaying"), settings) as both:
        yield both


async def replay(servers: tuple[httpx.AsyncClient, httpx.AsyncClient], user: str, messages: list[Message]) -> str:
    """Sends every user message, each to the other server than the one before, as a stream and as JSON by turns of
    different length; gives the session's id."""
    place: dict[str, Any] = {}
    said = [message for message in messages if message["role"] == "user"]
    for number, message in enumerate(said):
        http = servers[number % 2]
        body = place | {"message": message if number % 3 else {"id": f"{user}-{number}", **message}}
        end = (await send_streaming(http, body)).end if number % 4 < 2 else await send(http, body)
        assert end["status"] == "completed", end
        place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
    return str(place["sessionId"])


async def differences(pair: Pair, key: str, recorded: list[Message], busy: asyncio.Semaphore) -> str | None:
    """What is wrong with the recording's transcript on each of the servers; None where nothing is."""
    async with busy, client(pair.first.url, key) as first, client(pair.second.url, key) as second:
        session_id = await replay((first, second), key, recorded)
        for http in (first, second):
            messages = await transcript(http, session_id, PAGE)
            stored = [{"role": message["role"], "content": message["content"]} for message in messages]
            if json.dumps(stored) != json.dumps(recorded):  # as text: True is not 1, and the order of keys counts
                return f"{key}: {stored} instead of {recorded}"
            if len({message["id"] for message in messages}) != len(messages):
                return f"{key}: message ids repeat"
    return None


async def test_every_recorded_session_is_kept_message_by_message_over_two_servers(
    replaying: Pair, recordings: dict[str, list[Message]]
) -> None:
    turns = sum(message["role"] == "user" for messages in recordings.values() for message in messages)
    assert (len(recordings), turns) == (50, 370)
    busy = asyncio.Semaphore(AT_ONCE)
    found = await asyncio.gather(*(differences(replaying, key, said, busy) for key, said in recordings.items()))
    assert [difference for difference in found if difference] == []
