"""Work on large states, kept from holding up the other turns of an instance: their heartbeats above all."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

LARGE = 2_097_152  # bytes of text; below, a change of threads takes longer than what it spares the others

_T = TypeVar("_T")


async def apart(size: int, work: Callable[[], _T]) -> _T:
    """What `work`, which must be pure, gives; in a thread where the state that it works on is large."""
    return await asyncio.to_thread(work) if size > LARGE else work()
