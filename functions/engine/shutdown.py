"""The end of an instance: no new turns, time for those that run, then what they have produced is stored.

The server's own handler of SIGTERM is called afterwards, since it would end the process under turns that no connection
waits for any more.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

_LOG = logging.getLogger("firesession.shutdown")


def drain_on_termination(drain: Callable[[], Awaitable[None]]) -> None:
    """From now on SIGTERM first awaits `drain` on the running loop, then does what it did before. Only the main thread
    can take signals; elsewhere (a test's loop in a thread) nothing is changed."""
    loop = asyncio.get_running_loop()
    try:
        former = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, _Handler(loop, drain, former))
    except ValueError:
        _LOG.debug("not in the main thread: SIGTERM is left alone")


class _Handler:
    """Called by the interpreter between two instructions: only hands the work to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, drain: Callable[[], Awaitable[None]], former: Any) -> None:
        self._loop = loop
        self._drain = drain
        self._former = former
        self._task: asyncio.Task[None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._begin, number)

    def _begin(self, number: int) -> None:
        if self._task is None:  # a second signal changes nothing
            self._task = self._loop.create_task(self._drain_and_end(number))

    async def _drain_and_end(self, number: int) -> None:
        try:
            await self._drain()
        except Exception:  # the process has to end all the same
            _LOG.exception("draining failed")
        signal.signal(signal.SIGTERM, self._former)
        if callable(self._former):
            self._former(number, None)
        else:
            signal.raise_signal(number)
