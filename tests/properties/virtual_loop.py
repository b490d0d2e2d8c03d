"""An event loop whose time passes only when nothing else is left to do, so that pauses and deadlines cost no waiting.

Work in threads is waited for in real time; everything else that would wait for ever is an error.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` begins at 0 and is moved by timers that fall due, and by `advance`."""

    def __init__(self) -> None:
        self._now = 0.0
        self._in_threads = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets time pass; what falls due runs before anything else is waited for."""
        self._now += seconds

    @property
    def has_work_outside(self) -> bool:
        """Whether a thread will report back."""
        return self._in_threads > 0

    def run_in_executor(  # type: ignore[override]  # the base is generic in arguments that are only passed on
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        self._in_threads += 1
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._came_back)
        return future

    async def shutdown_default_executor(self) -> None:
        self._in_threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._in_threads -= 1

    def _came_back(self, _: object) -> None:
        self._in_threads -= 1


class _Selector(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, makes it that late."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._loop.has_work_outside and (timeout is None or timeout > 0):
            return super().select(None)
        events = super().select(0)
        if events:
            return events
        if timeout is None:
            raise RuntimeError("Every task waits for something that nobody will bring.")
        self._loop.advance(max(0.0, timeout))
        return events


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
