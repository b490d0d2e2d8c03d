"""Retention over HTTP: rules and who may set them, the cap where sessions are made, sweeps, expiry, and erasure."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.agents.base import TextDelta
from functions.wiring import application
from store.adapters.own_ids import stored_id
from store.database import Create, Kind, Path
from store.memory.database import MemoryDatabase
from store.models import Scope
from tests.acceptance.chat_client import ServerEvent, ok, send
from tests.contract.engine_turns import ScriptedAgent
from tests.integration.http_app import App, served
from tests.integration.key_server import KeyServer
from tests.integration.refusals import refused
from tests.integration.reply_shapes import Shapes
from tests.unit.token_issuer import Issuer

LATER = timedelta(days=2)


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served() as app:
        yield app


def move_clock(app: App, by: timedelta) -> None:
    """The database's time from now on."""
    assert isinstance(app.database, MemoryDatabase)
    app.database._clock = lambda: datetime.now(UTC) + by


async def listed(app: App) -> list[str]:
    return [session["id"] for session in ok(await app.http.get("/sessions"))["sessions"]]


async def make(app: App, name: str, **body: Any) -> None:
    ok(await app.http.post("/sessions", json={"id": name} | body), 201)


async def test_rules_are_the_defaults_until_they_are_changed_one_by_one(app: App) -> None:
    shapes = await Shapes.of(app.http)
    rules = ok(await app.http.get("/retention"))
    shapes.check(rules, "Retention")
    assert rules == {"maxIdleDays": 30, "maxCountPerUser": 30}
    changed = ok(await app.http.put("/retention", json={"maxIdleDays": 14}))
    assert changed == {"maxIdleDays": 14, "maxCountPerUser": 30}
    assert ok(await app.http.put("/retention", json={"maxCountPerUser": 0}))["maxCountPerUser"] == 0
    assert ok(await app.http.get("/retention")) == {"maxIdleDays": 14, "maxCountPerUser": 0}
    other = ok(await app.http.get("/retention", headers={"x-tenant-id": "other"}))
    assert other == {"maxIdleDays": 30, "maxCountPerUser": 30}


async def test_the_settings_give_the_defaults() -> None:
    async with served(RETENTION_MAX_IDLE_DAYS="7", RETENTION_MAX_COUNT_PER_USER="0") as app:
        assert ok(await app.http.get("/retention")) == {"maxIdleDays": 7, "maxCountPerUser": 0}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"maxIdleDays": -1},
        {"maxCountPerUser": -1},
        {"maxIdleDays": 1.5},
        {"maxIdleDays": "7"},
        {"maxIdleDays": True},
        {"maxCountPerUser": 10**9},
        {"maxIdleDays": 7, "maxCountPerUser": -1},
    ],
)
async def test_wrong_rules_are_refused(app: App, body: dict[str, Any]) -> None:
    await refused(app, "PUT", "/retention", 400, "invalid_request", json=body)


async def test_rules_are_changed_by_administrators_alone() -> None:
    issuer = Issuer("first")
    with KeyServer(issuer).running() as keys:
        async with served(None, **keys.settings) as app:
            for claims in ({}, {"admin": False}, {"admin": "true"}, {"admin": 1}):
                user = {"authorization": f"Bearer {issuer.user('ada', org='acme', **claims)}"}
                assert ok(await app.http.get("/retention", headers=user))["maxIdleDays"] == 30
                given = {"json": {"maxIdleDays": 1}, "headers": user}
                await refused(app, "PUT", "/retention", 403, "permission_denied", **given)
            admin = {"authorization": f"Bearer {issuer.user('root', org='acme', admin=True)}"}
            assert ok(await app.http.put("/retention", json={"maxIdleDays": 1}, headers=admin))["maxIdleDays"] == 1


async def test_the_cap_is_held_wherever_sessions_are_made() -> None:
    async with served(RETENTION_MAX_COUNT_PER_USER="2") as app:
        for name in ("a", "b", "c"):
            await make(app, name)
        assert await listed(app) == ["c", "b"]
        await make(app, "temporary", temporary=True)
        assert await listed(app) == ["c", "b"]
        first = await send(app.http, {"message": {"id": "m", "role": "user", "content": [{"text": "Hello"}]}})
        await settled(app)
        assert await listed(app) == [first["sessionId"], "c"]
        branch = {"messageId": first["lastMessageId"], "id": "branch"}
        ok(await app.http.post(f"/sessions/{first['sessionId']}/branch", json=branch), 201)
        assert await listed(app) == ["branch", first["sessionId"]]
        ok(await app.http.get("/sessions/temporary"))


async def settled(app: App) -> None:
    """Until the engine has nothing left to do after its turns."""
    await asyncio.gather(*application(app.settings).engine._tasks)


async def test_a_turn_that_outlives_its_session_ends_with_an_error_and_leaves_nothing_to_read() -> None:
    may_end = asyncio.Event()
    agent = ScriptedAgent([TextDelta("one"), may_end, TextDelta("two")])
    async with served(agent) as app:
        await make(app, "t", temporary=True)
        seen: list[ServerEvent] = []
        async with app.chat({"sessionId": "t", "message": "Hello"}) as exchange:
            async for event in exchange.events():
                seen.append(event)
                if event.name == "text-delta" and not may_end.is_set():
                    move_clock(app, LATER)
                    may_end.set()
        assert [event.name for event in seen] == ["turn-start", "text-delta", "text-delta", "error"]
        assert seen[-1].data["code"] == "session_not_found"
        snapshot_id = seen[0].data["snapshotId"]
        for path in ("/sessions/t", "/sessions/t/messages", "/sessions/t/snapshots", "/snapshot?sessionId=t"):
            await refused(app, "GET", path, 404, "session_not_found")
        await refused(app, "GET", f"/snapshot?snapshotId={snapshot_id}", 404, "snapshot_not_found")
        await refused(app, "GET", f"/chat/{snapshot_id}", 404, "snapshot_not_found")
        ok(await app.http.post("/sweep?now=1"))
        assert {path.kind for path in await app.documents()} <= {Kind.SETTINGS}


async def test_a_sweep_says_what_it_did_and_a_dry_run_what_it_would(app: App) -> None:
    await make(app, "t", temporary=True)
    await make(app, "p")
    move_clock(app, LATER)
    before = await app.documents()
    expected = {"examined": 2, "deleted": 1, "spared": 1, "done": True, "reasons": {"expired": 1}}
    planned = ok(await app.http.post("/sweep?now=1", json={"dryRun": True}))
    (await Shapes.of(app.http)).check(planned, "Sweep")
    assert planned == expected
    assert await app.documents() == before
    assert ok(await app.http.post("/sweep?now=1", json={"limit": 10})) == expected
    assert ok(await app.http.post("/sweep?now=1"))["examined"] == 0
    assert await listed(app) == ["p"]


@pytest.mark.parametrize("body", [{"limit": 0}, {"limit": -1}, {"limit": 10_001}, {"dryRun": "yes"}])
async def test_a_wrong_sweep_is_refused(app: App, body: dict[str, Any]) -> None:
    await refused(app, "POST", "/sweep?now=1", 400, "invalid_request", json=body)


async def test_a_sweep_waits_for_up_to_a_minute_unless_it_shall_be_now(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return 0.0

    monkeypatch.setattr(random, "uniform", uniform)
    ok(await app.http.post("/sweep?now=1"))
    assert asked == []
    ok(await app.http.post("/sweep"))
    assert asked == [(0, 60.0)]


async def test_a_caller_erases_what_is_theirs_and_is_told_when_it_is_done(app: App) -> None:
    bob = {"x-user-id": "bob"}
    await app.http.post("/sessions", json={"id": "bobs"}, headers=bob)
    end = await send(app.http, {"message": "Hello"})
    parts = [Path(Kind.BLOBS, "local", f"blob-{n}") for n in range(700)]
    fields = {"formatVersion": 1, "sessionId": stored_id(Scope("local", "local"), end["sessionId"])}
    await app.database.commit([Create(path, fields) for path in parts])
    response = await app.http.delete("/sessions")
    (await Shapes.of(app.http)).check(ok(response, 202), "Erasure")
    assert await listed(app) == []
    while (response := await app.http.delete("/sessions")).status_code == 202:
        pass
    assert (response.status_code, response.content) == (204, b"")
    assert {path.id for path in await app.documents()} == {stored_id(Scope("local", "bob"), "bobs")}
    assert (await app.http.delete("/sessions")).status_code == 204


async def test_a_caller_who_erases_everything_ends_their_running_turn(app: App) -> None:
    ok(await app.http.post("/chat", json={"message": "/sleep 60", "detach": True}), 202)
    assert (await app.http.delete("/sessions")).status_code == 204
    assert await app.documents() == {}
