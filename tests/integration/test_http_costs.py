"""What a request has cost, told in its answer's headers to those who ask for it, and to nobody else."""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import httpx
import pytest

from functions.replies import COSTS_HEADER
from store.ids import mint_id
from tests.acceptance.chat_client import STREAM, ok, send
from tests.acceptance.fated_pair import place_of
from tests.integration.http_app import App, served

ASKING = {COSTS_HEADER: "1"}
Place: TypeAlias = dict[str, Any]


@pytest.fixture
async def app(emulator_host: str, project_id: str) -> AsyncIterator[App]:
    settings = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    async with served(None, **settings) as app:
        yield app


def costs(response: httpx.Response) -> str:
    """As counted; AssertionError where the time is missing."""
    assert re.fullmatch(r"total;dur=[0-9]+\.[0-9]", response.headers["server-timing"])
    return response.headers[COSTS_HEADER]


async def test_nobody_is_told_who_has_not_asked(app: App) -> None:
    for answer in (await app.http.post("/chat", json={"message": "one"}), await app.http.get("/sessions/missing")):
        assert not {COSTS_HEADER, "server-timing"} & set(answer.headers)


async def test_a_turn_tells_what_it_has_cost(app: App) -> None:
    place = place_of(await send(app.http, {"message": "one"}))
    answer = await app.http.post("/chat", json={"message": "two"} | place, headers=ASKING)
    assert costs(answer) == "rpcs=3, read=1, written=4"


async def test_a_stream_tells_what_its_claim_has_cost(app: App) -> None:
    """Its headers leave before the turn is over."""
    place = place_of(await send(app.http, {"message": "one"}))
    headers = ASKING | {"accept": STREAM}
    async with app.http.stream("POST", "/chat", json={"message": "two"} | place, headers=headers) as answer:
        assert costs(answer) == "rpcs=2, read=1, written=2"
        assert "turn-end" in (await answer.aread()).decode()


async def test_a_refusal_tells_too(app: App) -> None:
    place = place_of(await send(app.http, {"message": "one"}))
    await send(app.http, {"message": "two"} | place)
    late = {"message": {"id": "late", "role": "user", "content": [{"text": "late"}]}}
    answer = await app.http.post("/chat", json=late | place, headers=ASKING)
    assert (answer.status_code, answer.json()["code"]) == (409, "agent_session_stale")
    assert costs(answer) == "rpcs=2, read=2, written=0"
    assert costs(await app.http.get("/nowhere", headers=ASKING)) == "rpcs=0, read=0, written=0"


Ask: TypeAlias = Callable[[httpx.AsyncClient, Place, dict[str, str]], Any]
ASKED: dict[str, Ask] = {
    "session": lambda http, at, headers: http.get(f"/sessions/{at['sessionId']}", headers=headers),
    "messages": lambda http, at, headers: http.get(f"/sessions/{at['sessionId']}/messages", headers=headers),
    "tree": lambda http, at, headers: http.get(f"/sessions/{at['sessionId']}/snapshots", headers=headers),
    "snapshot": lambda http, at, headers: http.get("/snapshot", params={"snapshotId": at["id"]}, headers=headers),
    "latest": lambda http, at, headers: http.get("/snapshot", params={"sessionId": at["sessionId"]}, headers=headers),
    "abort": lambda http, at, headers: http.post("/abort", json={"snapshotId": at["id"]}, headers=headers),
    "re-attach": lambda http, at, headers: http.get(f"/chat/{at['id']}", headers=headers),
    "rename": lambda http, at, headers: http.patch(
        f"/sessions/{at['sessionId']}", json={"title": "mine"}, headers=headers
    ),
    "send": lambda http, at, headers: http.post(
        "/chat", json={"message": "x", "sessionId": at["sessionId"]}, headers=headers
    ),
    "delete": lambda http, at, headers: http.delete(f"/sessions/{at['sessionId']}", headers=headers),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
async def test_what_belongs_to_somebody_else_costs_what_a_missing_thing_costs(app: App, ask: Ask) -> None:
    """Else the counts would tell them apart."""
    end = ok(await app.http.post("/chat", json={"message": "one"}, headers={"x-user-id": "ann", "x-tenant-id": "t"}))
    headers = ASKING | {"x-user-id": "eve", "x-tenant-id": "t"}
    theirs = await ask(app.http, {"sessionId": end["sessionId"], "id": end["snapshotId"]}, headers)
    missing = await ask(app.http, {"sessionId": mint_id(), "id": mint_id()}, headers)
    assert theirs.status_code == missing.status_code == 404
    assert costs(theirs) == costs(missing)
