"""The heartbeats of all turns of an instance: one round trip per interval, whatever their number."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context

from store.contract import TurnStore
from store.models import Beat, Lease

_LOG = logging.getLogger("firesession.heart")


class Heart:
    """Beats for the leases that were handed to it; `on_beat` is told of every verdict but ALIVE."""

    def __init__(self, store: TurnStore, interval: float, on_beat: Callable[[Lease, Beat], None]) -> None:
        self._store = store
        self._interval = interval
        self._on_beat = on_beat
        self._leases: dict[str, Lease] = {}
        self._beating = asyncio.Lock()
        self._loop: asyncio.Task[None] | None = None

    def join(self, lease: Lease) -> None:
        """The lease beats from the next interval on."""
        self._leases[lease.snapshot_id] = lease
        if self._loop is None:
            # For all turns, so it is about none, nor part of what the request costs that came first.
            self._loop = asyncio.create_task(self._run(), name="firesession-heart", context=Context())

    async def leave(self, lease: Lease) -> None:
        """The lease beats no more; one beat that is under way has been answered once this returns."""
        self._leases.pop(lease.snapshot_id, None)
        async with self._beating:
            pass

    async def _run(self) -> None:
        """Ends when there is nothing left to beat for; `join` starts it again."""
        while True:
            await asyncio.sleep(self._interval)
            if not self._leases:
                self._loop = None
                return
            try:
                await self._beat()
            except Exception:  # a heart that stops would cost every turn of the instance its lease
                _LOG.exception("a heartbeat failed")

    async def _beat(self) -> None:
        async with self._beating:
            leases = list(self._leases.values())
            beats = await self._store.heartbeat(leases)
        for lease, verdict in zip(leases, beats, strict=True):
            if verdict is not Beat.ALIVE:
                self._on_beat(lease, verdict)

    async def close(self) -> None:
        """Stops beating."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None
