"""Keeps a turn's events where other instances can read them: in segments.

While the turn runs they are written only where another instance asks for them, one a second at most; the rest of the
log, or all of it, is part of the settle. A turn that ends within its first second writes none. Segments are the one
thing that can wait: where the database answers slowly, they leave it to the claims, aborts and settles.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from functions.engine.assembly import Event
from functions.engine.broadcast import Broadcast
from functions.logs import coded
from store.contract import TurnStreams
from store.errors import StoreError
from store.layout.segments import cut_segments, log_line
from store.models import Lease, Segment

_LOG = logging.getLogger("firesession.recording")
INTERVAL: Final = 1.0  # seconds
LONGEST_INTERVAL: Final = 10.0
_PAUSE_PER_WRITE: Final = 4  # a log writes for a fifth of its time at most


def pause_after(seconds: float) -> float:
    """Seconds until the next segment, after one that took `seconds` to write."""
    return min(LONGEST_INTERVAL, max(INTERVAL, _PAUSE_PER_WRITE * seconds))


class Recorder:
    """Writes one turn's log. `lifetime` is how long segments are kept, in seconds."""

    def __init__(self, store: TurnStreams, lease: Lease, broadcast: Broadcast, lifetime: float) -> None:
        self._store = store
        self._lease = lease
        self._broadcast = broadcast
        self._lifetime = timedelta(seconds=lifetime)
        self._started = asyncio.get_running_loop().time()
        self._written = 0  # events
        self._next_index = 0
        # Sent, and perhaps stored: repeated as they are until they are known to be.
        self._unconfirmed: list[Segment] = []
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Somebody follows the turn from elsewhere: from now on the log is written as it grows."""
        if self._task is None:
            name = f"firesession-recorder-{self._lease.snapshot_id}"
            self._task = asyncio.create_task(self._run(), name=name)

    @property
    def _elapsed(self) -> float:
        """Seconds."""
        return asyncio.get_running_loop().time() - self._started

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        pause = max(0.0, INTERVAL - self._elapsed)
        while True:
            await asyncio.sleep(pause)
            async with self._writing:
                began = now()
                if self._unconfirmed or self._broadcast.count > self._written:
                    await self._write()
            pause = pause_after(now() - began)

    async def _write(self) -> None:
        if not self._unconfirmed:
            self._unconfirmed = self._segments(self._broadcast.events[self._written :])
            self._written = self._broadcast.count
            self._next_index += len(self._unconfirmed)
        try:
            has_landed = await self._store.write_segments(self._lease, self._unconfirmed, self.expires_at)
        except StoreError as error:
            told = coded(error)
            _LOG.warning("a segment of turn %s was not written: %s", self._lease.snapshot_id, error.code, extra=told)
            return
        if has_landed:
            self._unconfirmed = []

    def _segments(self, events: Sequence[Event]) -> list[Segment]:
        lines = [
            (number, log_line(number, event.name, event.data))
            for number, event in enumerate(events, start=self._written + 1)
        ]
        return cut_segments(self._next_index, lines)

    @property
    def expires_at(self) -> datetime:
        """Counted from the turn's creation, a time of the database, and on by a duration, which needs no clock."""
        return self._lease.created_at + timedelta(seconds=self._elapsed) + self._lifetime

    @property
    def was_asked(self) -> bool:
        """Whether anybody has followed the turn from elsewhere."""
        return self._task is not None

    async def stop(self) -> None:
        """Writes no more by itself; one write that is under way has been answered once this returns."""
        if self._task is None:
            return
        async with self._writing:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def closing(self, end: Event) -> tuple[Segment, ...]:
        """The rest of the log up to the turn's end; nothing where the turn was too short for any."""
        if self._next_index == 0 and self._elapsed < INTERVAL:
            return ()
        return (*self._unconfirmed, *self._segments([*self._broadcast.events[self._written :], end]))


MakeRecorder = Callable[[Lease, Broadcast], Recorder]
"""Makes the recorder of one turn."""
