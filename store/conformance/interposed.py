"""A database that lets a case act between an operation's reads and its commit, or die there. Holds no test."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from store.database import Committed, Database, Write
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import StoreError


class Crash(StoreError):
    """The instance died."""


class Interposed:
    """Passes everything on; `before_commit` is called with each commit's writes, and may raise instead."""

    def __init__(self, database: Database, before_commit: Callable[[Sequence[Write]], Awaitable[None]]) -> None:
        self._database = database
        self._before_commit = before_commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def commit(self, writes: Sequence[Write]) -> Committed:
        """As the database's, after `before_commit`."""
        await self._before_commit(writes)
        return await self._database.commit(writes)


def interposed_store(
    database: Database, before_commit: Callable[[Sequence[Write]], Awaitable[None]], **options: Any
) -> DocumentStore:
    """An instance of its own on `database`, with a hook before its commits."""
    return store_on(Interposed(database, before_commit), **options)


def dying_store(database: Database, commits: int, **options: Any) -> DocumentStore:
    """The same, but the instance dies before the commit that follows so many: Crash."""
    left = commits

    async def die(_: Sequence[Write]) -> None:
        nonlocal left
        if left == 0:
            raise Crash("died")
        left -= 1

    return interposed_store(database, die, **options)


def store_on(database: Any, **options: Any) -> DocumentStore:
    """An instance of its own on a database, or on what passes for one."""
    return DocumentStore(Shelf(database, Options(**options)))
