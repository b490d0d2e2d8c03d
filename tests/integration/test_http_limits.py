"""The limits of the settings, each at its last value that is taken and at the first that is not; nothing of what is
refused is stored."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from functions import wiring
from functions.agents.echo import EchoAgent
from functions.wire import body
from tests.acceptance.chat_client import ok, send
from tests.contract.engine_turns import SummingAgent
from tests.integration.http_app import App, served

JSON = {"content-type": "application/json"}
ENDLESS = {"message": "/sleep 600", "detach": True}
QUIET = {"HEARTBEAT_INTERVAL": "600", "LEASE_STALENESS": "3600", "STREAM_SEGMENTS": "off"}  # turns write nothing aside


async def start(app: App, user: str) -> dict[str, Any]:
    return dict(ok(await app.http.post("/chat", json=ENDLESS, headers={"x-user-id": user}), 202))


async def assert_too_many(app: App, user: str, **changed: Any) -> None:
    """One turn more is refused, and costs nobody anything."""
    before = await app.documents()
    for request in ({"message": "Hello"}, {"message": "Hello", "detach": True}):
        response = await app.http.post("/chat", json=request | changed, headers={"x-user-id": user})
        assert ok(response, 429)["code"] == "rate_limited"
        assert int(response.headers["retry-after"]) == response.json()["retryAfterSeconds"] > 0
    assert await app.documents() == before


async def stop(app: App, user: str, turn: dict[str, Any]) -> None:
    headers = {"x-user-id": user}
    ok(await app.http.post("/abort", json={"snapshotId": turn["snapshotId"]}, headers=headers))
    query = {"snapshotId": turn["snapshotId"], "wait": 10}
    assert ok(await app.http.get("/snapshot", params=query, headers=headers))["status"] == "aborted"


async def until_taken(app: App, user: str) -> None:
    """The place of a turn that has just ended is free within moments."""
    headers = {"x-user-id": user}
    async with asyncio.timeout(5):
        while (await app.http.post("/chat", json=ENDLESS, headers=headers)).status_code != 202:  # noqa: ASYNC110 # nothing tells
            await asyncio.sleep(0.01)


async def test_a_user_runs_so_many_turns_at_once_and_not_one_more() -> None:
    async with served(None, **QUIET, MAX_TURNS_PER_USER="2") as app:
        turns = [await start(app, "ada") for _ in range(2)]
        await assert_too_many(app, "ada")
        await start(app, "bob")
        await stop(app, "ada", turns[0])
        await until_taken(app, "ada")
        await assert_too_many(app, "ada")


async def test_a_user_of_the_same_name_in_another_tenant_is_another_user() -> None:
    async with served(None, **QUIET, MAX_TURNS_PER_USER="1") as app:
        await start(app, "ada")
        await assert_too_many(app, "ada")
        headers = {"x-user-id": "ada", "x-tenant-id": "umbrella"}
        ok(await app.http.post("/chat", json=ENDLESS, headers=headers), 202)


async def test_an_instance_runs_so_many_turns_at_once_and_not_one_more() -> None:
    async with served(None, **QUIET, MAX_TURNS_PER_INSTANCE="3", MAX_TURNS_PER_USER="2") as app:
        turns = [await start(app, user) for user in ("ada", "ada", "bob")]
        await assert_too_many(app, "eve")
        await stop(app, "bob", turns[2])
        await until_taken(app, "eve")
        await assert_too_many(app, "bob")


async def test_a_refused_turn_leaves_its_session_free() -> None:
    async with served(None, **QUIET, MAX_TURNS_PER_USER="1") as app:
        done = await send(app.http, {"message": "Hello"})
        turn = await start(app, "local")
        place = {"sessionId": done["sessionId"], "lastMessageId": done["lastMessageId"]}
        await assert_too_many(app, "local", **place)
        assert not ok(await app.http.get(f"/sessions/{done['sessionId']}"))["isTurnActive"]
        await stop(app, "local", turn)
        async with asyncio.timeout(5):
            again = {"message": "Again"} | place
            while (await app.http.post("/chat", json=again)).status_code != 200:  # noqa: ASYNC110 # nothing tells when
                await asyncio.sleep(0.01)


async def test_a_compaction_takes_a_place_as_a_turn_does() -> None:
    async with served(None, **QUIET, MAX_TURNS_PER_USER="1") as app:
        done = await send(app.http, {"message": "Hello"})
        await start(app, "local")
        before = await app.documents()
        response = await app.http.post(f"/sessions/{done['sessionId']}/compact", json={})
        assert ok(response, 429)["code"] == "rate_limited"
        assert response.headers["retry-after"]
        assert await app.documents() == before


class KeepsNothing(EchoAgent):
    """Its clients keep their state."""

    keeps_state = False


@pytest.mark.parametrize("setting", ["MAX_TURNS_PER_USER", "MAX_TURNS_PER_INSTANCE"])
async def test_a_turn_that_nothing_keeps_takes_a_place_too(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.wiring.load_agent", lambda _settings: KeepsNothing())

    def call(text: str) -> dict[str, Any]:
        return {"data": {"message": {"role": "user", "content": [{"text": text}]}}}

    async with served(None, **QUIET, **{setting: "1"}) as app, asyncio.timeout(20):
        running = asyncio.create_task(app.http.post("/agents/echo", json=call("/sleep 600")))
        engine = wiring.application(app.settings).engine
        while not engine._working:  # noqa: ASYNC110 # nothing tells when it has begun
            await asyncio.sleep(0)
        refused = ok(await app.http.post("/agents/echo", json=call("Hello")))["result"]
        assert (refused["finishReason"], refused["error"]["status"]) == ("failed", "RESOURCE_EXHAUSTED")
        assert refused["error"]["details"]["retryAfterSeconds"] > 0
        await assert_too_many(app, "local")
        for turn in engine._working.values():
            turn.request_stop()
        assert ok(await running)["result"]["finishReason"] == "aborted"
        while engine._working:  # noqa: ASYNC110 # its place is free within moments
            await asyncio.sleep(0)
        assert ok(await app.http.post("/agents/echo", json=call("Hello")))["result"]["finishReason"] == "stop"
        assert await app.documents() == {}


def custom_of(values: int) -> bytes:
    """A body with so many values: the object, the array, and what is in it."""
    return b'{"custom": [' + b",".join([b"1"] * (values - 2)) + b"]}"


async def test_a_body_holds_so_many_values_and_not_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MAX_VALUES", 1000)
    async with served() as app:
        ok(await app.http.post("/sessions", content=custom_of(1000), headers=JSON), 201)
        before = await app.documents()
        refused = await app.http.post("/sessions", content=custom_of(1001), headers=JSON)
        assert ok(refused, 413)["code"] == "payload_too_large"
        assert await app.documents() == before


async def test_what_a_text_holds_is_no_value() -> None:
    text = json.dumps({"message": '[{"\\,' * body.MAX_VALUES})
    async with served(None, MAX_BODY_BYTES=str(len(text))) as app:
        ok(await app.http.post("/chat", content=text, headers=JSON))


@pytest.mark.parametrize("piece", [b"[],", b'{"":', b'"",', b"1,", b"[[{,"])
async def test_a_crowded_body_is_refused_before_it_can_hold_up_others(piece: bytes) -> None:
    crowded = b'{"custom": [' + piece * (6 * 1024 * 1024 // len(piece)) + b"1]}"
    async with served() as app:
        before = time.thread_time()
        assert (await app.http.post("/sessions", content=crowded, headers=JSON)).status_code == 413
        assert time.thread_time() - before < 2.5
        assert await app.documents() == {}


async def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drip() -> AsyncIterator[bytes]:
        yield b'{"message": "'
        await asyncio.Event().wait()

    monkeypatch.setattr(body, "LONGEST_UPLOAD", 0.05)
    async with served() as app:
        response = await app.http.post("/chat", content=drip(), headers=JSON)
        assert ok(response, 400)["code"] == "invalid_request"
        assert await app.documents() == {}


async def create(limit: int, length: int) -> httpx.Response:
    """Makes a session with a text of so many characters as its state; of a refused one nothing is left."""
    wiring._applications.clear()  # this loop's last one had another limit
    async with served(None, MAX_STATE_BYTES=str(limit)) as app:
        response = await app.http.post("/sessions", json={"custom": "x" * length})
        assert bool(await app.documents()) is (response.status_code == 201)
        return response


async def test_a_state_is_as_large_as_the_limit_and_not_a_byte_larger() -> None:
    small, large = 500, 1000  # the state's size: 500 characters, and what is around them
    while large - small > 1:
        limit = (small + large) // 2
        small, large = (small, limit) if (await create(limit, 500)).status_code == 201 else (limit, large)
    assert (await create(large, 500)).status_code == 201
    assert ok(await create(large, 501), 413)["code"] == "payload_too_large"
    assert (await create(large + 1, 501)).status_code == 201


async def test_a_turn_whose_answer_outgrows_the_state_fails_and_leaves_the_session_as_it_was() -> None:
    async with served(None, MAX_STATE_BYTES="2500") as app:
        first = await send(app.http, {"message": "Hello"})
        place = {"sessionId": first["sessionId"], "lastMessageId": first["lastMessageId"]}
        failed = await send(app.http, place | {"message": "x" * 1200})  # the answer repeats it
        assert failed["status"] == "failed"
        assert ok(await app.http.get(f"/sessions/{first['sessionId']}"))["headSnapshotId"] == first["snapshotId"]
        assert (await send(app.http, place | {"message": "Again"}))["status"] == "completed"


async def test_a_compaction_that_outgrows_the_state_is_too_large_and_leaves_the_session_as_it_was() -> None:
    async with served(SummingAgent("x" * 1000), MAX_STATE_BYTES="1000") as app:
        end = await send(app.http, {"message": "Hello"})
        refused = ok(await app.http.post(f"/sessions/{end['sessionId']}/compact", json={}), 413)
        assert (refused["code"], refused["limit"]) == ("payload_too_large", 1000)
        session = ok(await app.http.get(f"/sessions/{end['sessionId']}"))
        assert (session["isTurnActive"], session["headSnapshotId"]) == (False, end["snapshotId"])


async def test_waiting_ends_at_the_settings_limit_whatever_is_asked() -> None:
    async with served(None, WAIT_MAX="0.1") as app:
        turn = await start(app, "local")
        async with asyncio.timeout(5):
            query = {"snapshotId": turn["snapshotId"], "wait": 55}
            assert ok(await app.http.get("/snapshot", params=query))["status"] == "pending"
        ok(await app.http.get("/snapshot", params=query | {"wait": 55.1}), 400)
