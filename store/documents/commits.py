"""Sending commits: what repeats them, what splits them, and what they are made of.

A refused or unanswered commit is a question, not an answer (rule 3): the caller of `try_commit` reads its own row
before it decides anything.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from store.database import CommitRefusedError, Committed, CommitUnansweredError, Put, Write
from store.documents.shelf import Shelf, shard_path
from store.errors import UnavailableError
from store.layout.codec import Stored
from store.layout.fields import FORMAT_VERSION, present
from store.rules.retention import GRACE

PATIENCE = 4.0  # seconds that a request waits for a database that does not answer
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
_LONGEST_AFTER_REFUSAL = 0.08  # the database is well, and whoever came first is done already


class Retries:
    """The tries of one operation: pauses between them grow, with jitter, until `seconds` have passed.

    A refusal does not use up the time, since somebody else's success caused it, but the number of tries is bounded."""

    def __init__(self, shelf: Shelf, seconds: float = PATIENCE, most: int = 200) -> None:
        self._jitter = shelf.jitter
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._left = most
        self._pause = _FIRST_PAUSE

    async def wait(self, cause: Exception) -> None:
        """Pauses before the next try; UnavailableError where there is none left."""
        self._left -= 1
        loop = asyncio.get_running_loop()
        if self._left <= 0 or (isinstance(cause, CommitUnansweredError) and loop.time() >= self._deadline):
            raise UnavailableError("The database did not answer in time.") from cause
        await asyncio.sleep(self._pause * (0.5 + self._jitter()))
        is_refused = isinstance(cause, CommitRefusedError)
        self._pause = min(self._pause * 2, _LONGEST_AFTER_REFUSAL if is_refused else _LONGEST_PAUSE)


async def try_commit(shelf: Shelf, writes: Sequence[Write]) -> Committed | CommitRefusedError | CommitUnansweredError:
    """One commit, sent once; what happened is returned, because it is the caller's question to ask."""
    try:
        return await shelf.database.commit(writes)
    except (CommitRefusedError, CommitUnansweredError) as doubt:
        return doubt


def shard_writes(
    tenant: str, session_id: str, shards: Mapping[str, Stored], expires_at: datetime | None
) -> list[tuple[Write, int]]:
    """The writes that store shards, with their bytes. Unconditional: nobody else may use their ids."""
    return [
        (
            Put(shard_path(tenant, shard_id), _shard_fields(shard_id, session_id, stored, expires_at)),
            len(stored.content),
        )
        for shard_id, stored in shards.items()
    ]


def _shard_fields(shard_id: str, session_id: str, stored: Stored, expires_at: datetime | None) -> dict[str, Any]:
    return {
        "formatVersion": FORMAT_VERSION,
        "shardId": shard_id,
        "sessionId": session_id,
        "chunk": stored.content,
        "codec": stored.codec,
        "digest": stored.digest,
    } | expiry_fields(expires_at)


def expiry_fields(expires_at: datetime | None) -> dict[str, Any]:
    """What a temporary session's documents carry: its expiry, and the day later at which the database may drop them."""
    if expires_at is None:
        return {}
    return present(expiresAt=expires_at, firesessionExpireAt=expires_at + GRACE)


async def write_ahead(shelf: Shelf, sized: Iterable[tuple[Write, int]]) -> list[Write]:
    """Writes shards before the commit that makes them visible, where they are too large to be part of it; gives back
    those that are to be part of it."""
    writes = list(sized)
    if sum(size for _, size in writes) <= shelf.options.commit_size:
        return [write for write, _ in writes]
    for group in grouped(writes, shelf.options.commit_size):
        await _commit_for_sure(shelf, group)
    return []


def grouped(sized: Sequence[tuple[Write, int]], limit: int) -> Iterable[list[Write]]:
    """The writes, given with their bytes, in runs of up to `limit` bytes."""
    group: list[Write] = []
    total = 0
    for write, size in sized:
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(write)
        total += size
    yield group


async def _commit_for_sure(shelf: Shelf, writes: Sequence[Write]) -> None:
    """Repeats an unconditional commit until it is answered: landing twice is the same as landing once."""
    retries = Retries(shelf)
    while not isinstance(result := await try_commit(shelf, writes), Committed):
        await retries.wait(result)
