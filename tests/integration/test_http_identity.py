"""Who is let in over HTTP: with real tokens, whose keys are fetched from a local address."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from functions.app import ROUTES, Route
from functions.identity.access import Access
from functions.openapi.routes import ROUTES as DESCRIBED
from tests.acceptance.chat_client import STREAM, ok, send
from tests.integration.http_app import App, served
from tests.integration.key_server import KeyServer
from tests.unit.token_issuer import Issuer, key_set, unsigned, user_claims

FIRST, SECOND, STRANGER = Issuer("first"), Issuer("second"), Issuer("stranger")
CLOSED = [route for route in ROUTES if route.access is Access.CALLER]
UNREADABLE = b"\xff"  # as a body: 400 wherever it is looked at
QUEUED = {"tenant": "acme", "user": "ada", "snapshotId": "missing"}
ALL_TRIES_USED = {"x-cloudtasks-taskretrycount": "10"}


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    with KeyServer(FIRST).running() as server:
        yield server


@pytest.fixture
async def app(keys: KeyServer) -> AsyncIterator[App]:
    async with served(None, **keys.settings) as app:
        yield app


def bearer(token: str, **headers: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} | headers


def ada(**claims: Any) -> dict[str, str]:
    return bearer(FIRST.user("ada", **({"org": "acme"} | claims)))


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


def path_of(route: Route) -> str:
    return re.sub(r"\{\w+\}", "some-id", route.path)


async def test_what_is_stored_belongs_to_the_tenant_and_the_user_of_the_token(app: App) -> None:
    app.http.headers.update(ada() | {"x-user-id": "eve", "x-tenant-id": "evil"})
    session_id = (await send(app.http, {"message": "Hello"}))["sessionId"]
    stored = await app.documents()
    assert {path.tenant for path in stored} == {"acme"}
    assert {document.fields["ownerId"] for document in stored.values() if "ownerId" in document.fields} == {"ada"}
    assert ok(await app.http.get(f"/sessions/{session_id}"))["id"] == session_id


@pytest.mark.parametrize("route", CLOSED, ids=named)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-user-id": "ada", "x-tenant-id": "acme"},
        bearer(STRANGER.user("ada", org="acme")),
        bearer(unsigned(user_claims("ada", org="acme"), kid="first")),
        bearer(FIRST.account()),
    ],
    ids=["nothing", "headers", "a stranger's token", "an unsigned token", "the scheduler's token"],
)
async def test_strangers_get_nowhere_and_not_even_a_parser(app: App, route: Route, headers: dict[str, str]) -> None:
    response = await app.http.request(route.method, path_of(route), headers=headers, content=UNREADABLE)
    told = ok(response, 401)
    if route.path.startswith("/agents/"):
        assert (told["status"], set(told)) == ("UNAUTHENTICATED", {"status", "message"})
    else:
        assert told["code"] == "unauthenticated"
    assert response.headers["www-authenticate"] == "Bearer"
    assert await app.documents() == {}


async def test_what_anybody_may_see_needs_no_token(app: App) -> None:
    for route in ROUTES:
        if route.access is Access.ANYBODY:
            assert (await app.http.request(route.method, path_of(route))).status_code == 200, route


def test_the_description_says_of_each_route_whom_it_is_for() -> None:
    served_routes = {(route.method, route.path): route.access for route in ROUTES}
    for described in DESCRIBED:
        assert served_routes[described.method.upper(), described.path] is described.access, described.path


@pytest.mark.parametrize("org", [None, "", "a/b", 7])
async def test_a_token_without_the_tenants_claim_is_refused(app: App, org: Any) -> None:
    response = await app.http.post("/chat", json={"message": "Hello"}, headers=ada(org=org))
    assert ok(response, 403)["code"] == "permission_denied"
    assert "www-authenticate" not in response.headers
    assert await app.documents() == {}


async def test_genkits_clients_are_told_in_their_own_words_who_is_let_in(app: App) -> None:
    for route in (route for route in CLOSED if route.path.startswith("/agents/")):
        path = path_of(route).replace("some-id", "echo")
        for headers in ({}, {"accept": STREAM}):
            told = ok(await app.http.post(path, json={}, headers=ada(org=None) | headers), 403)
            assert (told["status"], set(told)) == ("PERMISSION_DENIED", {"status", "message"})
    wrong_method = ok(await app.http.get("/agents/echo"), 405)
    assert (wrong_method["status"], set(wrong_method)) == ("INVALID_ARGUMENT", {"status", "message"})
    nowhere = ok(await app.http.post("/agents/echo/nothing", headers=ada()), 404)
    assert (nowhere["status"], set(nowhere)) == ("NOT_FOUND", {"status", "message"})


async def test_a_queues_callback_is_let_in_by_the_schedulers_token_alone(app: App) -> None:
    for headers in ({}, ada(), ada(admin=True), bearer(STRANGER.account())):
        response = await app.http.post("/turn", json=QUEUED, headers=headers | ALL_TRIES_USED)
        assert ok(response, 401)["code"] == "unauthenticated"
    another = bearer(FIRST.account(email="eve@example.com"))
    assert ok(await app.http.post("/turn", json=QUEUED, headers=another), 403)["code"] == "permission_denied"
    let_in = await app.http.post("/turn", json=QUEUED, headers=bearer(FIRST.account()) | ALL_TRIES_USED)
    assert ok(let_in)["result"] == "unknown"


async def test_keys_are_fetched_once_for_many_tokens(app: App, keys: KeyServer) -> None:
    answers = await asyncio.gather(*(app.http.get("/sessions", headers=ada()) for _ in range(30)))
    assert {answer.status_code for answer in answers} == {200}
    assert keys.asked == 1


async def test_a_rotated_key_is_taken_as_soon_as_the_old_ones_have_expired(app: App, keys: KeyServer) -> None:
    keys.max_age = 0  # counts as one second
    ok(await app.http.get("/sessions", headers=ada()))
    keys.body = key_set(SECOND)
    new = bearer(SECOND.user("ada", org="acme"))
    async with asyncio.timeout(5):
        while (await app.http.get("/sessions", headers=new)).status_code != 200:  # noqa: ASYNC110 # the clock says when
            await asyncio.sleep(0.05)
    assert ok(await app.http.get("/sessions", headers=ada()), 401)["code"] == "unauthenticated"


async def test_waiting_for_keys_holds_nobody_else_up(app: App, keys: KeyServer) -> None:
    keys.may_answer.clear()
    waiting = asyncio.create_task(app.http.get("/sessions", headers=ada()))
    async with asyncio.timeout(5):
        while not keys.asked:  # noqa: ASYNC110 # it is another thread that is asked
            await asyncio.sleep(0)
        ok(await app.http.get("/health"))
    assert not waiting.done()
    keys.may_answer.set()
    ok(await waiting)


@pytest.mark.parametrize(("status", "body"), [(500, b"{}"), (200, b"<html>"), (200, b'{"keys": []}')])
async def test_without_keys_nobody_is_judged(app: App, keys: KeyServer, status: int, body: bytes) -> None:
    keys.status, keys.body = status, body
    response = await app.http.get("/sessions", headers=ada())
    assert ok(response, 503)["code"] == "unavailable"
    assert "127.0.0.1" not in response.text


async def test_a_browsers_question_needs_no_token(keys: KeyServer) -> None:
    origin = "https://app.example.com"
    async with served(None, **keys.settings, CORS_ORIGINS=origin) as app:
        asked = {"origin": origin, "access-control-request-method": "POST"}
        preflight = await app.http.options("/chat", headers=asked)
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, origin)
        refused = await app.http.post("/chat", json={"message": "Hello"}, headers={"origin": origin})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, origin)


async def answers_of_every_kind(app: App) -> AsyncIterator[httpx.Response]:
    yield await app.http.post("/chat", json={"message": "Hello"})
    yield await app.http.post("/chat", json={"message": "Hello"}, headers={"accept": STREAM})
    session = await app.http.post("/sessions", json={})
    yield session
    yield await app.http.delete(f"/sessions/{session.json()['id']}")
    yield await app.http.get("/sessions/missing")
    yield await app.http.put("/chat")
    yield await app.http.get("/nothing")
    yield await app.http.get("/health")
    yield await app.http.get("/openapi.json")
    yield await app.http.options(
        "/chat", headers={"origin": "https://app.example.com", "access-control-request-method": "POST"}
    )


async def test_every_answer_tells_browsers_and_caches_to_be_careful() -> None:
    async with served() as app:
        statuses = set()
        async for response in answers_of_every_kind(app):
            statuses.add(response.status_code)
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["referrer-policy"] == "no-referrer"
            assert response.headers["cache-control"] == "no-store"
            assert "default-src 'none'" in response.headers["content-security-policy"]
        assert statuses == {200, 201, 204, 404, 405}
