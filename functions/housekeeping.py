"""Sweeping from inside of a server that nobody schedules: for `make serve` and single hosts."""

import asyncio
import logging
from contextvars import Context

from store.contract import RetentionStore

_LOG = logging.getLogger("firesession.housekeeping")


class SweepLoop:
    """Sweeps every `interval` seconds, as long as there is something to delete at once."""

    def __init__(self, store: RetentionStore, interval: float) -> None:
        self._store = store
        self._interval = interval
        # A context of its own: it is not about the request that came first.
        self._task = asyncio.create_task(self._run(), name="firesession-sweep", context=Context())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                while not (report := await self._store.sweep()).is_done:
                    pass
                _LOG.info("swept: %s deleted of %s", report.deleted, report.examined)
            except Exception:  # the next round may fare better
                _LOG.exception("a sweep failed")

    async def close(self) -> None:
        """Sweeps no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
