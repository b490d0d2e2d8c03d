"""What one operation of a store takes on the emulator, and what a conversation takes. Holds no test."""

import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from store.firestore.calls import Calls
from store.firestore.database import FirestoreDatabase
from store.firestore.store import FirestoreStore
from store.ids import mint_id
from store.models import Snapshot, SnapshotStatus
from store.state import Raw, State
from tests.benchmarks.conversation import SCOPE, Conversation, message
from tests.benchmarks.sizes import stored

RUNS = 5

Measured = dict[str, float]
"""Milliseconds (the median), requests, documents read and written."""


def new_project() -> str:
    """A project that nobody else uses."""
    return f"demo-{uuid.uuid4()}"


async def stored_bytes(project: str, host: str) -> int:
    """What all documents of a project take."""
    database = FirestoreDatabase(project, emulator_host=host)
    size = sum((await stored(database)).values())
    await database.close()
    return size


class Counted:
    """An instance that counts what it asks of Firestore."""

    def __init__(self, project: str, host: str, **options: Any) -> None:
        self.calls = Calls()
        self.store = FirestoreStore(project, emulator_host=host, calls=self.calls, **options)

    async def measure(self, operation: Callable[[], Awaitable[object]], runs: int = RUNS) -> Measured:
        """One operation, several times."""
        milliseconds = []
        for _ in range(runs):
            before, start = self.calls.snapshot(), time.perf_counter()
            await operation()
            milliseconds.append((time.perf_counter() - start) * 1000)
            spent = self.calls.since(before)
        counts = {"rpcs": spent.sent, "read": spent.read, "written": spent.written}
        return {"ms": round(statistics.median(milliseconds), 1), **counts}


@dataclass
class Talk:
    """A conversation of some turns on a project of its own, and what its operations take at its end."""

    bytes: int = 0
    documents: list[int] = field(default_factory=list)
    operations: dict[str, Measured] = field(default_factory=dict)


async def talk(host: str, texts: Sequence[str], *, measures: bool = True, **options: Any) -> Talk:
    """The conversation is held by one instance; another one, which knows nothing yet, is then measured."""
    found, project = Talk(), new_project()
    speaker = Counted(project, host, **options)
    conversation = Conversation(speaker.store)
    for text in texts:
        before = speaker.calls.snapshot()
        await conversation.say([text])
        spent = speaker.calls.since(before)
        found.documents.append(spent.read + spent.written)
    found.bytes = await stored_bytes(project, host)
    if measures:
        turn = await speaker.measure(lambda: conversation.say(texts[:1]), 2)  # the first may be a checkpoint
        cold = Counted(project, host, cache_size=0, **options)
        found.operations = {"turn": turn, **await operations_of(cold, conversation)}
        await cold.store.close()
    await speaker.store.close()
    return found


async def operations_of(cold: Counted, conversation: Conversation) -> dict[str, Measured]:
    """Reads of the newest row and of the session, and a save on the head, each without a cache."""
    store, session_id = cold.store, str(conversation.session_id)
    head = await store.get_latest_snapshot(SCOPE, session_id)
    assert head is not None
    assert head.state is not None
    added = Raw.of(message(mint_id(), "user", "One more."), depth=3)
    state = head.state.with_messages([*(head.state.messages or ()), added])
    row = Snapshot(session_id, parent_id=head.snapshot_id, state=state)
    return {
        "load": await cold.measure(lambda: store.get_snapshot(SCOPE, head.snapshot_id)),
        "latest": await cold.measure(lambda: store.get_latest_snapshot(SCOPE, session_id)),
        "metadata": await cold.measure(lambda: store.get_latest_snapshot_metadata(SCOPE, session_id)),
        # The last one: it becomes the head.
        "save": await cold.measure(lambda: store.save_snapshot(SCOPE, None, lambda _: row), 1),
    }


async def big(host: str, size: int) -> dict[str, Measured]:
    """A large state of prose: stored, read, and stored again with one more message."""
    counted, content = Counted(new_project(), host, cache_size=0), "a word and another, " * 400
    # Some bytes more than one message takes, so that the whole stays below the limit of a state's size.
    texts = [Raw.of(message(f"m{n}", "user", f"{n} {content}"), depth=3) for n in range(size // 8100)]
    state = State.of({}).with_messages(texts)
    root = Snapshot("big", "root", state=state)
    more = Snapshot("big", "more", parent_id="root", state=state.with_messages([*texts, texts[0]]))
    store = counted.store
    found = {
        "save": await counted.measure(lambda: store.save_snapshot(SCOPE, "root", lambda _: root), 1),
        "load": await counted.measure(lambda: store.get_snapshot(SCOPE, "root"), 1),
        "append": await counted.measure(lambda: store.save_snapshot(SCOPE, "more", lambda _: more), 1),
    }
    await store.close()
    return found


async def increments(host: str, count: int) -> tuple[float, int]:
    """As many tasks as asked for add one to the same row at once: seconds, and how many were lost."""
    store = FirestoreStore(new_project(), emulator_host=host)
    row = Snapshot("session", "row", status=SnapshotStatus.PENDING, state=State.of({"custom": 0}))
    await store.save_snapshot(SCOPE, "row", lambda _: row)
    start = time.perf_counter()
    await asyncio.gather(*(store.save_snapshot(SCOPE, "row", _plus_one) for _ in range(count)))
    seconds = time.perf_counter() - start
    saved = await store.get_snapshot(SCOPE, "row")
    await store.close()
    assert saved is not None
    assert saved.state is not None
    return round(seconds, 2), count - int(saved.state.get("custom"))


def _plus_one(row: Snapshot | None) -> Snapshot:
    assert row is not None
    assert row.state is not None
    state = row.state.with_member("custom", Raw.of(row.state.get("custom") + 1))
    return Snapshot(row.session_id, row.snapshot_id, status=row.status, state=state, created_at=row.created_at)
