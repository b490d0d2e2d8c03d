"""The tasks that an engine waits for before it ends: claims, turns, compactions, and what follows them."""

import asyncio
from collections.abc import Iterator
from typing import Any


class Tasks:
    """Forgets each once it is done."""

    def __init__(self) -> None:
        self._kept: set[asyncio.Task[Any]] = set()

    def __iter__(self) -> Iterator["asyncio.Task[Any]"]:
        return iter(tuple(self._kept))

    def keep(self, task: "asyncio.Task[Any]") -> None:
        """Until it is done."""
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    def unfinished(self) -> set["asyncio.Task[Any]"]:
        """Those of now."""
        return {task for task in self._kept if not task.done()}

    async def finish(self, seconds: float) -> None:
        """Returns once all are done, those too that begin meanwhile: a claim that was under way begins a turn. After so
        many seconds at the latest."""
        now = asyncio.get_running_loop().time
        until = now() + seconds
        while (left := self.unfinished()) and now() < until:
            await asyncio.wait(left, timeout=until - now())
