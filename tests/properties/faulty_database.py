"""A database whose calls fail as a network makes them fail: what happens to each is decided by the gate it passes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from store.database import (
    CommitRefusedError,
    Committed,
    CommitUnansweredError,
    Database,
    Delete,
    Document,
    Found,
    Path,
    Query,
    Read,
    Update,
    Write,
)
from store.errors import UnavailableError

T = TypeVar("T")


class Fault(StrEnum):
    """What befalls one call."""

    NONE = "goes well"
    LOST_ANSWER = "answer lost"  # it lands, and its caller is not told
    DROPPED = "request lost"  # it never lands
    LATE = "late"  # its caller gives up; it lands later, if its preconditions still hold then
    CONTENDED = "contended"  # somebody else writes to one of its documents just before


READ_FAULTS = (Fault.NONE, Fault.DROPPED)
WRITE_FAULTS = (Fault.NONE, Fault.LOST_ANSWER, Fault.DROPPED, Fault.LATE, Fault.CONTENDED)


class LateWrite(NamedTuple):
    """Writes under way that nobody waits for any more. `land` never raises for a refusal: nobody would hear of it."""

    name: str
    land: Callable[[], Awaitable[None]]


class Gate(Protocol):
    """Who decides. Every method but `keep` may pause for as long as others are to go first."""

    async def before(self, call: str, faults: tuple[Fault, ...]) -> Fault:
        """What is to befall the call that is about to be sent."""

    async def contend(self, paths: Sequence[Path]) -> None:
        """Somebody else writes to one of `paths`, now."""

    async def landed(self, writes: Sequence[Write]) -> None:
        """The writes have landed, whether or not their sender is told."""

    async def answering(self, call: str) -> None:
        """The answer is under way."""

    def keep(self, late: LateWrite) -> None:
        """Takes a late write, to let it land some time, or never."""


class FaultyDatabase:
    """`Database` over `inner`, through `gate`. Watching is passed on untouched."""

    def __init__(self, inner: Database, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    async def get(
        self, paths: Sequence[Path], *, mask: Sequence[str] | None = None, at: datetime | None = None
    ) -> Read:
        call = f"get {', '.join(map(_short, paths))}"
        if await self._gate.before(call, READ_FAULTS) is not Fault.NONE:
            raise UnavailableError("The database did not answer a read.")
        return await self._inner.get(paths, mask=mask, at=at)

    async def query(self, query: Query) -> Found:
        if await self._gate.before(f"query {query.kind}", READ_FAULTS) is not Fault.NONE:
            raise UnavailableError("The database did not answer a query.")
        return await self._inner.query(query)

    async def commit(self, writes: Sequence[Write]) -> Committed:
        return await self._send("commit", writes, self._inner.commit)

    async def write_each(self, writes: Sequence[Write]) -> list[datetime | None]:
        return await self._send("write each", writes, self._inner.write_each)

    def watch(self, target: Path | Query) -> AbstractAsyncContextManager[AsyncIterator[list[Document | None]]]:
        return self._inner.watch(target)

    async def close(self) -> None:
        await self._inner.close()

    async def _send(self, kind: str, writes: Sequence[Write], send: Callable[[Sequence[Write]], Awaitable[T]]) -> T:
        call = f"{kind} {', '.join(_short(write.path) for write in writes)}"
        fault = await self._gate.before(call, WRITE_FAULTS)
        if fault is Fault.LATE:
            self._gate.keep(LateWrite(call, partial(self._land_late, writes, send)))
        if fault in (Fault.LATE, Fault.DROPPED):
            raise CommitUnansweredError("The request was lost.")
        if fault is Fault.CONTENDED:
            await self._gate.contend([write.path for write in writes if _is_preconditioned(write)])
        try:
            answer = await send(writes)
        except CommitRefusedError as refusal:
            await self._gate.answering(call)
            if fault is Fault.LOST_ANSWER:
                raise CommitUnansweredError("The refusal was lost.") from refusal
            raise
        await self._gate.landed(writes)
        await self._gate.answering(call)
        if fault is Fault.LOST_ANSWER:
            raise CommitUnansweredError("The answer was lost.")
        return answer

    async def _land_late(self, writes: Sequence[Write], send: Callable[[Sequence[Write]], Awaitable[object]]) -> None:
        with suppress(CommitRefusedError):
            await send(writes)
            await self._gate.landed(writes)


def _is_preconditioned(write: Write) -> bool:
    return isinstance(write, Update | Delete) and write.update_time is not None


def _short(path: Path) -> str:
    return f"{path.kind.value[:-1]} {path.id}"
