"""The events of one running turn, for any number of readers: each gets every event, once, in order, from the start or
from behind the last one that it has seen."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NamedTuple

from functions.engine.assembly import Event


class NumberedEvent(NamedTuple):
    """An event with its id, counted from 1."""

    id: int
    event: Event


class Broadcast:
    """An append-only list of events that readers follow. `on_abandoned` is called whenever the last reader leaves
    before the end."""

    def __init__(self, on_abandoned: Callable[[], None]) -> None:
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self._is_closed = False
        self._readers = 0
        self._on_abandoned = on_abandoned

    @property
    def count(self) -> int:
        """How many events there have been."""
        return len(self._events)

    @property
    def events(self) -> Sequence[Event]:
        """All events so far; number n is at n - 1."""
        return self._events

    def publish(self, event: Event) -> None:
        """Appends an event; one after the end is dropped, since nobody could be told any more."""
        if self._is_closed:
            return
        self._events.append(event)
        self._wake()

    def close(self) -> None:
        """The last event has been published."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        # A fresh event per wake-up: readers that wait on the old one are all released, none can miss it.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(self, after: int = 0) -> AsyncGenerator[NumberedEvent, None]:
        """The events behind number `after`, then each as it comes, until the end."""
        self._readers += 1
        try:
            position = after
            while True:
                while position < len(self._events):
                    position += 1
                    yield NumberedEvent(position, self._events[position - 1])
                if self._is_closed:
                    return
                await self._changed.wait()
        finally:
            self._readers -= 1
            if self._readers == 0 and not self._is_closed:
                self._on_abandoned()
