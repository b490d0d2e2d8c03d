"""Small meetings of two clients, of which every order is run, and every single thing that may go wrong in it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from store.documents.shelf import Options
from store.errors import ConflictError, NotFoundError, UnavailableError
from store.models import NewSession
from tests.properties.backends import MemoryBackend
from tests.properties.choices import Choices, next_script
from tests.properties.explorer import Failure, one_more_turn
from tests.properties.scheduler import Killed
from tests.properties.senders import Target, send_plainly
from tests.properties.virtual_loop import VirtualLoop
from tests.properties.world import CALM, SCOPE, Weather, World

Scenario: TypeAlias = Callable[[World], Awaitable[None]]

FAIR = CALM
ONE_MISHAP = Weather(faults=0.1, events=0.1, sticky=0, budget=1)
"""Where every possibility is run, the probabilities do not matter."""


class Explored(NamedTuple):
    """How many interleavings were run; whether those were all; and the first one that failed."""

    runs: int
    is_complete: bool
    failure: Failure | None


def explore_all(scenario: Scenario, weather: Weather, limit: int) -> Explored:
    """Runs one interleaving after the other, until there is none left, one fails, or `limit` is reached."""
    script: list[int] | None = []
    runs = 0
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        while script is not None and runs < limit:
            choices = Choices(script=script)
            runs += 1
            if failure := runner.run(_failure(scenario, weather, choices)):
                return Explored(runs, False, failure)
            script = next_script(choices.made)
    return Explored(runs, script is None, None)


def explore_some(scenario: Scenario, weather: Weather, seeds: range) -> Explored:
    """Runs as many interleavings as there are seeds, or until one fails."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        for runs, seed in enumerate(seeds, start=1):
            if failure := runner.run(_failure(scenario, weather, Choices(seed))):
                return Explored(runs, False, failure)
    return Explored(len(seeds), False, None)


async def _failure(scenario: Scenario, weather: Weather, choices: Choices) -> Failure | None:
    backend = MemoryBackend()
    world = World(backend, choices, Options(lease_staleness=backend.staleness), CALM)
    try:
        await _begin(world)
        world.weather = weather
        world.delays_answers = False  # it would square the number of orders, and the random runs do it
        await scenario(world)
        await world.run()
        await world.end()
        await one_more_turn(world)
        await world.finish()
    except Exception as error:  # whatever it is, it is what this run has found
        return Failure(-1, error, choices.script, world.trace)
    finally:
        await world.close()
    return None


async def _begin(world: World) -> None:
    """A session with one turn in it."""

    async def begin() -> None:
        await world.instances[0].store.create_session(SCOPE, "session", NewSession(agent="echo"))
        await send_plainly(world, world.instances[0], "past", Target("session"))

    await world.scheduler.start("past", begin())
    await world.run()


def _here(world: World) -> Target:
    session = world.oracle.ledger.sessions["session"]
    return Target(session.id, session.last_message_id)


async def _start_sender(world: World, index: int, message_id: str, target: Target) -> None:
    sender = send_plainly(world, world.instances[index], message_id, target)
    await world.scheduler.start(f"sender {index}", _survived(sender))


async def _survived(work: Awaitable[None]) -> None:
    try:
        await work
    except Killed:
        return


async def first_message_twice(world: World) -> None:
    """The first message of a conversation, sent twice, on two instances: one session and one run."""
    for index in range(2):
        await _start_sender(world, index, "hello", Target(None))


async def two_tabs(world: World) -> None:
    """Two tabs that have read the same transcript."""
    for index in range(2):
        await _start_sender(world, index, f"tab {index}", _here(world))


async def one_send_twice(world: World) -> None:
    """A send and its retry, in a conversation that exists."""
    for index in range(2):
        await _start_sender(world, index, "again", _here(world))


async def an_abort(world: World) -> None:
    """A turn, and somebody who aborts it."""

    async def abort() -> None:
        try:
            answer = await world.instances[1].store.abort_session(SCOPE, "session")
        except (UnavailableError, NotFoundError):
            return
        world.oracle.aborted(answer)

    await _start_sender(world, 0, "turn", _here(world))
    await world.scheduler.start("aborter", _survived(abort()))


async def a_truncate(world: World) -> None:
    """A turn, and somebody who rewinds the conversation."""

    async def truncate() -> None:
        world.minted()
        try:
            await world.instances[1].store.truncate(SCOPE, "session", "past", _here(world).last_message_id)
        except (ConflictError, NotFoundError) as refusal:
            world.oracle.never_stored(world.minted(), refusal.code)
        except UnavailableError:
            return

    await _start_sender(world, 0, "turn", _here(world))
    await world.scheduler.start("rewinder", _survived(truncate()))


SHORT: tuple[Scenario, ...] = (two_tabs, one_send_twice, an_abort, a_truncate)
"""Those whose orders with one mishap are few enough to run them all: 19,214 as this is written."""

SCENARIOS: tuple[Scenario, ...] = (first_message_twice, *SHORT)
