"""Repeats reads over short outages. Owns how long, and how often."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.api_core.exceptions import GoogleAPICallError

from store.firestore import failures

T = TypeVar("T")

TOTAL_SECONDS = 4.0  # a second below what the protocol promises
ATTEMPT_SECONDS = 2.0

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5


def pause_before(attempt: int, *, first: float = _FIRST_PAUSE, longest: float = _LONGEST_PAUSE) -> float:
    """Seconds to wait before the `attempt`th repetition (from 1): doubling, with half of it random."""
    full = min(longest, first * 2.0 ** min(attempt - 1, 16))
    return full * random.uniform(0.5, 1.0)


async def repeat(call: Callable[[float], Awaitable[T]]) -> T:
    """The result of `call(timeout in seconds)`, repeated while that helps; UnavailableError within TOTAL_SECONDS."""
    now = asyncio.get_running_loop().time
    end = now() + TOTAL_SECONDS
    attempt = 0
    while True:
        attempt += 1
        try:
            return await call(min(ATTEMPT_SECONDS, end - now()))
        except GoogleAPICallError as error:
            pause = pause_before(attempt)
            if not failures.is_transient(error) or now() + pause >= end:
                raise failures.of_read(error) from error
        await asyncio.sleep(pause)
