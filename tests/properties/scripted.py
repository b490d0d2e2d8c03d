"""An instance whose calls are befallen by what a test has written down. Holds no test."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from store.database import Database, Path, Write
from store.documents.shelf import Shelf
from store.documents.store import DocumentStore
from tests.properties.faulty_database import Fault, FaultyDatabase, LateWrite


async def _nothing() -> None:
    """Happens where a test has nothing in mind."""


class Step(NamedTuple):
    """What befalls the next call whose description begins like this, and what happens just before it."""

    call: str
    fault: Fault = Fault.NONE
    before: Callable[[], Awaitable[object]] = _nothing


class Script:
    """A gate that takes one step after the other; every call in between goes well."""

    def __init__(self, *steps: Step) -> None:
        self.left = list(steps)
        self._late: list[LateWrite] = []

    def store(self, database: Database) -> DocumentStore:
        """An instance of its own whose calls pass this gate."""
        return DocumentStore(Shelf(FaultyDatabase(database, self), jitter=lambda: 0.0))

    async def land_late(self) -> None:
        """Everything that is late arrives."""
        while self._late:
            await self._late.pop(0).land()

    async def before(self, call: str, faults: tuple[Fault, ...]) -> Fault:
        if not self.left or not call.startswith(self.left[0].call):
            return Fault.NONE
        step = self.left.pop(0)
        await step.before()
        assert step.fault in faults
        return step.fault

    async def contend(self, paths: Sequence[Path]) -> None:
        raise AssertionError("Contention is written down as what happens before a call.")

    async def landed(self, writes: Sequence[Write]) -> None:
        """Nobody asks."""

    async def answering(self, call: str) -> None:
        """At once."""

    def keep(self, late: LateWrite) -> None:
        self._late.append(late)
