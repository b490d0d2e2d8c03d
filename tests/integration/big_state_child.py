"""Works on one large state in a process of its own, and says what memory that took. Run by the tests; holds none.

    python -m tests.integration.big_state_child HOST PROJECT STEP MEBIBYTES

Prints a JSON object: seconds, and the growth of the largest resident set in bytes, from before the state was there.
"""

import asyncio
import base64
import json
import random
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from store.documents.store import DocumentStore
from store.firestore.store import FirestoreStore
from store.models import Scope, Snapshot
from store.state import Raw, State

SCOPE = Scope("acme", "ann")
SESSION, ROOT, NEXT = "big", "root", "next"
_MESSAGE = 49_152  # bytes of random content; as text it is a third longer


def big_state(mebibytes: int) -> State:
    """A state of that size, of text that compresses as little as text can, with an emoji in every message."""
    return State.of({}).with_messages(_messages(mebibytes << 20))


def _messages(size: int) -> Iterator[Raw]:
    source = random.Random(7)
    for number in range(size // (_MESSAGE * 4 // 3 + 80)):
        text = base64.b64encode(source.randbytes(_MESSAGE)).decode()
        yield Raw.of({"id": f"m{number}", "role": "user", "content": [{"text": f"🙂{text}"}]}, depth=3)


def grown(state: State) -> State:
    """One more message, and another one in the middle changed."""
    messages = list(state.messages or ())
    middle = len(messages) // 2
    changed = {"id": messages[middle].key, "role": "user", "content": [{"text": "changed"}]}
    messages[middle] = Raw.of(changed, depth=3)
    return state.with_messages([*messages, Raw.of({"id": "new", "role": "user", "content": [{"text": "more"}]}, 3)])


async def save(store: DocumentStore, mebibytes: int) -> None:
    """Stores the state as a checkpoint."""
    row = Snapshot(SESSION, state=big_state(mebibytes))
    await store.save_snapshot(SCOPE, ROOT, lambda _: row)


async def load(store: DocumentStore, mebibytes: int) -> None:
    """Reads it, and compares it with what it has to be."""
    loaded = await store.get_snapshot(SCOPE, ROOT)
    assert loaded is not None
    assert loaded.state is not None
    assert loaded.state.size > (mebibytes << 20) * 0.99


async def diff(store: DocumentStore, _mebibytes: int) -> None:
    """Reads it, changes a little, and stores that as a diff."""
    loaded = await store.get_snapshot(SCOPE, ROOT)
    assert loaded is not None
    assert loaded.state is not None
    row = Snapshot(SESSION, parent_id=ROOT, state=grown(loaded.state))
    await store.save_snapshot(SCOPE, NEXT, lambda _: row)


STEPS: dict[str, Callable[[DocumentStore, int], Awaitable[None]]] = {"save": save, "load": load, "diff": diff}


def resident() -> int:
    """Bytes of the largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(host: str, project: str, step: str, mebibytes: int) -> None:
    store = FirestoreStore(project, emulator_host=host)
    await store.get_session(SCOPE, "nothing")  # the connection is made, and counts as having been there before
    before, start = resident(), time.perf_counter()
    await STEPS[step](store, mebibytes)
    seconds, peak = time.perf_counter() - start, resident() - before
    await store.close()
    print(json.dumps({"seconds": round(seconds, 2), "peak": peak}))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
