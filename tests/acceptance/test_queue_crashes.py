"""A server process that the queue has called ends in the middle of a turn: the queue calls again, and nothing is run
twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from store.rules.settle import LEASE_LOST
from tests.acceptance.chat_client import STREAM, client, events_of, ok, send, text_of
from tests.acceptance.server_process import ServerProcess, running, server
from tests.integration.tasks_api import QUEUE, TasksApi, tasks_api

PATIENCE = 60.0  # seconds for a turn to begin, or to be found dead, on a busy machine


class Deployment(NamedTuple):
    """The caller's way to the server that takes turns, the server that the queue calls, and the queue."""

    http: httpx.AsyncClient
    back: ServerProcess
    api: TasksApi


@pytest.fixture
async def deployed(firestore_settings: dict[str, str], tmp_path: Path, user: str) -> AsyncIterator[Deployment]:
    shared = firestore_settings | {"AGENT": "echo", "LEASE_STALENESS": "3", "HEARTBEAT_INTERVAL": "0.5"}
    async with tasks_api() as api:
        back = server(tmp_path, shared | {"SHUTDOWN_GRACE": "0.2", "ABORT_GRACE": "0.2"}, "back")
        queue = {"TASKS_QUEUE": QUEUE, "TASKS_ENDPOINT": api.url, "SCHEDULER_ACCOUNT": "queue@demo.example.com"}
        front = server(tmp_path, shared | queue | {"OIDC_AUDIENCE": back.url}, "front")
        with running(front, back):
            async with client(front.url, user) as http:
                yield Deployment(http, back, api)


async def begun(http: httpx.AsyncClient) -> tuple[dict[str, Any], "asyncio.Task[list[Any]]"]:
    """A turn that the queue's server has begun, and what its follower here will have been told of it."""
    turn = ok(await http.post("/chat", json={"message": "/reason thinking\n/sleep 600", "detach": True}), 202)
    has_begun = asyncio.Event()

    async def follow() -> list[Any]:
        told = []
        async with http.stream("GET", f"/chat/{turn['snapshotId']}", headers={"accept": STREAM}) as response:
            async for event in events_of(response):
                told.append(event)
                has_begun.set()
        return told

    following = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE):
        await has_begun.wait()
    return turn, following


async def row_of(http: httpx.AsyncClient, turn: dict[str, Any], wait: float = 0) -> dict[str, Any]:
    return dict(ok(await http.get("/snapshot", params={"snapshotId": turn["snapshotId"], "wait": wait})))


async def test_a_turn_whose_runner_crashed_is_settled_by_the_next_delivery_and_not_run_again(
    deployed: Deployment,
) -> None:
    http, back, api = deployed
    turn, following = await begun(http)
    back.kill()
    async with asyncio.timeout(PATIENCE):
        *told, end = await following
        assert (await row_of(http, turn, wait=55))["status"] == "expired"
        assert told[0].name == "turn-start"
        assert (end.name, end.data["code"]) == ("error", "agent_session_lease_lost")
        back.launch()
        await api.settled()
    assert api.results() == ["settled"]
    row = await row_of(http, turn)
    assert (row["status"], row["error"]) == ("failed", LEASE_LOST)
    after = await send(http, {"sessionId": turn["sessionId"], "message": "Still there?"})
    assert text_of(after["message"]) == "echo: Still there?"


async def test_a_turn_whose_runner_is_told_to_end_is_stored_as_interrupted(deployed: Deployment) -> None:
    http, back, api = deployed
    turn, following = await begun(http)
    back.terminate()
    async with asyncio.timeout(PATIENCE):
        end = (await following)[-1]
        await asyncio.to_thread(back.wait_until_it_ends, PATIENCE)
        back.launch()
        await api.settled()
    assert (end.name, end.data["status"]) == ("turn-end", "aborted")
    assert api.deliveries[-1][1]["result"] in ("ran", "settled"), "whether its answer still went out or not"
    row = await row_of(http, turn)
    assert (row["status"], row["state"]["messages"][-1]["metadata"]) == ("aborted", {"interrupted": True})
