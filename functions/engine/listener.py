"""Hears of what other instances ask of this one: one listener per instance and kind of request."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from typing import TypeAlias

_LOG = logging.getLogger("firesession.listener")
_PAUSE = 1.0  # seconds between a listener that ended and the next; heartbeats notice an abort meanwhile

Watch: TypeAlias = Callable[[str], AbstractAsyncContextManager[AsyncIterator[list[str]]]]
"""From an instance's id to the rows that ask something of it."""


class Listener:
    """Calls `on_row` with the ids of rows that `watch` finds for `runner`, some repeatedly. `name` says what of."""

    def __init__(self, name: str, watch: Watch, runner: str, on_row: Callable[[str], None]) -> None:
        self._name = name
        self._watch = watch
        self._runner = runner
        self._on_row = on_row
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listens from now on; more calls change nothing."""
        if self._task is None:
            # A context of its own: it is not about the request that came first.
            self._task = asyncio.create_task(self._run(), name=f"firesession-{self._name}-listener", context=Context())

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception:  # whatever ended it, the next one is needed: a deaf instance stops no turn
                _LOG.exception("the %s listener ended", self._name)
            await asyncio.sleep(_PAUSE)

    async def _listen(self) -> None:
        async with self._watch(self._runner) as batches:
            async for snapshot_ids in batches:
                for snapshot_id in snapshot_ids:
                    self._on_row(snapshot_id)

    async def close(self) -> None:
        """Stops listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
