"""Documents in memory, with a short history so that one read can be of an earlier moment than now."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from store.database import Committed, Document, Found, Path, Query, Read, Write
from store.errors import InvalidRequestError, UnavailableError
from store.local.queries import select
from store.local.values import utc_now
from store.local.watches import Watch, Watches, by_path
from store.local.writes import Planned, masked, plan_commit, plan_each

HISTORY = timedelta(seconds=60)
MAX_HISTORY = 4096  # superseded versions, whatever their age: a clock may stand still

_TICK = timedelta(microseconds=1)


class _Version(NamedTuple):
    time: datetime
    document: Document | None


class MemoryDatabase:
    """`Database` in memory. Every call gives way to other tasks once, so that a race shows here too."""

    def __init__(self, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock
        self._last = datetime.min.replace(tzinfo=UTC)
        self._versions: dict[Path, list[_Version]] = {}
        self._superseded: deque[tuple[datetime, Path]] = deque()
        self._horizon = self._last
        self._watches = Watches()

    async def get(
        self, paths: Sequence[Path], *, mask: Sequence[str] | None = None, at: datetime | None = None
    ) -> Read:
        """As the protocol says; UnavailableError where `at` is over 60 seconds (or 4,096 changes) ago."""
        await asyncio.sleep(0)
        time = self._read_time(at)
        found = {path: self._as_of(path, time) for path in paths}
        return Read({path: document and masked(document, mask) for path, document in found.items()}, time)

    async def query(self, query: Query) -> Found:
        """As the protocol says."""
        await asyncio.sleep(0)
        return Found([masked(document, query.mask) for document in self._select(query)], self._read_time(None))

    async def commit(self, writes: Sequence[Write]) -> Committed:
        """As the protocol says; never unanswered."""
        await asyncio.sleep(0)
        time = self._next_time()
        planned = plan_commit(writes, self._current, time)
        self._apply(planned, time)
        return Committed(planned.update_times, time)

    async def write_each(self, writes: Sequence[Write]) -> list[datetime | None]:
        """As the protocol says; a delete that was done has the commit's time."""
        await asyncio.sleep(0)
        time = self._next_time()
        planned = plan_each(writes, self._current, time)
        self._apply(planned, time)
        return list(planned.update_times)

    @asynccontextmanager
    async def watch(self, target: Path | Query) -> AsyncIterator[Watch]:
        """As the protocol says; InvalidRequestError for a query with a limit or a cursor."""
        with self._watches.opened(target) as watch:
            watch.start({target: self._current(target)} if isinstance(target, Path) else by_path(self._select(target)))
            yield watch

    async def close(self) -> None:
        """Ends the open watches; the documents stay."""
        self._watches.end()

    def _read_time(self, at: datetime | None) -> datetime:
        # A commit after this read must be later than it, even if the clock stands still: its time is remembered.
        self._last = max(self._clock().astimezone(UTC), self._last)
        if at is None:
            return self._last
        if at > self._last:
            raise InvalidRequestError("A read cannot be of a moment in the future.")
        if at < self._horizon:
            raise UnavailableError("The documents of that moment are kept no longer.")
        return at

    def _next_time(self) -> datetime:
        return max(self._clock().astimezone(UTC), self._last + _TICK)

    def _current(self, path: Path) -> Document | None:
        versions = self._versions.get(path)
        return versions[-1].document if versions else None

    def _as_of(self, path: Path, time: datetime) -> Document | None:
        kept = (version.document for version in reversed(self._versions.get(path, ())) if version.time <= time)
        return next(kept, None)

    def _select(self, query: Query) -> list[Document]:
        current = (versions[-1].document for versions in self._versions.values())
        return select([document for document in current if document is not None], query)

    def _apply(self, planned: Planned, time: datetime) -> None:
        self._last = time
        for path, document in planned.changes.items():
            if document is None and path not in self._versions:
                continue  # deleted what was not there
            self._versions.setdefault(path, []).append(_Version(time, document))
            self._superseded.append((time, path))
        self._forget(time - HISTORY)
        self._watches.publish(planned.changes)

    def _forget(self, before: datetime) -> None:
        """Drops what was superseded before `before`, or by too many changes since."""
        while self._superseded and (self._superseded[0][0] < before or len(self._superseded) > MAX_HISTORY):
            time, path = self._superseded.popleft()
            self._horizon = max(self._horizon, time)
            versions = self._versions[path]
            while len(versions) > 1 and versions[1].time <= time:
                del versions[0]
            if len(versions) == 1 and versions[0].document is None:
                del self._versions[path]
