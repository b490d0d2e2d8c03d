"""Two tenants with three users each, against every route: nobody gets at what is not theirs, or learns of it."""

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import httpx
import pytest

from functions.openapi import openapi_document
from store.ids import mint_id
from tests.acceptance.chat_client import ok
from tests.integration.attacks import ATTACKS, NAMES_NOTHING, Attack, Things
from tests.integration.http_app import App, served

# Nothing that a running turn does by itself changes a document meanwhile.
PATIENT = {
    "HEARTBEAT_INTERVAL": "600",
    "LEASE_STALENESS": "3600",
    "STREAM_SEGMENTS": "off",
    "RETENTION_MAX_COUNT_PER_USER": "0",
}
SAMPLES, WARM_UP = 200, 20
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
    doing = asyncio.create_task(attempt(app, PEOPLE[0], method, attack, own, own))
    await asyncio.wait((doing,), timeout=1)
    if doing.done():
        assert doing.result().status_code in (200, 201, 202, 204, 409), doing.result().text
    else:  # let in to a turn that goes on and on
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)


@pytest.mark.parametrize(("method", "attack"), CALLS)
async def test_nobody_else_can_do_it_or_learn_that_it_is_there(
    app: App, belongings: dict[Person, Things], method: str, attack: Attack
) -> None:
    before = await app.documents()
    for owner, other in itertools.permutations(PEOPLE, 2):
        theirs, nothing, own = belongings[owner], Things(), belongings[other]
        refused = await attempt(app, other, method, attack, theirs, own)
        missing = await attempt(app, other, method, attack, nothing, own)
        if not refused.request.url.path.startswith("/agents/"):  # Genkit's protocol says "nothing" in ways of its own
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


MAKES: dict[str, Callable[[str, Things], tuple[str, dict[str, Any]]]] = {
    "bare": lambda new_id, own: ("/sessions", {"id": new_id}),
    "with a title": lambda new_id, own: ("/sessions", {"id": new_id, "title": "Mine"}),
    "with a state": lambda new_id, own: ("/sessions", {"id": new_id, "custom": {"mine": True}}),
    "temporary": lambda new_id, own: ("/sessions", {"id": new_id, "temporary": True}),
    "a branch": lambda new_id, own: (
        f"/sessions/{own.session_id}/branch",
        {"messageId": own.last_message_id, "id": new_id},
    ),
}


async def make(app: App, person: Person, name: str, new_id: str, own: Things) -> httpx.Response:
    path, body = MAKES[name](new_id, own)
    return await app.http.post(path, json=body, headers=person.headers)


@pytest.mark.parametrize("name", MAKES)
async def test_an_id_that_somebody_has_is_as_free_as_any(app: App, belongings: dict[Person, Things], name: str) -> None:
    before = await app.documents()
    for owner, other in itertools.permutations(PEOPLE, 2):
        own = belongings[other]
        for taken in (belongings[owner].session_id, belongings[owner].busy_session_id):
            answers = [(new_id, await make(app, other, name, new_id, own)) for new_id in (taken, mint_id())]
            (_, one), (_, two) = [(new_id, timeless(ok(answer, 201), new_id)) for new_id, answer in answers]
            assert one == two, f"{other} against {owner}"
    after = await app.documents()
    assert {path: document for path, document in after.items() if path in before} == before


async def test_a_turn_of_genkits_begins_under_an_id_that_somebody_has_as_under_any(
    app: App, belongings: dict[Person, Things]
) -> None:
    """Its clients choose the ids of their sessions: those of others are not refused, and not found."""
    before = await app.documents()
    for owner, other in itertools.permutations(PEOPLE, 2):
        answers = []
        for new_id in (belongings[owner].session_id, mint_id()):
            hello = {"message": {"role": "user", "content": [{"text": "Hello"}]}}
            body = {"data": hello, "init": {"sessionId": new_id}}
            result = ok(await app.http.post("/agents/echo", json=body, headers=other.headers))["result"]
            assert result.pop("sessionId") == new_id
            assert len(result.pop("snapshotId")) == len(new_id)
            assert result["message"].pop("metadata").keys() == {"id"}
            answers.append(result)
            gone = await app.http.delete(f"/sessions/{new_id}", headers=other.headers)
            assert gone.status_code == 204
        assert answers[0] == answers[1], f"{other} against {owner}"
    assert await app.documents() == before


def timeless(session: dict[str, Any], session_id: str) -> dict[str, Any]:
    """What is told of a new session, less what differs each time."""
    assert session["id"] == session_id
    ids = {"id", "headSnapshotId", "lastMessageId", "createdAt", "updatedAt", "expiresAt"}
    return {name: name if name in ids else value for name, value in session.items()}


async def test_making_a_session_takes_the_same_time_whoever_has_its_id(
    app: App, belongings: dict[Person, Things]
) -> None:
    owner, other = PEOPLE[0], PEOPLE[1]
    ratios = []
    for number in range(WARM_UP + SAMPLES):
        taken, free = mint_id(), mint_id()
        ok(await make(app, owner, "with a state", taken, belongings[owner]), 201)
        times = {}
        for new_id in (taken, free) if number % 2 else (free, taken):
            start = time.thread_time()
            await make(app, other, "bare", new_id, belongings[other])
            times[new_id] = time.thread_time() - start
        ratios.append(times[taken] / times[free])
    assert 1 / 1.2 <= statistics.median(ratios[WARM_UP:]) <= 1.2


async def test_whoever_erases_everything_erases_their_own(app: App, belongings: dict[Person, Things]) -> None:
    eraser, own = PEOPLE[0], belongings[PEOPLE[0]]
    ok(await app.http.post("/abort", json={"snapshotId": own.busy_snapshot_id}, headers=eraser.headers))
    await app.http.get("/snapshot", params={"snapshotId": own.busy_snapshot_id, "wait": 5}, headers=eraser.headers)
    before = await app.documents()
    while (erased := await app.http.delete("/sessions", headers=eraser.headers)).status_code == 202:
        pass
    assert erased.status_code == 204
    after = await app.documents()
    gone = [before[path] for path in before.keys() - after.keys()]
    assert {document.fields["ownerId"] for document in gone if "ownerId" in document.fields} == {eraser.user}
    assert {document.path.tenant for document in gone} == {eraser.tenant}
    assert {path: before[path] for path in after} == after
    for person in PEOPLE[1:]:
        assert len(ok(await app.http.get("/sessions", headers=person.headers))["sessions"]) == 2
    assert ok(await app.http.get("/sessions", headers=eraser.headers))["sessions"] == []


async def test_a_tenants_rules_are_its_own(app: App) -> None:
    default = ok(await app.http.get("/retention", headers=PEOPLE[-1].headers))
    changed = {"maxIdleDays": 7, "maxCountPerUser": 3}
    assert ok(await app.http.put("/retention", json=changed, headers=PEOPLE[0].headers)) == changed
    assert ok(await app.http.get("/retention", headers=PEOPLE[1].headers)) == changed
    assert ok(await app.http.get("/retention", headers=PEOPLE[-1].headers)) == default != changed


async def ratio(app: App, method: str, attack: Attack, theirs: Things, own: Things) -> float:
    """How much longer an answer about somebody else's takes than one about nobody's: the median over pairs, so that
    whatever else happens hits both alike; in this thread's seconds of work, so that what others do does not count."""
    ratios = []
    for number in range(WARM_UP + SAMPLES):
        times, nobodys = {}, Things()
        for is_theirs in (True, False) if number % 2 else (False, True):
            start = time.thread_time()
            await attempt(app, PEOPLE[1], method, attack, theirs if is_theirs else nobodys, own)
            times[is_theirs] = time.thread_time() - start
        ratios.append(times[True] / times[False])
    return statistics.median(ratios[WARM_UP:])


QUICK = [call for call in CALLS if any(name in str(call.id) for name in ("} reads it", "aborts the running", "latest"))]


async def assert_equally_quick(app: App, belongings: dict[Person, Things], method: str, attack: Attack) -> None:
    found = await ratio(app, method, attack, belongings[PEOPLE[0]], belongings[PEOPLE[1]])
    assert 1 / 1.2 <= found <= 1.2


@pytest.mark.parametrize(("method", "attack"), QUICK)
async def test_missing_and_forbidden_take_the_same_time(
    app: App, belongings: dict[Person, Things], method: str, attack: Attack
) -> None:
    await assert_equally_quick(app, belongings, method, attack)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "attack"), CALLS)
async def test_missing_and_forbidden_take_the_same_time_on_every_route(
    app: App, belongings: dict[Person, Things], method: str, attack: Attack
) -> None:
    await assert_equally_quick(app, belongings, method, attack)
