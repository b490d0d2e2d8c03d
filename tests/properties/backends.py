"""The databases that the properties are held against, each with a way to let time pass."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from store.database import Database
from store.file.database import FileDatabase
from store.firestore.database import FirestoreDatabase
from store.memory.database import MemoryDatabase

_START = datetime(2026, 1, 1, tzinfo=UTC)
_TICK = timedelta(milliseconds=10)


class Backend(Protocol):
    """One database, to which any number of instances connect."""

    staleness: float  # seconds, the lease_staleness to use with it
    skew: float  # seconds by which the instances' clocks are apart

    def open(self) -> Database:
        """What one more instance connects with."""

    def tick(self) -> None:
        """Lets a moment pass."""

    async def pass_time(self, seconds: float) -> None:
        """Lets some time pass."""

    async def close(self) -> None:
        """Frees everything that was opened."""


class MemoryBackend:
    """One database in memory; its clock is moved by hand."""

    staleness = 60.0
    skew = 0.0

    def __init__(self) -> None:
        self._now = _START
        self._database = MemoryDatabase(clock=lambda: self._now)

    def open(self) -> Database:
        return self._database

    def tick(self) -> None:
        self._now += _TICK

    async def pass_time(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    async def close(self) -> None:
        await self._database.close()


class FileBackend:
    """One folder; each instance that opens it may have a clock that is off by `skews` seconds, in turn."""

    staleness = 60.0

    def __init__(self, directory: Path, skews: tuple[float, ...] = (0.0,)) -> None:
        self._directory = directory
        self._skews = skews
        self.skew = max(skews) - min(skews)
        self._now = _START
        self._opened: list[FileDatabase] = []

    def open(self) -> Database:
        skew = timedelta(seconds=self._skews[len(self._opened) % len(self._skews)])
        self._opened.append(FileDatabase(self._directory, clock=self._clock(skew), poll_interval=0))
        return self._opened[-1]

    def _clock(self, skew: timedelta) -> Callable[[], datetime]:
        return lambda: self._now + skew

    def tick(self) -> None:
        self._now += _TICK

    async def pass_time(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    async def close(self) -> None:
        for database in self._opened:
            await database.close()


class FirestoreBackend:
    """One project of the emulator. Its clock is its own, so time passes by waiting, and leases are short."""

    staleness = 0.2
    skew = 0.0

    def __init__(self, host: str, project: str) -> None:
        self._database = FirestoreDatabase(project, emulator_host=host)

    def open(self) -> Database:
        return self._database

    def tick(self) -> None:
        """The server's clock ticks by itself."""

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._database.close()
