"""The file backend of `store.database`: one worker thread does what blocks, the event loop delivers to watches.

Many processes may share one directory. What this one commits, its watches hear of at once; what others commit, by
looking every `poll_interval` seconds.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path as Directory
from typing import TypeVar

from store.database import Committed, CommitUnansweredError, Document, Found, Path, Query, Read, Write
from store.errors import DataLossError, InvalidRequestError, UnavailableError
from store.file.files import DocumentFiles, Stored
from store.file.folder import Folder, no_step
from store.file.paths import file_of, folder_of, require_collection
from store.local.values import utc_now
from store.local.watches import Watch, Watches, by_path
from store.local.writes import masked

T = TypeVar("T")


def _require_seconds(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise InvalidRequestError(f"{name} must be a number of seconds; 0 or less switches it off.")
    return value


class FileDatabase:
    """`Database` over the files of `directory`, which is made at first use, readable by its owner only.

    `poll_interval` is in seconds, 0 or less switches polling off; `before_step` is where a test puts a fault.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        collection: str = "genkit-sessions",
        clock: Callable[[], datetime] = utc_now,
        poll_interval: float = 1.0,
        before_step: Callable[[str], None] = no_step,
    ) -> None:
        self._collection = require_collection(collection)
        self._folder = Folder(directory.absolute(), before_step=before_step)
        self._files = DocumentFiles(self._folder, self._collection, clock)
        self._poll_interval = _require_seconds("poll_interval", poll_interval)
        self._worker: ThreadPoolExecutor | None = None
        self._watches = Watches()
        self._polling: asyncio.Task[None] | None = None
        self._seen: datetime | None = None  # the last commit that the watches know; the worker's alone

    async def get(
        self, paths: Sequence[Path], *, mask: Sequence[str] | None = None, at: datetime | None = None
    ) -> Read:
        """As the protocol says; UnavailableError where `at` is over 60 seconds ago or the folder stays locked."""
        self._check(paths)
        return await self._run(partial(self._get, paths, mask, at))

    async def query(self, query: Query) -> Found:
        """As the protocol says."""
        self._check([query])
        return await self._run(partial(self._query, query))

    async def commit(self, writes: Sequence[Write]) -> Committed:
        """As the protocol says; unanswered where the folder stays locked, or the disk fails or is full."""
        self._check([write.path for write in writes])
        loop = asyncio.get_running_loop()
        return await self._run(partial(self._write, loop, self._files.commit, writes))

    async def write_each(self, writes: Sequence[Write]) -> list[datetime | None]:
        """As the protocol says, in one atomic commit; a delete that was done has the commit's time."""
        self._check([write.path for write in writes])
        loop = asyncio.get_running_loop()
        return list((await self._run(partial(self._write, loop, self._files.write_each, writes))).update_times)

    @asynccontextmanager
    async def watch(self, target: Path | Query) -> AsyncIterator[Watch]:
        """As the protocol says; the reader gets the DataLossError of a document that is found damaged."""
        self._check([target])
        try:
            with self._watches.opened(target) as watch:
                await self._run(partial(self._start, asyncio.get_running_loop(), watch))
                self._start_polling()
                yield watch
        finally:
            if not self._watches:
                await self._stop_polling()

    async def close(self) -> None:
        """Ends the open watches and the worker thread; the next call would start anew."""
        self._watches.end()
        await self._stop_polling()
        if self._worker is not None:
            worker, self._worker = self._worker, None
            # The last piece of work marks the end of all others, so that the shutdown has nothing to wait for.
            await asyncio.get_running_loop().run_in_executor(worker, no_step, "close")
            worker.shutdown()

    def _check(self, targets: Sequence[Path | Query]) -> None:
        """InvalidRequestError, before any I/O, for a path that the folder cannot hold."""
        for target in targets:
            if isinstance(target, Path):
                file_of(self._collection, target)
            elif target.tenant is not None:
                folder_of(self._collection, target.kind, target.tenant)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="session-files")
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    # From here on to the next such line: in the worker thread.

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self._folder.locked():
                yield
        except OSError as error:
            raise UnavailableError(f"The files cannot be used: {error}.") from error

    def _get(self, paths: Sequence[Path], mask: Sequence[str] | None, at: datetime | None) -> Read:
        with self._locked():
            time = self._files.read_time(at)
            found = {path: self._files.as_of(path, time) for path in paths}
        return Read({path: document and masked(document, mask) for path, document in found.items()}, time)

    def _query(self, query: Query) -> Found:
        with self._locked():
            found, time = self._files.find(query), self._files.read_time()
        return Found([masked(document, query.mask) for document in found], time)

    def _write(
        self, loop: asyncio.AbstractEventLoop, store: Callable[[Sequence[Write]], Stored], writes: Sequence[Write]
    ) -> Committed:
        try:
            with self._locked():
                last = self._folder.last_time()
                stored = store(writes)
                if self._seen == last:  # nobody else committed in between: there is nothing to look for
                    self._seen = self._folder.last_time()
        except UnavailableError as error:
            raise CommitUnansweredError(error.message) from error
        _tell(loop, partial(self._watches.publish, stored.changes))
        return stored.committed

    def _state(self, target: Path | Query) -> Mapping[Path, Document | None]:
        return {target: self._files.current(target)} if isinstance(target, Path) else by_path(self._files.find(target))

    def _start(self, loop: asyncio.AbstractEventLoop, watch: Watch) -> None:
        with self._locked():
            _tell(loop, partial(watch.start, self._state(watch.target)))

    def _refresh(self, loop: asyncio.AbstractEventLoop, watches: Sequence[Watch]) -> None:
        with self._locked():
            last = self._folder.last_time()
            if last == self._seen:
                return
            for watch in watches:
                try:
                    _tell(loop, partial(watch.refresh, self._state(watch.target)))
                except DataLossError as error:
                    _tell(loop, partial(watch.fail, error))
            self._seen = last

    # From here on: on the event loop.

    def _start_polling(self) -> None:
        if self._polling is None and self._poll_interval > 0:
            self._polling = asyncio.create_task(self._poll(), name="session-files-poll")
            self._polling.add_done_callback(self._pass_on_failure)

    async def _stop_polling(self) -> None:
        if self._polling is not None:
            task, self._polling = self._polling, None
            task.cancel()
            await asyncio.wait([task])

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._poll_interval)
            with contextlib.suppress(UnavailableError):  # the next round looks again
                await self._run(partial(self._refresh, loop, list(self._watches)))

    def _pass_on_failure(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            for watch in self._watches:
                watch.fail(error)


def _tell(loop: asyncio.AbstractEventLoop, delivery: Callable[[], None]) -> None:
    """Runs `delivery` on the loop. The worker's deliveries arrive in the order of its work, before its results."""
    with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever listened
        loop.call_soon_threadsafe(delivery)
