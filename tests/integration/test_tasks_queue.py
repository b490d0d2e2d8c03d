"""Detached turns through the queue, over HTTP: Google's own client, a stand-in of its service, two instances."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest

from functions.engine import engine
from tests.acceptance.chat_client import client, ok, send, send_streaming, text_of, transcript
from tests.integration.http_server import Instance
from tests.integration.tasks_api import QUEUE, TasksApi, body_of, tasks_api

ACCOUNT = "queue@demo.iam.example.com"


class Deployment(NamedTuple):
    """The caller's way to the instance that takes its turns and to the one that the queue calls, and the queue."""

    front: httpx.AsyncClient
    back: httpx.AsyncClient
    api: TasksApi


@pytest.fixture
async def deployed(emulator_host: str, project_id: str) -> AsyncIterator[Deployment]:
    async with tasks_api() as api:
        shared = {
            "STORE": "firestore",
            "FIRESTORE_EMULATOR_HOST": emulator_host,
            "GOOGLE_CLOUD_PROJECT": project_id,
            "TASKS_QUEUE": QUEUE,
            "TASKS_ENDPOINT": api.url,
            "SCHEDULER_ACCOUNT": ACCOUNT,
        }
        back = Instance(**shared, OIDC_AUDIENCE="{url}")
        front = Instance(**shared, OIDC_AUDIENCE=back.url)
        back.start()
        front.start()
        try:
            async with client(front.url, "ann") as to_front, client(back.url, "ann") as to_back:
                yield Deployment(to_front, to_back, api)
        finally:
            await api.close()
            await asyncio.to_thread(front.stop)
            await asyncio.to_thread(back.stop)


def named(text: str, message_id: str = "m1") -> dict[str, Any]:
    return {"message": {"id": message_id, "role": "user", "content": [{"text": text}]}}


async def detach(http: httpx.AsyncClient, text: str = "Hello", **place: Any) -> dict[str, Any]:
    return dict(ok(await http.post("/chat", json=named(text) | place | {"detach": True}), 202))


async def row_of(http: httpx.AsyncClient, turn: dict[str, Any], wait: float = 0) -> dict[str, Any]:
    return dict(ok(await http.get("/snapshot", params={"snapshotId": turn["snapshotId"], "wait": wait})))


async def test_a_detached_turn_is_run_by_the_instance_that_the_queue_calls(deployed: Deployment) -> None:
    """Answered at once, and told as it settles, on either instance."""
    front, back, api = deployed
    turn = await detach(front, "/sleep 0.3\nHello")
    assert turn["status"] == "pending"
    rows = await asyncio.gather(*(row_of(http, turn, wait=20) for http in (front, back)))
    assert [row["status"] for row in rows] == ["completed", "completed"]
    assert text_of(rows[0]["state"]["messages"][-1]) == "echo: Hello"
    await api.settled()
    assert api.deliveries[-1] == (200, {"snapshotId": turn["snapshotId"], "result": "ran"})
    assert api.results() == ["ran"]


async def test_a_task_calls_the_function_turn_with_the_accounts_token(deployed: Deployment) -> None:
    front, back, api = deployed
    turn = await detach(front)
    await api.settled()
    (task,) = api.created
    assert task["name"] == f"{QUEUE}/tasks/{turn['snapshotId']}"
    call = task["httpRequest"]
    assert (call["url"], call["oidcToken"]) == (
        f"{str(back.base_url).rstrip('/')}/turn",
        {"serviceAccountEmail": ACCOUNT, "audience": str(back.base_url).rstrip("/")},
    )
    assert body_of(task) == {"tenant": "local", "user": "ann", "snapshotId": turn["snapshotId"]}


async def test_a_task_that_is_delivered_several_times_is_run_once(deployed: Deployment) -> None:
    front, _, api = deployed
    api.copies = 4
    turn = await detach(front, "/sleep 0.5\nHello")
    row = await row_of(front, turn, wait=20)
    await api.settled()
    assert api.results().count("ran") == 1
    assert set(api.results()) <= {"ran", "running", "settled"}, "one that comes late finds it settled"
    again = await front.post("/turn", json=body_of(api.created[0]))
    assert ok(again)["result"] == "settled"
    assert await row_of(front, turn) == row
    assert len(await transcript(front, turn["sessionId"])) == 2


async def test_a_delivery_that_overtakes_the_claim_comes_again(deployed: Deployment) -> None:
    front, _, api = deployed
    api.is_eager = True
    turn = await detach(front)
    assert (await row_of(front, turn, wait=20))["status"] == "completed"
    await api.settled()
    statuses = [status for status, _ in api.deliveries]
    assert (statuses[0], statuses[-1]) == (503, 200)
    assert set(statuses[:-1]) == {503}


async def test_a_delivery_that_never_finds_its_turn_gives_up(deployed: Deployment) -> None:
    body = {"tenant": "local", "user": "ann", "snapshotId": "none"}
    early = await deployed.back.post("/turn", json=body, headers={"X-CloudTasks-TaskRetryCount": "9"})
    assert ok(early, 503)["code"] == "unavailable"
    late = await deployed.back.post("/turn", json=body, headers={"X-CloudTasks-TaskRetryCount": "10"})
    assert ok(late) == {"snapshotId": "none", "result": "unknown"}


async def test_a_delayed_delivery_leaves_a_turn_that_waits_and_holds_the_session(deployed: Deployment) -> None:
    front, back, api = deployed
    api.may_deliver.clear()
    turn = await detach(front)
    assert (await row_of(back, turn, wait=0.5))["status"] == "pending"
    busy = await back.post("/chat", json=named("Other", "m2") | {"sessionId": turn["sessionId"]})
    assert ok(busy, 409)["code"] == "agent_session_busy"
    assert await detach(back) == turn, "the same send is the turn that waits"
    attached = asyncio.create_task(send_streaming(front, named("Hello")))
    api.may_deliver.set()
    assert (await attached).end["snapshotId"] == turn["snapshotId"]
    await api.settled()
    assert (await row_of(front, turn))["status"] == "completed"


async def test_an_abort_of_a_turn_that_waits_is_done_at_once_and_nothing_is_run(deployed: Deployment) -> None:
    front, back, api = deployed
    api.may_deliver.clear()
    turn = await detach(front)
    answer = ok(await back.post("/abort", json={"snapshotId": turn["snapshotId"]}))
    assert (answer["previousStatus"], answer["status"]) == ("pending", "aborted")
    api.may_deliver.set()
    await api.settled()
    assert api.results() == ["settled"]
    assert (await row_of(front, turn))["status"] == "aborted"


async def test_a_turn_whose_delivery_was_dropped_expires_and_gives_way(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    front, back, api = deployed
    monkeypatch.setattr(engine, "QUEUE_SECONDS", 0.5)
    api.may_deliver.clear()
    turn = await detach(front)
    assert (await row_of(back, turn, wait=20))["status"] == "expired"
    end = await send(back, named("Again", "m2") | {"sessionId": turn["sessionId"]})
    assert end["status"] == "completed"
    assert (await row_of(front, turn))["status"] == "failed"
    api.may_deliver.set()
    await api.settled()
    assert api.results() == ["settled"]


async def test_where_the_queue_takes_nothing_no_turn_is_left_behind(deployed: Deployment) -> None:
    front, back, api = deployed
    api.is_down = True
    refused = await front.post("/chat", json=named("Hello") | {"detach": True})
    assert ok(refused, 503)["code"] == "unavailable"
    assert ok(await back.get("/sessions"))["sessions"] == []


async def test_the_task_of_a_turn_that_was_not_granted_is_taken_back(deployed: Deployment) -> None:
    front, _, api = deployed
    end = await send(front, named("Hello"))
    api.may_deliver.clear()
    stale = named("Late", "m2") | {"sessionId": end["sessionId"], "lastMessageId": "other", "detach": True}
    assert ok(await front.post("/chat", json=stale), 409)["code"] == "agent_session_stale"
    assert api.deleted == [task["name"].rpartition("/")[2] for task in api.created]
    assert len(api.deleted) == 1


async def test_a_stream_on_the_front_tells_what_the_back_runs(deployed: Deployment) -> None:
    front, _, api = deployed
    turn = await detach(front, "/sleep 1.2\n" + "word " * 50)
    sent = await send_streaming(front, named("/sleep 1.2\n" + "word " * 50))
    assert sent.end["snapshotId"] == turn["snapshotId"]
    await api.settled()
    said = "".join(event.data["text"] for event in sent.events if event.name == "text-delta")
    assert said == text_of(sent.end["message"])
