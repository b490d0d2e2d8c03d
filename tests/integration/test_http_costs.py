"""What a request has cost, told in its answer's headers to those who ask for it, and to nobody else."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from functions.replies import COSTS_HEADER
from store.ids import mint_id
from tests.acceptance.chat_client import STREAM, ok, send
from tests.acceptance.fated_pair import place_of
from tests.integration.attacks import ATTACKS, Things
from tests.integration.http_app import App, served
from tests.integration.test_http_matrix import MAKES, PATIENT, PEOPLE, attempt, furnish, make

ASKING = {COSTS_HEADER: "1"}


@pytest.fixture
async def app(emulator_host: str, project_id: str) -> AsyncIterator[App]:
    settings = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    async with served(None, **settings, **PATIENT) as app:
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


async def test_what_belongs_to_somebody_else_costs_what_a_missing_thing_costs(app: App) -> None:
    """Else the counts would tell them apart, whichever route is asked, and whether ids are looked for or chosen."""
    owner, other = PEOPLE[:2]
    theirs, own = await furnish(app, owner), await furnish(app, other)
    app.http.headers.update(ASKING)
    for (method, path), attacks in ATTACKS.items():
        for name, attack in attacks.items():
            told = [await attempt(app, other, method, attack, it, own) for it in (theirs, Things())]
            assert costs(told[0]) == costs(told[1]), f"{method} {path} {name}"
    for name in MAKES:
        for taken in (theirs.session_id, theirs.busy_session_id):
            told = [await make(app, other, name, new_id, own) for new_id in (taken, mint_id())]
            assert costs(told[0]) == costs(told[1]), name
            ok(told[0], 201)
            assert (await app.http.delete(f"/sessions/{taken}", headers=other.headers)).status_code == 204
