"""Lets tasks go on one at a time: each waits before every call until it is told to, so that an order can be chosen."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from tests.properties.faulty_database import Fault


class Killed(Exception):
    """Raised in a task whose instance has died: nothing that it knew is known any more."""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that waits for its turn, what it is about to do, and what may befall it."""

    task: str
    call: str
    faults: tuple[Fault, ...]
    instance: object
    may_go: Callable[[], bool]
    permit: asyncio.Future[Fault]


class Scheduler:
    """Between two steps every task is either waiting here or done."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._moved = asyncio.Event()

    async def start(self, name: str, work: Coroutine[object, object, None]) -> None:
        """Runs a task to its first call."""
        task = asyncio.create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._moved.set())
        await self._settled(name)

    async def pause(
        self,
        call: str,
        faults: tuple[Fault, ...] = (Fault.NONE,),
        instance: object = None,
        may_go: Callable[[], bool] = _always,
    ) -> Fault:
        """Waits for the running task's turn; gives what is to befall its call."""
        task = asyncio.current_task()
        if task is None or task.get_name() not in self._tasks:
            raise RuntimeError("Only a task that was started here may wait here.")
        permit: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()
        name = task.get_name()
        self._waiting[name] = Waiting(name, call, faults, instance, may_go, permit)
        self._moved.set()
        return await permit

    def waiting(self) -> list[Waiting]:
        """Who may go on, in the order in which the tasks were started."""
        found = [self._waiting[name] for name in self._tasks if name in self._waiting]
        return [waiting for waiting in found if waiting.may_go()]

    async def step(self, waiting: Waiting, fault: Fault = Fault.NONE) -> None:
        """Lets one task go on until its next call, or its end."""
        del self._waiting[waiting.task]
        waiting.permit.set_result(fault)
        await self._settled(waiting.task)

    async def kill(self, instance: object) -> None:
        """Ends what every task does on `instance`."""
        for waiting in list(self._waiting.values()):
            if waiting.instance is instance:
                del self._waiting[waiting.task]
                waiting.permit.set_exception(Killed())
                await self._settled(waiting.task)

    async def cancel(self) -> None:
        """Ends all tasks."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _settled(self, name: str) -> None:
        task = self._tasks[name]
        while name not in self._waiting and not task.done():
            self._moved.clear()
            await self._moved.wait()
        if task.done():
            task.result()  # a task's failure is the run's
