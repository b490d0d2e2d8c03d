"""Runs interleavings: each is one world, a few clients, and one list of decisions."""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from store.documents.shelf import Options
from store.documents.store import DocumentStore
from store.models import NewSession
from tests.properties.backends import Backend, MemoryBackend
from tests.properties.bystanders import abort_some, beat_some, delete_some, read_some, rename_some, rewind_some
from tests.properties.choices import Choices, shrink
from tests.properties.oracle import require
from tests.properties.savers import save_some
from tests.properties.senders import Target, adopt_some, send_plainly, send_some
from tests.properties.virtual_loop import VirtualLoop
from tests.properties.world import CALM, SCOPE, StoreOn, Weather, World

WEATHERS = (
    Weather(0.0, 0.0, 0.0, 0),
    Weather(0.2, 0.05, 0.0, 6),
    Weather(0.4, 0.1, 0.3, 15),
    Weather(0.2, 0.2, 0.7, 25),
)


class Failure(NamedTuple):
    """A run in which a promise was broken."""

    seed: int
    error: Exception
    script: list[int]
    trace: list[str]

    @property
    def kind(self) -> str:
        """What is the same in failures of the same kind: the error, without the ids in it."""
        return re.sub(r"[0-9a-f-]*[0-9][0-9a-f-]*", "#", repr(self.error))[:80]

    def __str__(self) -> str:
        steps = "\n  ".join(self.trace)
        return f"seed {self.seed}: {self.error!r}\n  {steps}\nscript {self.script}"


class Run(NamedTuple):
    """One interleaving: its decisions, its steps, and what went wrong."""

    script: list[int]
    trace: list[str]
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Explorer:
    """Runs seeds on one kind of backend. `structural` is the oracle's; `most_senders` bounds a run's cost."""

    backend: Callable[[], Backend] = MemoryBackend
    structural: bool = True
    most_senders: int = 3
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = VirtualLoop
    store: StoreOn = DocumentStore

    def first_failure(self, seeds: Iterable[int]) -> tuple[int, Failure | None]:
        """How many interleavings were run, and the first one that failed."""
        count = 0
        with asyncio.Runner(loop_factory=self.loop_factory) as runner:
            for seed in seeds:
                count += 1
                if failure := runner.run(self.failure(seed)):
                    return count, failure
        return count, None

    def shrunk(self, failure: Failure) -> Failure:
        """The same kind of failure, in as few steps as could be found."""
        with asyncio.Runner(loop_factory=self.loop_factory) as runner:

            def fails(script: list[int]) -> bool:
                found = runner.run(self.failure(None, script))
                return found is not None and found.kind == failure.kind

            return runner.run(self.failure(None, shrink(failure.script, fails))) or failure

    def trace(self, seed: int | None = None, script: Sequence[int] = ()) -> Run:
        """What happens in one interleaving."""
        with asyncio.Runner(loop_factory=self.loop_factory) as runner:
            return runner.run(self._one(seed, script))

    async def failure(self, seed: int | None, script: Sequence[int] = ()) -> Failure | None:
        """What goes wrong in one interleaving."""
        run = await self._one(seed, script)
        return None if run.error is None else Failure(-1 if seed is None else seed, run.error, run.script, run.trace)

    async def _one(self, seed: int | None, script: Sequence[int]) -> Run:
        choices = Choices(seed, script)
        backend = self.backend()
        options = _options(choices, backend)
        world = World(backend, choices, options, CALM, structural=self.structural, store=self.store)
        try:
            await self._run(world)
        except Exception as error:  # whatever it is, it is what this run has found
            return Run(choices.script, world.trace, error)
        finally:
            await world.close()
        return Run(choices.script, world.trace, None)

    async def _run(self, world: World) -> None:
        choices = world.choices
        if choices.chance(0.5):
            await _begin(world)
        world.weather = WEATHERS[choices.pick((1, 3, 4, 2))]
        await self._start_senders(world)
        await _start_bystanders(world)
        await world.run()
        await world.end()
        await one_more_turn(world)
        await world.finish()

    async def _start_senders(self, world: World) -> None:
        """Two to `most_senders`; some of them send the very same first message."""
        for number in range(2 + world.choices.pick([2] * (self.most_senders - 1))):
            messages = [f"m{number}.{index}" for index in range(1 + world.choices.pick((2, 1)))]
            if world.choices.chance(0.6):
                messages.insert(0, "hello")
            await world.scheduler.start(f"sender {number}", send_some(world, messages))


def _options(choices: Choices, backend: Backend) -> Options:
    """Every way to lay out states, on small conversations."""
    return Options(
        checkpoint_interval=(3, 1, 2, 25)[choices.pick((4, 1, 1, 2))],
        base_size=(131_072, 0)[choices.pick((2, 1))],
        shard_size=(524_288, 200)[choices.pick((2, 1))],
        cache_size=(67_108_864, 0)[choices.pick((3, 1))],
        commit_size=65_536,
        lease_staleness=backend.staleness,
    )


async def _begin(world: World) -> None:
    """A session, and perhaps a turn or two in it, in fair weather."""

    async def begin() -> None:
        await world.instances[0].store.create_session(SCOPE, "session", NewSession(agent="echo"))
        await send_some(world, [f"past{number}" for number in range(world.choices.pick((1, 1, 1)))])

    await world.scheduler.start("past", begin())
    await world.run()


async def _start_bystanders(world: World) -> None:
    choices, start = world.choices, world.scheduler.start
    if choices.chance(0.5):
        await start("aborter", abort_some(world, 1 + choices.pick((2, 1))))
    for index in range(len(world.instances)):
        if choices.chance(0.5):
            await start(f"beats {index}", beat_some(world, index, 1 + choices.pick((1, 1, 1))))
    if choices.chance(0.3):
        await start("renamer", rename_some(world, 1 + choices.pick((1, 1))))
    if choices.chance(0.4):
        await start("saver", save_some(world, 1 + choices.pick((2, 1))))
    elif choices.chance(0.15):  # not both: a save would make the session anew
        await start("deleter", delete_some(world))
    if choices.chance(0.3):
        await start("rewinder", rewind_some(world, 1 + choices.pick((2, 1))))
    if choices.chance(0.3):
        await start("queue", adopt_some(world, 1 + choices.pick((1, 1, 1))))
    if choices.chance(0.3):
        await start("reader", read_some(world, 1 + choices.pick((1, 1, 1))))


async def one_more_turn(world: World) -> None:
    """After everything, whoever asks gets a turn in each session at once."""
    ledger = world.oracle.ledger
    before = {session.id: session for session in ledger.sessions.values()}
    for session in before.values():
        target = Target(session.id, session.last_message_id)
        await world.scheduler.start(f"last of {session.id}", send_plainly(world, world.instances[0], "last", target))
    await world.run()
    for session in before.values():
        is_done = ledger.sessions[session.id].head_id != session.head_id
        require(is_done, f"{session} gives no more turns")
