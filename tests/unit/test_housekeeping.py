"""The loop that sweeps inside of a server."""

import asyncio

from functions.housekeeping import SweepLoop
from store.contract import RetentionStore
from store.errors import UnavailableError
from store.memory.store import MemoryStore
from store.models import SweepReport


class Swept(MemoryStore):
    """Answers sweeps as it is told, and says when they are used up."""

    def __init__(self, *answers: bool | Exception) -> None:
        super().__init__()
        self._answers = list(answers)
        self.is_through = asyncio.Event()
        self.calls = 0

    async def sweep(self, limit: int = 500, *, dry_run: bool = False) -> SweepReport:
        """The next answer: whether it is done, or what it raises."""
        self.calls += 1
        if not self._answers:
            self.is_through.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SweepReport(1, 1, 0, answer)


async def swept(store: Swept, interval: float) -> None:
    assert isinstance(store, RetentionStore)
    loop = SweepLoop(store, interval)
    async with asyncio.timeout(5):
        await store.is_through.wait()
    await loop.close()


async def test_it_sweeps_again_and_again_and_a_failure_does_not_end_it() -> None:
    store = Swept(True, UnavailableError("down"), RuntimeError("a bug"), True)
    await swept(store, 0.001)
    assert store.calls == 5


async def test_a_sweep_that_is_not_done_is_gone_on_with_at_once() -> None:
    store = Swept(False, False, True)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await swept(store, 0.05)
    assert store.calls == 4
    assert loop.time() - began < 5 * 0.05 + 1  # two intervals, not four


async def test_it_does_not_begin_with_a_sweep_and_ends_when_it_is_closed() -> None:
    store = Swept()
    loop = SweepLoop(store, 3600)
    await asyncio.sleep(0)
    await loop.close()
    assert store.calls == 0
