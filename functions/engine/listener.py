"""Hears of aborts: one listener per instance, for the rows that ask this instance to stop."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context

from store.contract import TurnStore

_LOG = logging.getLogger("firesession.listener")
_PAUSE = 1.0  # seconds between a listener that ended and the next; heartbeats notice a flip meanwhile


class AbortListener:
    """Calls `on_abort` with the ids of rows that ask `runner` to stop, some repeatedly."""

    def __init__(self, store: TurnStore, runner: str, on_abort: Callable[[str], None]) -> None:
        self._store = store
        self._runner = runner
        self._on_abort = on_abort
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listens from now on; more calls change nothing."""
        if self._task is None:
            # A context of its own: it is not about the request that came first.
            self._task = asyncio.create_task(self._run(), name="firesession-abort-listener", context=Context())

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception:  # whatever ended it, the next one is needed: a deaf instance stops no turn
                _LOG.exception("the abort listener ended")
            await asyncio.sleep(_PAUSE)

    async def _listen(self) -> None:
        async with self._store.watch_aborts(self._runner) as batches:
            async for snapshot_ids in batches:
                for snapshot_id in snapshot_ids:
                    self._on_abort(snapshot_id)

    async def close(self) -> None:
        """Stops listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
