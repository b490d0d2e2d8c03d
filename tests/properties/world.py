"""One run's surroundings: a database, instances that come and go, a clock, and the weather.

Whatever may happen between two calls is decided here, one step at a time.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from store.database import SERVER_TIME, CommitRefusedError, Database, Kind, Path, Update, Write
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.models import Lease, Scope
from tests.properties.answers import Witness
from tests.properties.backends import Backend
from tests.properties.choices import Choices
from tests.properties.faulty_database import WRITE_FAULTS, Fault, FaultyDatabase, LateWrite
from tests.properties.ledger import Told
from tests.properties.scheduler import Killed, Scheduler, Waiting
from tests.properties.virtual_loop import VirtualLoop

SCOPE = Scope("acme", "ada")
MAX_STEPS = 600  # a run that takes longer goes on without faults, so that it comes to its end


@dataclass(frozen=True, slots=True)
class Weather:
    """How much goes wrong: the probability of a fault in a call, of an event between two calls, of the same task going
    on; and how many faults and events there may be."""

    faults: float
    events: float
    sticky: float
    budget: int


CALM = Weather(0, 0, 0, 0)

StoreOn: TypeAlias = Callable[[Shelf], DocumentStore]


@dataclass(eq=False)
class Instance:
    """One server process: a store with its own cache and connection, and the leases in its heartbeat batch."""

    name: str
    store: DocumentStore
    database: Database
    beating: dict[str, tuple[Lease, Told]] = field(default_factory=dict)
    beats_under_way: int = 0
    is_dead: bool = False


class _Gate:
    """The gate of one instance's calls."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.instance: Instance | None = None

    async def before(self, call: str, faults: tuple[Fault, ...]) -> Fault:
        if self._world.is_over:
            return Fault.NONE
        fault = await self._world.scheduler.pause(call, faults, self.instance)
        if self.instance is not None and self.instance.is_dead:
            raise Killed
        return fault

    async def contend(self, paths: Sequence[Path]) -> None:
        await self._world.contend(paths)

    async def landed(self, writes: Sequence[Write]) -> None:
        await self._world.oracle.landed(writes)

    async def answering(self, call: str) -> None:
        if self._world.delays_answers:
            await self._world.scheduler.pause(f"answer of {call}", instance=self.instance)

    def keep(self, late: LateWrite) -> None:
        self._world.late.append(late)


class World:
    """Everything that one run is made of."""

    def __init__(
        self,
        backend: Backend,
        choices: Choices,
        options: Options,
        weather: Weather,
        *,
        structural: bool = True,
        store: StoreOn = DocumentStore,
    ) -> None:
        self.backend = backend
        self.choices = choices
        self.options = options
        self._store = store
        self.weather = weather
        self.scheduler = Scheduler()
        self.late: list[LateWrite] = []
        self.trace: list[str] = []
        self.raw = backend.open()
        self.oracle = Witness(self.raw, SCOPE, self.cold_store, structural=structural)
        self.instances: list[Instance] = []
        self.is_over = False
        self.delays_answers = True  # whether others may go on between a commit and its answer
        self._spent = 0
        self._minted = 0
        self._minted_for: dict[str, list[str]] = {}
        self._last_task = ""
        for _ in range(2):
            self.instances.append(self._started())

    def mint(self) -> str:
        """The next id: the same in every run of the same script."""
        self._minted += 1
        minted = f"{self._minted:08d}"
        task = asyncio.current_task()
        self._minted_for.setdefault(task.get_name() if task else "", []).append(minted)
        return minted

    def minted(self) -> list[str]:
        """The ids that were minted for the running task since it last asked."""
        task = asyncio.current_task()
        return self._minted_for.pop(task.get_name() if task else "", [])

    def cold_store(self) -> DocumentStore:
        """A store on the faultless database that has read nothing yet."""
        return self._store(Shelf(self.raw, self.options, mint=self.mint))

    def _started(self) -> Instance:
        gate = _Gate(self)
        database = self.backend.open()
        shelf = Shelf(FaultyDatabase(database, gate), self.options, mint=self.mint, jitter=lambda: 0.0)
        gate.instance = Instance(f"instance {self.mint()}", self._store(shelf), database)
        return gate.instance

    def any_instance(self) -> Instance:
        """One of those that are up."""
        return self.instances[self.choices.pick([1] * len(self.instances))]

    async def run(self) -> None:
        """Lets everybody go on until nobody has anything left to do."""
        steps = 0
        while waiting := self.scheduler.waiting():
            steps += 1
            if steps > MAX_STEPS:
                self.weather = CALM
            self.backend.tick()
            await self._event()
            waiting = self.scheduler.waiting()
            if waiting:
                await self._go_on(waiting)

    async def _go_on(self, waiting: list[Waiting]) -> None:
        chosen = self._chosen(waiting)
        fault = self._fault(chosen)
        self._last_task = chosen.task
        self.trace.append(f"{chosen.task}: {chosen.call}" + (f" [{fault}]" if fault is not Fault.NONE else ""))
        await self.scheduler.step(chosen, fault)

    def _chosen(self, waiting: list[Waiting]) -> Waiting:
        """The first option is whoever went on last, so that a simpler run switches less."""
        ordered = sorted(waiting, key=lambda one: one.task != self._last_task)
        if ordered[0].task != self._last_task or len(ordered) == 1:
            return ordered[self.choices.pick([1] * len(ordered))]
        share = (1 - self.weather.sticky) / len(ordered)
        return ordered[self.choices.pick([self.weather.sticky + share, *[share] * (len(ordered) - 1)])]

    def _fault(self, waiting: Waiting) -> Fault:
        # Reads are most of the calls, and a read that fails teaches little.
        probability = self.weather.faults * (1.0 if waiting.faults == WRITE_FAULTS else 0.2)
        if len(waiting.faults) == 1 or not self._may_strike() or not self.choices.chance(probability):
            return Fault.NONE
        self._spent += 1
        return waiting.faults[1 + self.choices.pick([1] * (len(waiting.faults) - 1))]

    def _may_strike(self) -> bool:
        return self._spent < self.weather.budget

    # What happens besides.

    async def _event(self) -> None:
        # What is under way arrives soon or never: between two tries of its sender it does the most harm.
        probability = self.weather.events * (3 if self.late else 1)
        is_fair = not self._may_strike()
        if (is_fair and not self.late) or not self.choices.chance(probability):
            return
        if is_fair:
            await self.land_late()  # a part of the mishap that made it late
            return
        self._spent += 1
        events = [self._stale, self._restart]
        weights = [2.0, 1.0]
        if self.late:
            events.append(self.land_late)
            weights.append(8.0)
        if isinstance(asyncio.get_running_loop(), VirtualLoop):
            events.append(self._lose_patience)
            weights.append(1.0)
        await events[self.choices.pick(weights)]()

    async def _stale(self) -> None:
        self.trace.append("-- every lease becomes stale")
        await self.backend.pass_time(self.options.lease_staleness * 1.1)

    async def land_late(self) -> None:
        """One of the late writes arrives."""
        late = self.late.pop(self.choices.pick([1] * len(self.late)))
        self.trace.append(f"-- late: {late.name}")
        await late.land()

    async def _lose_patience(self) -> None:
        self.trace.append("-- whoever repeats a call runs out of patience")
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.advance(self.options.lease_staleness + 5)

    async def _restart(self) -> None:
        index = self.choices.pick([1] * len(self.instances))
        dead = self.instances[index]
        self.trace.append(f"-- {dead.name} is killed, another one started")
        dead.is_dead = True
        self.instances[index] = self._started()
        await self.scheduler.kill(dead)

    async def contend(self, paths: Sequence[Path]) -> None:
        """Somebody renames the session, or the owner of the turn beats."""
        if not paths:
            return
        path = paths[self.choices.pick([1] * len(paths))]
        renamed = {"title": f"renamed {self.mint()}", "updatedAt": SERVER_TIME}
        write = Update(path, renamed if path.kind is Kind.POINTERS else {"heartbeatAt": SERVER_TIME})
        with suppress(CommitRefusedError):  # it is deleted: contention enough
            await self.raw.commit([write])
            await self.oracle.landed([write])

    async def end(self) -> None:
        """The storm is over: what is late lands, leases expire, and everything is read once more."""
        self.weather = CALM
        while self.late:
            await self.land_late()
        queued = (
            self.options.lease_staleness * 2
        )  # how long a queue may hold a turn, which is longer than a lease lives
        await self.backend.pass_time(queued * 1.1 + self.backend.skew)

    async def finish(self) -> None:
        """The last look, at a time when nobody does anything else."""
        self.is_over = True
        await self.oracle.finish([instance.store for instance in self.instances])

    async def close(self) -> None:
        """Ends all tasks."""
        await self.scheduler.cancel()
        await self.backend.close()
