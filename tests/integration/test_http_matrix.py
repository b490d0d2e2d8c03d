"""Two tenants with three users each, against every route: nobody gets at what is not theirs, or learns that it exists."""

import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import httpx
import pytest

from functions.openapi import openapi_document
from store.database import Document, Path
from tests.acceptance.chat_client import ok
from tests.integration.attacks import ATTACKS, NAMES_NOTHING, Attack, Things
from tests.integration.http_app import App, served

PATIENT = {"HEARTBEAT_INTERVAL": "600", "LEASE_STALENESS": "3600"}  # no heartbeat changes a document meanwhile
SAMPLES = 200
CALLS = [
    pytest.param(method, attack, id=f"{method} {path} {name}")
    for (method, path), attacks in ATTACKS.items()
    for name, attack in attacks.items()
]


class Person(NamedTuple):
    tenant: str
    user: str

    @property
    def headers(self) -> dict[str, str]:
        return {"x-tenant-id": self.tenant, "x-user-id": self.user}


# The same names in both tenants: a name alone must not be enough.
PEOPLE = [Person(tenant, user) for tenant in ("acme", "umbrella") for user in ("ada", "bob", "eve")]


async def furnish(app: App, person: Person) -> Things:
    """Stores what a person has: a session with a turn behind it, and one whose turn goes on and on."""
    app.http.headers.update(person.headers)
    done = ok(await app.http.post("/chat", json={"message": "Hello"}))
    messages = ok(await app.http.get(f"/sessions/{done['sessionId']}/messages"))["messages"]
    busy = ok(await app.http.post("/chat", json={"message": "/sleep 600", "detach": True}), 202)
    return Things(
        session_id=done["sessionId"],
        snapshot_id=done["snapshotId"],
        user_message_id=messages[0]["id"],
        last_message_id=done["lastMessageId"],
        busy_session_id=busy["sessionId"],
        busy_snapshot_id=busy["snapshotId"],
    )


async def attempt(app: App, person: Person, method: str, attack: Attack, it: Things, own: Things) -> httpx.Response:
    path, body, query, headers = attack(it, own)
    given: dict[str, Any] = {} if body is None else {"json": body}
    return await app.http.request(method, path, params=query, headers=person.headers | dict(headers or {}), **given)


def told(response: httpx.Response, it: Things) -> tuple[Any, ...]:
    """Everything that an answer says, with the ids that its request named left out."""
    headers, text = json.dumps(sorted(response.headers.items())), response.text
    for number, known in enumerate(it.ids):
        headers, text = headers.replace(known, f"<{number}>"), text.replace(known, f"<{number}>")
    return response.status_code, headers, text


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with served(None, **PATIENT) as app:
        yield app


@pytest.fixture
async def belongings(app: App) -> dict[Person, Things]:
    return {person: await furnish(app, person) for person in PEOPLE}


def test_every_route_of_the_description_has_its_place_in_the_matrix() -> None:
    described = {(method.upper(), path) for path, methods in openapi_document()["paths"].items() for method in methods}
    assert described == ATTACKS.keys() | NAMES_NOTHING.keys()
    assert not ATTACKS.keys() & NAMES_NOTHING.keys()


@pytest.mark.parametrize(("method", "attack"), CALLS)
async def test_its_owner_can_do_it(app: App, method: str, attack: Attack) -> None:
    own = await furnish(app, PEOPLE[0])
    response = await attempt(app, PEOPLE[0], method, attack, own, own)
    assert response.status_code != 404, response.text


@pytest.mark.parametrize(("method", "attack"), CALLS)
async def test_nobody_else_can_do_it_or_learn_that_it_is_there(
    app: App, belongings: dict[Person, Things], method: str, attack: Attack
) -> None:
    before = await app.documents()
    for owner, other in itertools.permutations(PEOPLE, 2):
        theirs, nothing, own = belongings[owner], Things(), belongings[other]
        refused = await attempt(app, other, method, attack, theirs, own)
        missing = await attempt(app, other, method, attack, nothing, own)
        assert refused.status_code == 404, f"{other} against {owner}: {refused.text}"
        assert told(refused, theirs) == told(missing, nothing), f"{other} against {owner}"
    assert await app.documents() == before


async def test_a_list_holds_the_callers_own_sessions_alone(app: App, belongings: dict[Person, Things]) -> None:
    for person, own in belongings.items():
        listed = ok(await app.http.get("/sessions", headers=person.headers))["sessions"]
        assert {session["id"] for session in listed} == {own.session_id, own.busy_session_id}


async def test_a_cursor_of_somebody_elses_list_leads_to_the_callers_own(
    app: App, belongings: dict[Person, Things]
) -> None:
    for owner, other in itertools.permutations(PEOPLE, 2):
        page = ok(await app.http.get("/sessions", params={"limit": 1}, headers=owner.headers))
        query = {"cursor": page["nextCursor"]}
        listed = ok(await app.http.get("/sessions", params=query, headers=other.headers))["sessions"]
        assert {session["id"] for session in listed} <= set(belongings[other].ids)


def documents_of(owner: Person, documents: Mapping[Path, Document]) -> dict[Path, Document]:
    return {
        path: document
        for path, document in documents.items()
        if path.tenant == owner.tenant and document.fields.get("ownerId") == owner.user
    }


@pytest.mark.parametrize("body", [{}, {"title": "Mine"}, {"custom": {"mine": True}}, {"temporary": True}])
async def test_a_taken_id_opens_nobodys_session(
    app: App, belongings: dict[Person, Things], body: dict[str, Any]
) -> None:
    before = await app.documents()
    for owner, other in itertools.permutations(PEOPLE, 2):
        request = {"id": belongings[owner].session_id} | body
        response = await app.http.post("/sessions", json=request, headers=other.headers)
        if owner.tenant == other.tenant:
            assert response.status_code == 404, response.text
            assert documents_of(other, await app.documents()) == documents_of(other, before)
        else:  # another tenant's ids are other ids; a third person of that tenant may have made this one by now
            assert response.status_code in (201, 404), response.text
        assert documents_of(owner, await app.documents()).items() >= documents_of(owner, before).items()


async def test_a_branch_never_lands_in_somebody_elses_session(app: App, belongings: dict[Person, Things]) -> None:
    before = await app.documents()
    for owner, other in itertools.permutations(PEOPLE[:3], 2):
        own = belongings[other]
        body = {"messageId": own.last_message_id, "id": belongings[owner].session_id}
        response = await app.http.post(f"/sessions/{own.session_id}/branch", json=body, headers=other.headers)
        assert response.status_code == 404, response.text
    assert await app.documents() == before


@pytest.mark.parametrize(("method", "attack"), CALLS)
async def test_missing_and_forbidden_take_the_same_time(
    app: App, belongings: dict[Person, Things], method: str, attack: Attack
) -> None:
    owner, other = PEOPLE[0], PEOPLE[1]
    theirs, nothing, own = belongings[owner], Things(), belongings[other]
    times: dict[str, list[float]] = {"refused": [], "missing": []}
    for _ in range(SAMPLES):  # by turns, so that whatever else the machine does slows both
        for kind, it in (("refused", theirs), ("missing", nothing)):
            start = time.perf_counter()
            await attempt(app, other, method, attack, it, own)
            times[kind].append(time.perf_counter() - start)
    refused, missing = statistics.median(times["refused"]), statistics.median(times["missing"])
    assert max(refused, missing) <= 1.2 * min(refused, missing), f"{refused * 1000:.2f} and {missing * 1000:.2f} ms"
