"""How long one request may follow a turn. The turn itself is bounded by nothing here: it goes on without its reader, as
the caller has asked for."""

import asyncio
from collections.abc import AsyncGenerator

from functions.dialects.native import ERROR
from functions.engine.assembly import Event
from functions.engine.broadcast import NumberedEvent
from functions.errors import error_body
from store.errors import DeadlineExceededError


class _OverError(Exception):
    """The reader's time is over; not a TimeoutError, which the events themselves might raise."""


async def until_deadline(
    events: AsyncGenerator[NumberedEvent, None], seconds: float, error: DeadlineExceededError, after: int = 0
) -> AsyncGenerator[NumberedEvent, None]:
    """The events behind number `after`, for at most so many seconds; then `error` with the last event's number, so that
    the reader can go on behind it."""
    seen = after
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        while (numbered := await _next(events, deadline)) is not None:
            seen = numbered.id
            yield numbered
    except _OverError:
        yield NumberedEvent(seen, Event(ERROR, error_body(error)))
    finally:
        await events.aclose()  # a reader that leaves must be seen to leave at once, not when it is collected


async def _next(events: AsyncGenerator[NumberedEvent, None], deadline: float) -> NumberedEvent | None:
    """None at the end. Each step has a timeout of its own, since a response may take each in another task."""
    if asyncio.get_running_loop().time() >= deadline:
        raise _OverError  # a timeout alone would not stop events that are there already
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            return await anext(events, None)
    except TimeoutError as error:
        if limit.expired():
            raise _OverError from error
        raise
