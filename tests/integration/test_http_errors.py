"""Every code of the error table that a request can meet: its status, its details, and what it leaves alone."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from functions.agents.base import AgentEvent, TextDelta, Turn
from functions.wiring import application
from store.adapters.own_ids import stored_id
from store.database import Database, Delete, Kind, Path, Read, Update
from store.errors import UnavailableError
from store.models import Scope
from tests.acceptance.chat_client import ok, send, send_streaming, transcript
from tests.integration.http_app import App, served
from tests.integration.refusals import refused
from tests.integration.reply_shapes import Shapes


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served(MODEL="a:model") as app:
        yield app


async def begin(app: App, message: str | dict[str, Any] = "/sleep 60", **body: Any) -> dict[str, Any]:
    """Starts a turn that nobody reads."""
    return dict(ok(await app.http.post("/chat", json={"message": message, "detach": True} | body), 202))


async def place_after(app: App, message: str = "Hello") -> dict[str, Any]:
    """A session with one turn, as the next turn names it."""
    end = await send(app.http, {"message": message})
    return {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}


def message_of(message_id: str, text: str) -> dict[str, Any]:
    return {"id": message_id, "role": "user", "content": [{"text": text}]}


async def test_what_is_missing_is_not_found(app: App) -> None:
    await refused(app, "POST", "/chat", 404, "session_not_found", json={"message": "a", "sessionId": "missing"})
    await refused(app, "GET", "/sessions/missing", 404, "session_not_found")
    await refused(app, "GET", "/sessions/missing/messages", 404, "session_not_found")
    await refused(app, "GET", "/snapshot?sessionId=missing", 404, "session_not_found")
    await refused(app, "GET", "/snapshot?sessionId=missing&wait=5", 404, "session_not_found")
    await refused(app, "GET", "/snapshot?snapshotId=missing", 404, "snapshot_not_found")
    await refused(app, "GET", "/snapshot?snapshotId=missing&wait=5", 404, "snapshot_not_found")
    await refused(app, "POST", "/abort", 404, "snapshot_not_found", json={"snapshotId": "missing"})
    await refused(app, "POST", "/abort", 404, "session_not_found", json={"sessionId": "missing"})
    place = await place_after(app)
    await refused(
        app, "POST", "/chat", 404, "snapshot_not_found", json=place | {"message": "a", "snapshotId": "missing"}
    )


@pytest.mark.parametrize("headers", [{"x-user-id": "another"}, {"x-tenant-id": "another"}])
async def test_what_is_somebody_elses_answers_like_what_is_missing(app: App, headers: dict[str, str]) -> None:
    running = await begin(app)
    done = await send(app.http, {"message": "Hello"})
    requests: list[tuple[str, str, Any]] = []
    for turn in (running, done):
        session_id, snapshot_id = turn["sessionId"], turn["snapshotId"]
        requests += [
            ("POST", "/chat", {"message": "a", "sessionId": session_id, "lastMessageId": done["lastMessageId"]}),
            ("GET", f"/sessions/{session_id}", None),
            ("GET", f"/sessions/{session_id}/messages", None),
            ("GET", f"/snapshot?sessionId={session_id}", None),
            ("GET", f"/snapshot?snapshotId={snapshot_id}&wait=5", None),
            ("POST", "/abort", {"snapshotId": snapshot_id}),
            ("POST", "/abort", {"sessionId": session_id}),
        ]
    for method, path, body in requests:
        code = "snapshot_not_found" if "snapshotId" in f"{path}{body}" else "session_not_found"
        await refused(app, method, path, 404, code, json=body, headers=headers)
    assert ok(await app.http.get("/sessions", headers=headers)) == {"sessions": []}


async def test_a_second_turn_is_told_who_is_busy_and_when_to_come_back(app: App) -> None:
    running = await begin(app)
    body = {"sessionId": running["sessionId"], "message": "me too"}
    busy = await refused(app, "POST", "/chat", 409, "agent_session_busy", json=body)
    assert (busy["snapshotId"], busy["retryAfterSeconds"]) == (running["snapshotId"], 3)
    response = await app.http.post("/chat", json=body)
    assert response.headers["retry-after"] == "3"
    (await Shapes.of(app.http)).check_error(response.json())


async def test_an_outdated_tail_is_told_the_present_one(app: App) -> None:
    place = await place_after(app)
    for last in ({}, {"lastMessageId": None}, {"lastMessageId": "another"}):
        body = {"sessionId": place["sessionId"], "message": "a"} | last
        stale = await refused(app, "POST", "/chat", 409, "agent_session_stale", json=body)
        assert stale["lastMessageId"] == place["lastMessageId"]


async def test_stale_comes_before_busy_and_busy_before_model(app: App) -> None:
    place = await place_after(app)
    running = await begin(app, **place)
    wrong = {"message": "a", "model": "another:model"}
    stale = {"sessionId": place["sessionId"], "lastMessageId": "another"} | wrong
    await refused(app, "POST", "/chat", 409, "agent_session_stale", json=stale)
    await refused(app, "POST", "/chat", 409, "agent_session_busy", json=place | wrong)
    ok(await app.http.post("/abort", json={"snapshotId": running["snapshotId"]}))
    ok(await app.http.get("/snapshot", params={"snapshotId": running["snapshotId"], "wait": 5}))
    session = ok(await app.http.get(f"/sessions/{place['sessionId']}"))
    place["lastMessageId"] = session["lastMessageId"]
    model = await refused(app, "POST", "/chat", 409, "agent_session_model_stale", json=place | wrong)
    assert model["model"] == "a:model"


async def test_a_turn_that_makes_the_session_chooses_its_model(app: App) -> None:
    end = await send(app.http, {"message": "a", "model": "another:model"})
    assert ok(await app.http.get(f"/sessions/{end['sessionId']}"))["model"] == "another:model"
    place = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"]}
    assert (await send(app.http, place | {"message": "a", "model": "another:model"}))["status"] == "completed"


async def test_a_turn_cannot_continue_from_what_is_not_settled_or_failed(app: App) -> None:
    place = await place_after(app)
    failed = await send(app.http, place | {"message": "/fail on purpose"})
    running = await begin(app, **place)
    for snapshot_id in (failed["snapshotId"], running["snapshotId"]):
        body = place | {"message": "a", "snapshotId": snapshot_id}
        await refused(app, "POST", "/chat", 409, "not_resumable", json=body)


async def test_a_message_id_is_used_once(app: App) -> None:
    first = await send(app.http, {"message": message_of("m1", "Hello")})
    place = {"sessionId": first["sessionId"], "lastMessageId": first["lastMessageId"]}
    for body in (
        {"message": message_of("m1", "something else")},  # opens the session that m1 has opened
        place | {"message": message_of("m1", "something else")},
        place | {"message": message_of(first["message"]["id"], "Hello")},  # the model's
    ):
        answer = await refused(app, "POST", "/chat", 422, "message_id_conflict", json=body)
        assert answer["messageId"] == body["message"]["id"]


async def test_a_message_id_of_a_running_turn_is_used_too(app: App) -> None:
    running = await begin(app, message=message_of("m1", "/sleep 60"))
    body = {"sessionId": running["sessionId"], "message": message_of("m1", "/sleep 59")}
    await refused(app, "POST", "/chat", 422, "message_id_conflict", json=body)


async def test_too_many_turns_of_a_user_are_refused_and_another_users_are_not() -> None:
    async with served(MAX_TURNS_PER_USER="2", MAX_TURNS_PER_INSTANCE="3") as app:
        turns = [await begin(app) for _ in range(2)]
        limited = await refused(app, "POST", "/chat", 429, "rate_limited", json={"message": "a"})
        assert limited["retryAfterSeconds"] >= 1
        response = await app.http.post("/chat", json={"message": "a"})
        assert response.headers["retry-after"] == str(limited["retryAfterSeconds"])
        other = {"x-user-id": "another"}
        ok(await app.http.post("/chat", json={"message": "/sleep 60", "detach": True}, headers=other), 202)
        full = {"x-user-id": "a third"}
        await refused(app, "POST", "/chat", 429, "rate_limited", json={"message": "a"}, headers=full)
        ok(await app.http.post("/abort", json={"snapshotId": turns[0]["snapshotId"]}))
        ok(await app.http.get("/snapshot", params={"snapshotId": turns[0]["snapshotId"], "wait": 5}))
        assert (await send(app.http, {"message": "a"}))["status"] == "completed"


async def test_a_retry_is_answered_also_where_no_further_turn_may_begin() -> None:
    async with served(MAX_TURNS_PER_USER="1") as app:
        body = {"message": message_of("m1", "/sleep 0.1")}
        first = ok(await app.http.post("/chat", json=body | {"detach": True}), 202)
        assert (await send(app.http, body))["snapshotId"] == first["snapshotId"]


async def test_detach_is_refused_where_nothing_runs_after_a_response(app: App) -> None:
    deployed = replace(app.settings, deployed=True)
    parts = application(app.settings)
    object.__setattr__(parts, "settings", deployed)  # read_settings refuses AUTH=none where it is deployed
    body = {"message": "Hello", "detach": True}
    await refused(app, "POST", "/chat", 501, "detach_unsupported", json=body)
    assert (await send(app.http, {"message": "Hello"}))["status"] == "completed"


async def test_damage_is_told_as_such_and_never_as_absence(app: App) -> None:
    end = await send(app.http, {"message": "Hello"})
    scope = Scope("local", "local")
    head = Path(Kind.POINTERS, scope.tenant, stored_id(scope, end["sessionId"]))
    row = Path(Kind.SNAPSHOTS, "local", end["snapshotId"])
    app.store._shelf.cache.__init__(0)  # type: ignore[misc]  # so that everything is read again
    await app.database.commit([Update(row, {"stateDigest": b"x" * 32}), Update(head, {"base": {}})])
    body = {"sessionId": end["sessionId"], "lastMessageId": end["lastMessageId"], "message": "a"}
    await refused(app, "GET", f"/snapshot?snapshotId={end['snapshotId']}", 500, "data_loss")
    await refused(app, "GET", f"/sessions/{end['sessionId']}/messages", 500, "data_loss")
    await refused(app, "POST", "/chat", 500, "data_loss", json=body)
    await app.database.commit([Delete(row)])
    await refused(app, "GET", f"/sessions/{end['sessionId']}/messages", 500, "data_loss")


async def test_a_store_that_does_not_answer_is_told_as_unavailable(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unanswered(*_: object, **__: object) -> Read:
        raise UnavailableError("The database did not answer in time.")

    monkeypatch.setattr(app.database, "get", unanswered)
    for method, path, body in (
        ("GET", "/ready", None),
        ("GET", "/sessions/a", None),
        ("GET", "/snapshot?snapshotId=a", None),
        ("POST", "/abort", {"snapshotId": "a"}),
        ("POST", "/chat", {"sessionId": "a", "message": "b"}),
    ):
        answer = await app.http.request(method, path, json=body)
        assert ok(answer, 503)["code"] == "unavailable"
    ok(await app.http.get("/health"))


async def test_what_nobody_expected_is_internal_and_tells_nothing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> Read:
        raise RuntimeError("the secret")

    monkeypatch.setattr(app.database, "get", broken)
    response = await app.http.get("/sessions/a")
    assert ok(response, 500) == {"code": "internal", "message": "The server failed to answer this request."}


class Superseded:
    """Meanwhile another instance finds the lease stale, and settles the row."""

    name = "superseded"

    def __init__(self) -> None:
        self.database: Database | None = None

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        assert self.database is not None
        path = Path(Kind.SNAPSHOTS, turn.scope.tenant, turn.snapshot_id)
        await self.database.commit([Update(path, {"status": "failed", "settledBy": "another"})])
        yield TextDelta("late")


async def test_a_turn_that_was_superseded_says_that_nothing_of_it_was_published() -> None:
    agent = Superseded()
    async with served(agent) as app:
        agent.database = app.database
        async with app.chat({"message": "Hello"}) as exchange:
            events = [event async for event in exchange.events()]
        assert [event.name for event in events] == ["turn-start", "text-delta", "error"]
        assert events[-1].data["code"] == "agent_session_lease_lost"
        answer = await app.http.post("/chat", json={"message": "Hello"})
        assert ok(answer, 409)["code"] == "agent_session_lease_lost"
        assert await transcript(app.http, events[0].data["sessionId"]) == []


async def test_an_error_of_a_stream_that_has_not_begun_is_a_plain_answer(app: App) -> None:
    headers = {"accept": "text/event-stream"}
    body = {"message": "Hello", "sessionId": "missing"}
    answer = await app.http.post("/chat", json=body, headers=headers)
    assert ok(answer, 404)["code"] == "session_not_found"
    assert (await send_streaming(app.http, {"message": "Hello"})).end["status"] == "completed"
