"""What the turn protocol costs, and what it survives: requests and documents of each operation, races, kills.

The counts are held to in tests/integration/test_budgets.py; here they are printed side by side, as docs/benchmarks.md
has them.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from store.errors import TranscriptStaleError, TurnBusyError
from store.models import Claim, Lease, SameSend
from tests.acceptance.chat_client import client, ok, send, text_of, transcript
from tests.acceptance.fated_pair import MORTAL, FatedPair, place_of, rows_of, wait_for
from tests.acceptance.kills import MOMENTS, kill_at_each
from tests.acceptance.races import Race
from tests.acceptance.server_process import running
from tests.integration.counted import ANN, Cost, Instance, Open, claim_of, claimed, message, opening, settle, talk, turn

ROUNDS = 100
KILLS = 20  # at random moments
TURNS = 30  # of the conversation whose next turn is counted
HEARTBEATS = 200
STALENESS = 0.1  # seconds, for the instances that are to find a lease too old

pytestmark = pytest.mark.bench


@pytest.fixture
async def opened(emulator_host: str, project_id: str) -> AsyncIterator[Open]:
    """Opens instances on one project, which is empty at first."""
    async with opening(project_id, emulator_host) as open_one:
        yield open_one


@pytest.fixture
def pair(request: pytest.FixtureRequest, emulator_host: str, project_id: str, tmp_path: Path) -> Iterator[FatedPair]:
    """Two servers, with the test's own settings besides."""
    settings = {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": emulator_host, "GOOGLE_CLOUD_PROJECT": project_id}
    fated = FatedPair(tmp_path, settings | getattr(request, "param", {}))
    with running(fated.first, fated.second):
        yield fated


@pytest.fixture
def user(project_id: str) -> str:
    return project_id


async def refused(instance: Instance, claim: Claim, error: type[Exception]) -> None:
    with pytest.raises(error):
        await instance.store.claim_turn(ANN, claim)


async def sent_again(instance: Instance, claim: Claim) -> None:
    assert isinstance(await instance.store.claim_turn(ANN, claim), SameSend)


async def ended(instance: Instance, lease: Lease) -> None:
    await settle(instance, lease, TURNS + 1)


async def costs_of_turns(opened: Open) -> dict[str, Cost]:
    """In a conversation with `TURNS` turns."""
    warm = opened()
    costs = {"first turn of a new session": await warm.cost(turn(warm, 1, None))}
    await talk(warm, TURNS)
    other = message("other", "user", "other")
    costs["stale refusal"] = await warm.cost(refused(warm, claim_of(2, message=other), TranscriptStaleError))
    costs["same send, completed"] = await warm.cost(sent_again(warm, claim_of(TURNS)))
    lease: list[Lease] = []

    async def begin() -> None:
        lease.append(await claimed(warm, claim_of(TURNS + 1)))

    costs["claim"] = await warm.cost(begin())
    costs["busy refusal"] = await warm.cost(refused(warm, claim_of(TURNS + 1, message=other), TurnBusyError))
    costs["same send, running"] = await warm.cost(sent_again(warm, claim_of(TURNS + 1)))
    costs["settle"] = await warm.cost(ended(warm, lease[0]))
    costs["turn, warm"] = await warm.cost(turn(warm, TURNS + 2))
    cold = opened()
    costs["turn, cold"] = await cold.cost(turn(cold, TURNS + 3))
    return costs


async def costs_of_others(opened: Open) -> dict[str, Cost]:
    """Of leases that outlive their owner, of aborts and of heartbeats."""
    hasty = opened(lease_staleness=STALENESS)
    await talk(hasty, 2)
    await claimed(hasty, claim_of(3, runner="dead"))
    await asyncio.sleep(STALENESS * 1.5)
    costs = {"turn that takes a dead one over": await hasty.cost(turn(hasty, 3))}
    calm = opened()
    lease = await claimed(calm, claim_of(4))
    costs["abort by snapshot"] = await calm.cost(calm.store.abort_turn(ANN, lease.snapshot_id))
    await settle(calm, lease, 4)
    await claimed(calm, claim_of(5))
    costs["abort by session"] = await calm.cost(calm.store.abort_session(ANN, "s"))
    leases = [await claimed(calm, claim_of(1, None, message=message(f"m{n}", "user", "x"))) for n in range(HEARTBEATS)]
    costs[f"heartbeat of {HEARTBEATS} turns"] = await calm.cost(_beat(calm, leases))
    return costs


async def _beat(instance: Instance, leases: list[Lease]) -> None:
    await instance.store.heartbeat(leases)


def printed(costs: dict[str, Cost]) -> None:
    for name, cost in costs.items():
        print(f"{name:<34} {cost.rpcs} requests, {cost.read} read, {cost.written} written")


async def test_requests_and_documents_of_each_operation(opened: Open) -> None:
    print()
    printed(await costs_of_turns(opened))


async def test_requests_and_documents_of_each_other_operation(opened: Open) -> None:
    print()
    printed(await costs_of_others(opened))


@pytest.mark.parametrize("clients", [2, 4])
async def test_races_that_lose_and_double_nothing(pair: FatedPair, user: str, clients: int) -> None:
    async with AsyncExitStack() as connections:
        urls = [(pair.first.url, pair.second.url)[number % 2] for number in range(clients)]
        raced = Race(pair, [await connections.enter_async_context(client(url, user)) for url in urls])
        await raced.run(ROUNDS)
    print(f"\n{clients} clients on two servers, {ROUNDS} rounds: {dict(raced.seen)}")


@pytest.mark.parametrize("pair", [MORTAL], indirect=True)
async def test_kills_at_chosen_moments(pair: FatedPair, user: str) -> None:
    survived = await kill_at_each(MOMENTS, pair, user)
    print(f"\n{survived} kills at {len(MOMENTS)} moments of a turn survived")


@pytest.mark.parametrize("pair", [MORTAL], indirect=True)
async def test_kills_at_random_moments(pair: FatedPair, user: str) -> None:
    randomly = random.Random(1)
    left: Counter[str] = Counter()
    for number in range(KILLS):
        left[await _killed_once(pair, f"{user}-{number}", randomly.uniform(0, 0.25))] += 1
    print(f"\n{KILLS} kills at random moments of a turn survived; of the turns was left: {dict(left)}")


async def _killed_once(pair: FatedPair, user: str, seconds: float) -> str:
    """The server dies so long after the send: what is left of the turn, after another one has followed it."""
    async with client(pair.first.url, user) as here, client(pair.second.url, user) as there:
        begun = await send(here, {"message": "before"})
        lost = asyncio.create_task(here.post("/chat", json=place_of(begun) | {"message": "/sleep 0.1\nlost"}))
        await asyncio.sleep(seconds)
        pair.first.kill()
        answers = await asyncio.gather(lost, return_exceptions=True)
        rows = [row for row in await rows_of(there, begun["sessionId"]) if row["snapshotId"] != begun["snapshotId"]]
        left = (await wait_for(there, rows[0]["snapshotId"]))["status"] if rows else "nothing"
        session = ok(await there.get(f"/sessions/{begun['sessionId']}"))
        await send(there, {"sessionId": session["id"], "lastMessageId": session["lastMessageId"], "message": "after"})
        said = [text_of(said) for said in await transcript(there, session["id"]) if said["role"] == "user"]
    assert len(said) == 2 + (left == "completed")
    assert left == "completed" or isinstance(answers[0], BaseException)
    await pair.revive()
    return left
