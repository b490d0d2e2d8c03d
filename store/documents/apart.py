"""Work on large states, kept from holding up the other turns of an instance: their heartbeats above all."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from store.layout.chain import Ground
from store.layout.patches import changed_bytes
from store.state import State

LARGE = 8_388_608  # bytes of text; the whole of it is worked on within some tenths of a second, most of it never
_COMPARED = 64  # times as long takes what has changed: it is compared value by value

_T = TypeVar("_T")


def work_on(state: State, parent: Ground | None) -> int:
    """The size of a state that takes as long to work on as `state` does where it is stored against `parent`."""
    return state.size + (_COMPARED * changed_bytes(parent.state, state) if parent else 0)


async def apart(size: int, work: Callable[[], _T]) -> _T:
    """What `work`, which must be pure, gives; in a thread where the state that it works on is large."""
    return await asyncio.to_thread(work) if size > LARGE else work()
