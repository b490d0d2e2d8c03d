"""Watching, as deliveries of state: each watch keeps the newest version per document until its reader takes it.

Runs on the event loop only. A slow reader costs one entry per document that it watches, however often they change.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from store.database import Document, Path, Query
from store.errors import InvalidRequestError
from store.local.queries import Matcher, in_order
from store.local.writes import masked


class Watch(AsyncIterator[list[Document | None]]):
    """One reader's view of a document or a query; ends when it is closed, raises what it is failed with."""

    def __init__(self, target: Path | Query) -> None:
        if isinstance(target, Query) and (target.limit is not None or target.start_after is not None):
            raise InvalidRequestError("A watched query has neither a limit nor a cursor.")
        self.target = target
        self._matcher = Matcher(target) if isinstance(target, Query) else None
        self._known: dict[Path, datetime | None] = {}
        self._pending: dict[Path, Document | None] = {}
        self._started = False
        self._first = True
        self._failure: Exception | None = None
        self._ended = False
        self._wake = asyncio.Event()

    def start(self, documents: Mapping[Path, Document | None]) -> None:
        """Takes the target's first complete state."""
        self._started = True
        self.offer(documents)
        self._wake.set()  # an empty query is a state too

    def refresh(self, documents: Mapping[Path, Document | None]) -> None:
        """Takes the target's complete state once more; what differs from the known one is delivered."""
        for path in [path for path in self._known if path not in documents]:
            self._forget(path)
        self.offer(documents)

    def offer(self, changes: Mapping[Path, Document | None]) -> None:
        """Takes changed documents (None = deleted), the watched ones among them."""
        if not self._started:
            return  # the first state, which is being read, has them
        for path, document in changes.items():
            if self._watches(path, document):
                self._expect(path, document)
            else:
                self._forget(path)

    def fail(self, error: Exception) -> None:
        """The reader's next step raises `error`."""
        self._failure = error
        self._wake.set()

    def end(self) -> None:
        """The reader's iteration ends."""
        self._ended = True
        self._wake.set()

    def _watches(self, path: Path, document: Document | None) -> bool:
        if self._matcher is None:
            return path == self.target
        return document is not None and self._matcher.matches(document)

    def _expect(self, path: Path, document: Document | None) -> None:
        version = None if document is None else document.update_time
        if path not in self._known or self._known[path] != version:
            self._known[path] = version
            self._pending[path] = document
            self._wake.set()

    def _forget(self, path: Path) -> None:
        self._known.pop(path, None)
        self._pending.pop(path, None)

    async def __anext__(self) -> list[Document | None]:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._failure is not None or self._ended:
                self._wake.set()  # for whoever asks again
                if self._failure is not None:
                    raise self._failure
                raise StopAsyncIteration
            delivery = self._take()
            if delivery is not None:
                return delivery

    def _take(self) -> list[Document | None] | None:
        pending, self._pending = self._pending, {}
        first, self._first = self._first, False
        if not pending and not first:
            return None  # what woke us left the query again
        if isinstance(self.target, Path):
            return [None if document is None else masked(document, None) for document in pending.values()]
        found = [document for document in pending.values() if document is not None]
        return [masked(document, self.target.mask) for document in in_order(found, self.target)]


class Watches:
    """The open watches of one database."""

    def __init__(self) -> None:
        self._open: set[Watch] = set()

    def __iter__(self) -> Iterator[Watch]:
        return iter(tuple(self._open))

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def opened(self, target: Path | Query) -> Iterator[Watch]:
        """A new watch that hears of every change published from now on, until the block ends."""
        watch = Watch(target)
        self._open.add(watch)
        try:
            yield watch
        finally:
            self._open.discard(watch)
            watch.end()

    def publish(self, changes: Mapping[Path, Document | None]) -> None:
        """Offers `changes` to every watch."""
        for watch in self:
            watch.offer(changes)

    def end(self) -> None:
        """Ends every watch."""
        for watch in self:
            watch.end()


def by_path(documents: Iterable[Document]) -> dict[Path, Document | None]:
    """`documents` as a watch takes them."""
    return {document.path: document for document in documents}
