"""What the server offers: its description, the functions deployed apart, and which other origins' pages may read it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from functions.app import ROUTES, serve
from functions.openapi import openapi_document
from functions.settings import read_settings
from tests.acceptance.chat_client import ok, send
from tests.integration.http_app import App, served

ALIASES = {"/healthz", "/readyz"}
OURS, FOREIGN = "https://app.example.com", "https://evil.example.com"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served(CORS_ORIGINS=f"{OURS} http://localhost:3000") as app:
        yield app


async def test_the_description_is_served_and_lists_exactly_the_public_routes(app: App) -> None:
    document = ok(await app.http.get("/openapi.json"))
    assert document == openapi_document()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES if route.path not in ALIASES}


async def test_every_described_success_is_what_a_client_may_get(app: App) -> None:
    """Each operation without a path's value and a body: its described status is the one that it answers with."""
    document = ok(await app.http.get("/openapi.json"))
    for path, methods in document["paths"].items():
        if "get" in methods and "{" not in path and path != "/snapshot":
            response = await app.http.get(path)
            assert str(response.status_code) in methods["get"]["responses"], path


async def call(function: str, method: str, path: str) -> int:
    """The status of a request without a body to one function deployed apart."""

    async def nothing() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": []}
    response: Response = await serve(Request(scope, nothing), read_settings({"STORE": "memory"}), function)
    return response.status_code


@pytest.mark.parametrize("function", ["chat", "abort", "snapshot", "sessions"])
async def test_a_function_deployed_apart_serves_its_own_routes_and_no_others(function: str) -> None:
    async with served():
        for route in ROUTES:
            is_its_own = route.function in ("", function)
            status = await call(function, route.method, route.path.replace("{", "").replace("}", ""))
            assert (status != 404 or "{" in route.path) if is_its_own else status in (404, 405), route.path


@pytest.mark.parametrize(
    ("function", "method", "status"),
    [("chat", "POST", 400), ("abort", "POST", 400), ("snapshot", "GET", 400), ("sessions", "POST", 201)],
)
async def test_the_root_of_a_function_is_its_first_route(function: str, method: str, status: int) -> None:
    async with served():
        assert await call(function, method, "/") == status
        assert await call(function, "GET", "/health") == 200


async def test_a_page_of_an_allowed_origin_may_read_answers_and_errors(app: App) -> None:
    headers = {"origin": OURS}
    for response in (
        await app.http.get("/health", headers=headers),
        await app.http.post("/chat", json={"message": "Hello"}, headers=headers | {"accept": "text/event-stream"}),
        await app.http.get("/sessions/missing", headers=headers),
        await app.http.get("/nothing", headers=headers),
        await app.http.delete("/chat", headers=headers),
    ):
        assert response.headers["access-control-allow-origin"] == OURS, response.request.url
        assert "origin" in response.headers["vary"].lower()
        assert "access-control-allow-credentials" not in response.headers


async def test_a_page_of_another_origin_may_not(app: App) -> None:
    for headers in ({"origin": FOREIGN}, {"origin": "null"}, {"origin": OURS + ".evil.example.com"}, {}):
        response = await app.http.get("/health", headers=headers)
        assert "access-control-allow-origin" not in response.headers
        preflight = await app.http.options("/chat", headers=headers | PREFLIGHT)
        assert "access-control-allow-origin" not in preflight.headers


async def test_a_preflight_names_what_may_be_sent_and_runs_nothing(app: App) -> None:
    response = await app.http.options("/chat", headers={"origin": OURS} | PREFLIGHT)
    assert (response.status_code, response.content) == (204, b"")
    allowed = {header.strip() for header in response.headers["access-control-allow-headers"].split(",")}
    assert {"content-type", "x-user-id", "x-tenant-id", "last-event-id", "authorization"} <= allowed
    assert "POST" in response.headers["access-control-allow-methods"]
    assert await app.documents() == {}


async def test_no_other_origin_is_named_where_none_is_configured() -> None:
    async with served() as app:
        response = await app.http.get("/health", headers={"origin": OURS})
        assert {name for name in response.headers if name.startswith("access-control")} == set()


async def test_a_head_request_is_a_get_without_its_body(app: App) -> None:
    response = await app.http.head("/health")
    assert response.status_code == 200


async def test_nothing_is_made_before_the_first_request() -> None:
    others = asyncio.all_tasks()
    async with served() as app:
        assert asyncio.all_tasks() == others  # no listener, no heart
        assert await app.documents() == {}
        await send(app.http, {"message": "Hello"})
        assert asyncio.all_tasks() > others
