"""How long one request follows a turn: up to the limit and not a moment longer, and no event is lost by it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from functions.engine.assembly import Event
from functions.engine.broadcast import NumberedEvent
from functions.engine.deadlines import until_deadline
from store.errors import DeadlineExceededError
from tests.properties.virtual_loop import run_virtually

LIMIT = 10.0
OVER = DeadlineExceededError("Enough.", snapshotId="s")


class Source:
    """Events at these moments, and whether it was left."""

    def __init__(self, *moments: float) -> None:
        self._moments = moments
        self.is_closed = False

    async def read(self) -> AsyncGenerator[NumberedEvent, None]:
        loop = asyncio.get_running_loop()
        try:
            for number, moment in enumerate(self._moments, 1):
                if moment > loop.time():
                    await asyncio.sleep(moment - loop.time())
                yield NumberedEvent(number, Event("text-delta", {"at": moment}))
        finally:
            self.is_closed = True


def seen_of(source: Source, after: int = 0) -> list[NumberedEvent]:
    async def read() -> list[NumberedEvent]:
        return [numbered async for numbered in until_deadline(source.read(), LIMIT, OVER, after)]

    return run_virtually(read())


def test_what_comes_within_the_limit_is_told_to_its_end() -> None:
    source = Source(0, 5, LIMIT - 0.001)
    assert [(numbered.id, numbered.event.name) for numbered in seen_of(source)] == [
        (number, "text-delta") for number in (1, 2, 3)
    ]
    assert source.is_closed


def test_what_comes_over_the_limit_is_replaced_by_an_error_with_the_last_events_number() -> None:
    source = Source(0, 5, LIMIT + 0.001)
    *told, last = seen_of(source)
    assert [numbered.id for numbered in told] == [1, 2]
    assert last == NumberedEvent(
        2, Event("error", {"code": "deadline_exceeded", "message": "Enough.", "snapshotId": "s"})
    )
    assert source.is_closed


def test_a_reader_that_has_seen_nothing_new_is_told_where_it_began() -> None:
    assert [numbered.id for numbered in seen_of(Source(LIMIT + 1), after=7)] == [7]


def test_events_that_are_always_there_do_not_outlast_the_limit() -> None:
    async def read() -> int:
        told = 0
        async for numbered in until_deadline(Source(*[0.0] * 1000).read(), LIMIT, OVER):
            if numbered.event.name == "text-delta":
                told += 1
                await asyncio.sleep(1)  # a slow reader
        return told

    assert run_virtually(read()) == LIMIT


def test_each_step_may_be_taken_by_another_task() -> None:
    async def read() -> list[str]:
        events = until_deadline(Source(0, 1, LIMIT + 1).read(), LIMIT, OVER)
        names = []
        while (numbered := await asyncio.create_task(anext(events, None))) is not None:
            names.append(numbered.event.name)
        return names

    assert run_virtually(read()) == ["text-delta", "text-delta", "error"]


def test_a_timeout_of_the_events_themselves_is_no_deadline() -> None:
    async def broken() -> AsyncGenerator[NumberedEvent, None]:
        yield NumberedEvent(1, Event("text-delta", {}))
        raise TimeoutError

    async def read() -> None:
        async for _ in until_deadline(broken(), LIMIT, OVER):
            pass

    with pytest.raises(TimeoutError):
        run_virtually(read())
