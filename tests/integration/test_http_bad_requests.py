"""Paths, queries, ids, methods and headers that are refused: the error table's answer, and not one document written or
changed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.http_app import App, served
from tests.integration.refusals import Place, furnished, refused

LONG_ID = "é" * 701  # 1,402 bytes
BAD_IDS = [".", "..", "a/b", "__x__", "", " ", "a\nb", "x" * 1401, LONG_ID]


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served() as app:
        yield app


@pytest.fixture
async def place(app: App) -> Place:
    return await furnished(app)


@pytest.mark.parametrize("bad", BAD_IDS)
async def test_a_bad_id_is_refused_wherever_one_is_taken(app: App, place: Place, bad: str) -> None:
    bodies = [
        ("/chat", {"message": "Hello", "sessionId": bad}),
        ("/chat", {"message": "Hello", "snapshotId": bad}),
        ("/chat", {"message": "Hello", "sessionId": place.session_id, "snapshotId": bad}),
        ("/abort", {"snapshotId": bad}),
        ("/abort", {"sessionId": bad}),
        ("/sessions", {"id": bad}),
    ]
    for path, body in bodies:
        await refused(app, "POST", path, 400, "invalid_request", json=body)
    for name in ("snapshotId", "sessionId"):
        for query in ({}, {"wait": "1"}, {"metadataOnly": "true"}):
            await refused(app, "GET", "/snapshot", 400, "invalid_request", params={name: bad} | query)


ENCODED_IDS = ["%2E", "%2e%2E", "a%2Fb", "__x__", "%5F%5Fx__", "", "%20", "a%0Ab", "%00", "x" * 1401, "%C3%A9" * 701]


@pytest.mark.parametrize("encoded", ENCODED_IDS)
async def test_a_bad_id_in_a_path_is_refused(app: App, place: Place, encoded: str) -> None:
    for path in (f"/sessions/{encoded}", f"/sessions/{encoded}/messages"):
        await refused(app, "GET", path, 400, "invalid_request")


@pytest.mark.parametrize("encoded", ["%FF", "%ED%A0%80", "a%C3"])
async def test_a_path_or_a_query_that_is_not_utf8_is_refused(app: App, place: Place, encoded: str) -> None:
    await refused(app, "GET", f"/sessions/{encoded}", 400, "invalid_request")
    await refused(app, "GET", f"/snapshot?snapshotId={encoded}", 400, "invalid_request")


ABORTS = [
    {},
    {"sessionId": "a", "snapshotId": "b"},
    {"sessionId": None},
    {"snapshotId": 1},
    {"snapshotId": "a", "x": 1},
]


@pytest.mark.parametrize("body", ABORTS)
async def test_an_abort_takes_exactly_one_selector(app: App, place: Place, body: Any) -> None:
    await refused(app, "POST", "/abort", 400, "invalid_request", json=body)


SNAPSHOTS = [
    "",
    "?snapshotId=a&sessionId=b",
    "?snapshotId=a&snapshotId=a",
    "?snapshotId=a&metadataOnly=1",
    "?snapshotId=a&metadataOnly=True",
    "?snapshotId=a&metadataOnly",
    "?snapshotId=a&wait=-1",
    "?snapshotId=a&wait=55.1",
    "?snapshotId=a&wait=1e1",
    "?snapshotId=a&wait=nan",
    "?snapshotId=a&wait=",
    "?snapshotId=a&wait=+1",
    "?snapshotId=a&state=false",
    "?snapshotid=a",
    "?snapshotId=a" + "&x=1" * 40,
]


@pytest.mark.parametrize("query", SNAPSHOTS)
async def test_a_snapshot_query_that_is_not_understood_is_refused(app: App, place: Place, query: str) -> None:
    await refused(app, "GET", f"/snapshot{query}", 400, "invalid_request")


LIMITS = ["0", "-1", "1.5", "1_0", "٣", "0x10", "", "many", "1" * 30]


@pytest.mark.parametrize("limit", LIMITS)
async def test_a_limit_outside_of_its_range_is_refused(app: App, place: Place, limit: str) -> None:
    for path in ("/sessions", f"/sessions/{place.session_id}/messages"):
        await refused(app, "GET", path, 400, "invalid_request", params={"limit": limit})
    await refused(app, "GET", "/sessions", 400, "invalid_request", params={"limit": "101"})
    path = f"/sessions/{place.session_id}/messages"
    await refused(app, "GET", path, 400, "invalid_request", params={"limit": "1001"})


@pytest.mark.parametrize("cursor", ["", "nonsense", "é", "eyJ9", "bnVsbA", "WzEsMl0", "LTE", "x" * 5000])
async def test_a_cursor_that_was_not_made_here_is_refused(app: App, place: Place, cursor: str) -> None:
    for path in ("/sessions", f"/sessions/{place.session_id}/messages"):
        await refused(app, "GET", path, 400, "invalid_request", params={"cursor": cursor})


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/chat", "POST"),
        ("DELETE", "/chat", "POST"),
        ("GET", "/abort", "POST"),
        ("POST", "/snapshot", "GET"),
        ("PUT", "/snapshot", "GET"),
        ("POST", "/health", "GET"),
        ("POST", "/ready", "GET"),
        ("OPTIONS", "/openapi.json", "GET"),
    ],
)
async def test_another_method_is_told_which_are_allowed(
    app: App, place: Place, method: str, path: str, allowed: str
) -> None:
    await refused(app, method, path, 405, "method_not_allowed", json={"message": "Hello"})
    response = await app.http.request(method, path)
    assert response.headers["allow"] == allowed


async def test_a_path_with_several_methods_names_them_all(app: App, place: Place) -> None:
    await refused(app, "PUT", "/sessions", 405, "method_not_allowed")
    allowed = (await app.http.put("/sessions")).headers["allow"].split(", ")
    assert {"GET", "POST"} <= set(allowed)
    assert allowed == sorted(allowed)


@pytest.mark.parametrize("path", ["/", "/nothing", "/health/", "/Chat", "//chat", "/sessions/a/b/c", "/chat%2F"])
async def test_an_unknown_path_is_not_found(app: App, place: Place, path: str) -> None:
    await refused(app, "PUT", path, 404, "not_found")


@pytest.mark.parametrize("header", ["x-user-id", "x-tenant-id"])
@pytest.mark.parametrize("bad", ["", " ", ".", "..", "a/b", "__x__", "x" * 1401, b"\xff", "é" * 701])
async def test_a_bad_id_in_a_header_is_refused(app: App, place: Place, header: str, bad: str | bytes) -> None:
    headers = {header: bad.encode() if isinstance(bad, str) else bad}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/chat", {"json": {"message": "Hello"}}),
        ("POST", "/abort", {"json": {"snapshotId": place.busy_snapshot_id}}),
        ("POST", "/sessions", {"json": {}}),
        ("GET", "/sessions", {}),
        ("GET", f"/sessions/{place.session_id}", {}),
        ("GET", f"/sessions/{place.session_id}/messages", {}),
        ("GET", "/snapshot", {"params": {"snapshotId": place.snapshot_id}}),
    ]
    for method, path, given in requests:
        await refused(app, method, path, 400, "invalid_request", headers=headers, **given)
