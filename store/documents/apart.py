"""Work on large states, kept from holding up the other turns of an instance: their heartbeats above all."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

LARGE = 8_388_608  # bytes of text; the whole of it is worked on within some tenths of a second, most of it never

_T = TypeVar("_T")


async def apart(size: int, work: Callable[[], _T]) -> _T:
    """What `work`, which must be pure, gives; in a thread where the state that it works on is large."""
    return await asyncio.to_thread(work) if size > LARGE else work()
