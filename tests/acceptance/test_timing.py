"""Whether the time of an answer tells if a session is somebody else's or nobody's: on a real server that has never seen
it, with as much stored as one document holds.

Both are asked for by turns, and the times of each pair are divided: what else the machine does hits both alike.
"""

import asyncio
import http.client
import json
import random
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from store.adapters.own_ids import OwnIds
from store.database import Kind, Path
from store.firestore.store import FirestoreStore
from store.ids import mint_id
from store.models import Claim, Lease, NewSession, Outcome, Scope, SnapshotStatus
from store.rules.history import messages_of
from tests.acceptance.server_process import ServerProcess, running, server
from tests.integration.attacks import ATTACKS, Attack, Things
from tests.integration.counted import message, noise

SAMPLES = 200
WARM_UP = 20
ADA, BOB = Scope("acme", "ada"), Scope("acme", "bob")
HEADERS = {"x-tenant-id": "acme", "x-user-id": "bob", "content-type": "application/json"}
PATIENT = {"HEARTBEAT_INTERVAL": "600", "LEASE_STALENESS": "3600", "STREAM_SEGMENTS": "off"}
LITTLE = 20
LARGE = 140_000  # characters of noise, some 105 KB compressed: of a row's patch or request, a session's base and tail
CALLS = [
    pytest.param(method, attack, id=f"{method} {path} {name}")
    for (method, path), attacks in ATTACKS.items()
    for name, attack in attacks.items()
    if "waits" not in name  # takes as long as it is told to wait
]


async def furnish(store: OwnIds, scope: Scope, size: int) -> Things:
    """A session whose document and head row are as large as they become, and one that a turn runs in which was asked
    for at length."""
    sessions, last, row = [], "", ""
    for turns in (2, 1):
        session_id = mint_id()
        await store.create_session(scope, session_id, NewSession("echo"))
        tail = None
        for longer in (size // 20, 0)[:turns]:  # a turn that adds more than there is would be a checkpoint, in shards
            lease = await claimed(store, scope, session_id, tail)
            answer = noise(1, size + longer)
            user, model = message(lease.message_id or "", "user", "x"), message(mint_id(), "model", answer)
            state = lease.state.with_messages([*messages_of(lease.state), user, model])
            row = (await store.settle_turn(lease, Outcome(SnapshotStatus.COMPLETED, "stop", state))).snapshot_id
            tail = model.key
        sessions.append((session_id, row, lease.message_id or "", tail or ""))
    (session_id, row, user_id, last), (busy_id, _, _, busy_last) = sessions
    busy = await claimed(store, scope, busy_id, busy_last, noise(2, size))
    await require_large(store, scope, size, {row: "statePatch", busy.snapshot_id: "request"})
    return Things(session_id, row, user_id, last, busy_id, busy.snapshot_id)


async def require_large(store: OwnIds, scope: Scope, size: int, payloads: dict[str, str]) -> None:
    """Each of the rows has its payload in its own document."""
    paths = {Path(Kind.SNAPSHOTS, scope.tenant, row): name for row, name in payloads.items()}
    found = (await store.shelf.database.get(list(paths))).documents
    for path, name in paths.items():
        document = found[path]
        assert document is not None
        assert len(document.fields[name]) >= size // 2


async def claimed(store: OwnIds, scope: Scope, session_id: str, tail: str | None, text: str = "x") -> Lease:
    claim = Claim(
        mint_id(),
        mint_id(),
        NewSession("echo"),
        session_id,
        message=message(mint_id(), "user", text),
        last_message_id=tail,
        runner="nobody",
    )
    lease = await store.claim_turn(scope, claim)
    assert isinstance(lease, Lease)
    return lease


QUICK = [
    call
    for call in CALLS
    if call.id in ("GET /snapshot reads it", "POST /abort aborts the running turn", "POST /chat continues it")
]


class Place(NamedTuple):
    """A server, and what is stored: somebody else's things, and the caller's own."""

    process: ServerProcess
    theirs: Things
    own: Things


@pytest.fixture(scope="module")
def process(firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = server(tmp_path_factory.mktemp("timing"), firestore_settings | PATIENT)
    with running(process):
        yield process


async def furnish_all(settings: dict[str, str]) -> tuple[Things, dict[int, Things]]:
    """The caller's own things, and somebody else's by their size."""
    host = settings["FIRESTORE_EMULATOR_HOST"]
    store = OwnIds(FirestoreStore(settings["GOOGLE_CLOUD_PROJECT"], emulator_host=host, lease_staleness=3600.0))
    try:
        return await furnish(store, BOB, LITTLE), {size: await furnish(store, ADA, size) for size in (LITTLE, LARGE)}
    finally:
        await store.close()


@pytest.fixture(scope="module")
def places(process: ServerProcess, firestore_settings: dict[str, str]) -> dict[int, Place]:
    """By the size of what somebody else has stored, none of which the server has read."""
    own, theirs = asyncio.run(furnish_all(firestore_settings))
    return {size: Place(process, things, own) for size, things in theirs.items()}


def seconds(connection: http.client.HTTPConnection, method: str, attack: Attack, it: Things, own: Things) -> float:
    """How long one answer takes, from the first byte sent to the last one read."""
    path, body, query, headers = attack(it, own)
    target = f"{path}?{urlencode(query)}" if query else path
    content = None if body is None else json.dumps(body).encode()
    started = time.perf_counter()
    connection.request(method, target, content, HEADERS | dict(headers or {}))
    answer = connection.getresponse()
    answer.read()
    return time.perf_counter() - started


def ratio(place: Place, method: str, attack: Attack) -> float:
    """The median of the pairs' ratios: somebody else's to nobody's."""
    connection, ratios = http.client.HTTPConnection("127.0.0.1", place.process.port), []
    order = random.Random(7)
    for number in range(WARM_UP + SAMPLES):
        nobodys, times = Things(), {}
        for which in order.sample([True, False], 2):
            times[which] = seconds(connection, method, attack, place.theirs if which else nobodys, place.own)
        if number >= WARM_UP:
            ratios.append(times[True] / times[False])
    connection.close()
    return statistics.median(ratios)


@pytest.mark.parametrize(("method", "attack"), QUICK)
def test_missing_and_forbidden_take_the_same_time(places: dict[int, Place], method: str, attack: Attack) -> None:
    assert 1 / 1.2 <= ratio(places[LITTLE], method, attack) <= 1.2


@pytest.mark.slow
@pytest.mark.parametrize("size", [LITTLE, LARGE])
@pytest.mark.parametrize(("method", "attack"), CALLS)
def test_missing_and_forbidden_take_the_same_time_on_every_route(
    places: dict[int, Place], method: str, attack: Attack, size: int
) -> None:
    assert 1 / 1.2 <= ratio(places[size], method, attack) <= 1.2
