"""What one watch has seen and its reader has not. No I/O: the stream tells it, the reader takes.

Deliveries are of state: for each document only the newest is kept, so a slow reader costs as much as its documents,
not as their history. Documents are decoded when they are taken, so the superseded ones cost nothing.
"""

import asyncio
from typing import Any

from store.database import Document, Path, Query
from store.firestore.values import decode_document


class Watch:
    """One target's side of the stream, and an asynchronous iterator for one reader."""

    def __init__(self, target: Path | Query) -> None:
        self.target = target
        self._path = target if isinstance(target, Path) else None
        self._mask = None if isinstance(target, Path) else target.mask
        self._collecting: dict[Path, Any] | None = {}  # the first state while it is incomplete, then None
        self._undelivered: dict[Path, Any] | None = None
        self._failure: Exception | None = None
        self._is_ended = False
        self._wake = asyncio.Event()

    def restart(self) -> None:
        """The stream begins again: a complete state follows. What was not delivered yet still may be."""
        self._collecting = {}

    def changed(self, path: Path, message: Any) -> None:
        """The document is now this Document message."""
        if self._collecting is not None:
            self._collecting[path] = message
        else:
            self._undelivered = {} if self._undelivered is None else self._undelivered
            self._undelivered[path] = message
            self._wake.set()

    def vanished(self, path: Path) -> None:
        """The document is gone, or belongs to the query no more; only the former is told, and by path watches only."""
        if self._collecting is not None:
            self._collecting.pop(path, None)
        elif path == self._path:
            self._undelivered = {path: None}
            self._wake.set()
        elif self._undelivered is not None:
            self._undelivered.pop(path, None)

    def completed(self) -> None:
        """What was collected is the whole present state; older undelivered changes are part of it."""
        if self._collecting is None:
            return
        state, self._collecting = self._collecting, None
        self._undelivered = state if self._path is None else {self._path: state.get(self._path)}
        self._wake.set()

    def fail(self, error: Exception) -> None:
        """Ends the watch; its reader gets the error once it has taken what was delivered."""
        self._failure = error
        self._wake.set()

    def end(self) -> None:
        """Ends the watch without an error."""
        self._is_ended = True
        self._wake.set()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> list[Document | None]:
        while self._undelivered is None:
            if self._failure is not None:
                raise self._failure
            if self._is_ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        taken, self._undelivered = self._undelivered, None
        return [self._decode(path, message) for path, message in taken.items()]

    def _decode(self, path: Path, message: Any) -> Document | None:
        return None if message is None else decode_document(path, message, self._mask)
