"""Databases that each break one promise, for the suite to be tested on. Holds no test."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from store.database import (
    SERVER_TIME,
    Committed,
    Database,
    Delete,
    Document,
    Found,
    Kind,
    Path,
    Query,
    Read,
    Update,
    Write,
)
from store.memory.database import MemoryDatabase


class Passing:
    """A database that passes everything on; its subclasses do one thing otherwise."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)


class LeaseStays(Passing):
    """A row that ends leaves its session claimed."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        return await self.database.commit([self._kept(write) for write in writes])

    def _kept(self, write: Write) -> Write:
        return replace(write, remove=()) if isinstance(write, Update) and "activeSnapshotId" in write.remove else write


class NoPreconditions(Passing):
    """Whoever comes last wins."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        blind = [replace(write, update_time=None) if isinstance(write, Update | Delete) else write for write in writes]
        return await self.database.commit(blind)


class HalfCommits(Passing):
    """A commit of several documents stores each by itself."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        answers = [await self.database.commit([write]) for write in writes]
        times = tuple(answer.update_times[0] for answer in answers)
        return Committed(times, answers[-1].server_time)


class SlowClock(Passing):
    """Reads are of a time long before the one that heartbeats get: no lease is ever old."""

    async def get(self, *paths: Any, **keywords: Any) -> Read:
        keywords["at"] = None
        read = await self.database.get(*paths, **keywords)
        return Read(read.documents, read.time - timedelta(days=1))


class BeatsTouchTheUpdate(Passing):
    """A heartbeat counts as a change of the row."""

    async def write_each(self, writes: Sequence[Write]) -> Any:
        touching = [
            replace(write, fields={**write.fields, "updatedAt": SERVER_TIME}) if isinstance(write, Update) else write
            for write in writes
        ]
        return await self.database.write_each(touching)


class OneTenant(Passing):
    """All tenants share their documents."""

    async def get(self, paths: Any, **keywords: Any) -> Read:
        renamed = {path._replace(tenant="all"): path for path in paths}
        read = await self.database.get(list(renamed), **keywords)
        documents = {
            renamed[path]: document and replace(document, path=renamed[path])
            for path, document in read.documents.items()
        }
        return Read(documents, read.time)

    async def commit(self, writes: Sequence[Write]) -> Committed:
        shared = [replace(write, path=write.path._replace(tenant="all")) for write in writes]
        return await self.database.commit(shared)

    async def query(self, query: Query) -> Any:
        return await self.database.query(replace(query, tenant="all"))


class NoWatches(Passing):
    """A watch delivers what is there at first, and no change."""

    def watch(self, target: Any) -> Any:
        return MemoryDatabase().watch(target)


class LateBeats(Passing):
    """A heartbeat that was under way lands after the settle, whatever has become of its row."""

    async def write_each(self, writes: Sequence[Write]) -> Any:
        for _ in range(100):
            await asyncio.sleep(0)
        blind = [replace(write, update_time=None) if isinstance(write, Update) else write for write in writes]
        return await self.database.write_each(blind)


class IgnoresMoments(Passing):
    """Every read is of now, whatever moment it was asked for."""

    async def get(self, *paths: Any, **keywords: Any) -> Read:
        return await self.database.get(*paths, **{**keywords, "at": None})


class ReadsOneByOne(Passing):
    """A read of several documents reads each at its own moment."""

    async def get(self, paths: Any, **keywords: Any) -> Read:
        documents: dict[Path, Document | None] = {}
        for path in paths:
            await asyncio.sleep(0)
            documents |= (await self.database.get([path], **keywords)).documents
        return Read(documents, (await self.database.get([], **keywords)).time)


class KeepsLogs(Passing):
    """What a session's deletion asks for leaves event logs out."""

    async def query(self, query: Query) -> Found:
        found: Found = await self.database.query(query)
        return Found([], found.time) if query.kind is Kind.STREAMS else found


class Unordered(Passing):
    """A query's documents come in any order."""

    async def query(self, query: Query) -> Found:
        found: Found = await self.database.query(query)
        return Found(found.documents[::-1], found.time)
