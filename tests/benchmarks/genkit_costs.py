"""Run by the benchmark of stores, with Genkit's packages: the same operations on Genkit's own Firestore store, counted.

Takes a job as JSON and prints what came of it as JSON. Jobs: `turns` saves one row on the other and then
measures reads, `one more` measures a save behind them, `big` does all that with one large state, `increments` changes
one row from several tasks at once.
"""

import asyncio
import json
import statistics
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from genkit.exp.agent import SessionSnapshot
from genkit_google_cloud.exp import FirestoreSessionStore
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient

SESSION = "session"
RUNS = 5

counted: Counter[str] = Counter()


def count_calls() -> None:
    """Counts requests, and documents in them, where Google's client sends them."""
    for name in ("begin_transaction", "commit", "rollback", "batch_get_documents", "run_query"):
        _count(name, getattr(FirestoreAsyncClient, name))


def _count(name: str, call: Callable[..., Any]) -> None:
    def counting(client: Any, request: Any = None, **how: Any) -> Any:
        counted["rpcs"] += 1
        given = request if isinstance(request, dict) else how.get("request") or request or {}
        counted["read"] += len(_of(given, "documents")) if name == "batch_get_documents" else 0
        counted["written"] += len(_of(given, "writes")) if name == "commit" else 0
        return call(client, request, **how)

    setattr(FirestoreAsyncClient, name, counting)


def _of(request: Any, name: str) -> Any:
    return request.get(name, ()) if isinstance(request, dict) else getattr(request, name)


async def measured(operation: Callable[[], Awaitable[object]], runs: int = RUNS) -> dict[str, float]:
    """Milliseconds (the median), requests, documents read and written of one operation."""
    milliseconds = []
    for _ in range(runs):
        counted.clear()
        start = time.perf_counter()
        await operation()
        milliseconds.append((time.perf_counter() - start) * 1000)
    spent = {name: counted[name] for name in ("rpcs", "read", "written")}
    return {"ms": round(statistics.median(milliseconds), 1), **spent}


class Session:
    """One conversation, one row a turn."""

    def __init__(self) -> None:
        self.store = FirestoreSessionStore(snapshot_path_prefix=lambda _context: "acme")
        self.messages: list[Any] = []
        self.newest: str | None = None

    async def save(self, *messages: Any) -> None:
        """One more row, with more messages."""
        self.messages = [*self.messages, *messages]
        row_id = str(uuid.uuid4())
        parent = {} if self.newest is None else {"parentId": self.newest}
        state = {"sessionId": SESSION, "messages": self.messages}
        row = {"snapshotId": row_id, "sessionId": SESSION, "status": "completed", "state": state, **parent}
        given = SessionSnapshot.model_validate({**row, "createdAt": "2026-01-01T00:00:00Z"})
        await self.store.save_snapshot(row_id, lambda _: given)
        self.newest = row_id


async def turns(given: dict[str, Any]) -> dict[str, Any]:
    """The conversation, its documents per turn, and single operations at its end."""
    session, documents = Session(), []
    for added in given["turns"]:
        counted.clear()
        await session.save(*added)
        documents.append(counted["read"] + counted["written"])
    load = await measured(lambda: session.store.get_snapshot(snapshot_id=session.newest))
    latest = await measured(lambda: session.store.get_snapshot(session_id=SESSION))
    return {"documents": documents, "load": load, "latest": latest, "metadata": latest, "newest": session.newest}


async def one_more(given: dict[str, Any]) -> dict[str, Any]:
    """One more row on a conversation that `turns` has written."""
    session = Session()
    session.newest, session.messages = given["newest"], [message for turn in given["turns"] for message in turn]
    return {"save": await measured(lambda: session.save(*given["turns"][0]), runs=1)}


async def big(given: dict[str, Any]) -> dict[str, Any]:
    """A large state: stored, read, and stored again with one more message."""
    session, content = Session(), "a word and another, " * 400
    messages = [{"role": "user", "content": [{"text": f"{n} {content}"}]} for n in range(given["size"] // 8100)]
    found = {}
    try:
        async with asyncio.timeout(given["patience"]):
            found["save"] = await measured(lambda: session.save(*messages), runs=1)
            found["load"] = await measured(lambda: session.store.get_snapshot(snapshot_id=session.newest), runs=1)
            found["append"] = await measured(lambda: session.save(messages[0]), runs=1)
    except Exception as error:  # whatever it fails with is what the benchmark tells
        return {**found, "error": f"{type(error).__name__}: {error}"[:300]}
    return found


async def increments(given: dict[str, Any]) -> dict[str, Any]:
    """As many tasks as asked for add one to the same row at once."""
    session = Session()
    await session.save()
    row_id = str(session.newest)

    def change(row: SessionSnapshot | None) -> SessionSnapshot | None:
        assert row is not None
        count = (row.error.details or {}).get("count", 0) if row.error else 0
        error = {"status": "INTERNAL", "message": "counting", "details": {"count": count + 1}}
        return SessionSnapshot.model_validate(row.model_dump(by_alias=True, exclude_none=True) | {"error": error})

    start = time.perf_counter()
    done = await asyncio.gather(
        *(session.store.save_snapshot(row_id, change) for _ in range(given["count"])), return_exceptions=True
    )
    seconds = time.perf_counter() - start
    return {"seconds": round(seconds, 2), "lost": sum(isinstance(each, Exception) for each in done)}


JOBS = {"turns": turns, "one more": one_more, "big": big, "increments": increments}

if __name__ == "__main__":
    count_calls()
    job = json.load(sys.stdin)
    print(json.dumps(asyncio.run(JOBS[job["job"]](job))))
