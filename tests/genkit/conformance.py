"""Run by a test, with Genkit's packages: Genkit's own suite of its agents, with our store in the place of theirs.

Takes the kind of store and the folder of Genkit's sources as arguments, then pytest's. The suite makes its stores
itself, so ours takes the name before the suite is imported.
"""

import os
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from genkit._ai._agents._session_stores import _inmemory_store

from store.adapters.genkit import FollowedStore, GenkitSessionStore
from store.models import Scope


def made_store(kind: str) -> FollowedStore:
    """A store that nobody else uses."""
    if kind == "memory":
        from store.memory.store import MemoryStore

        return MemoryStore()
    from store.firestore.store import FirestoreStore

    return FirestoreStore(f"demo-{uuid.uuid4()}", emulator_host=os.environ["FIRESTORE_EMULATOR_HOST"])


def main(kind: str, sources: Path, *arguments: str) -> int:
    """Pytest's verdict."""

    class OurStore(GenkitSessionStore):
        """What the suite takes for Genkit's store in memory."""

        made = 0

        def __init__(self, **_options: Any) -> None:
            super().__init__(made_store(kind), Scope("acme", "ann"))
            OurStore.made += 1

    _inmemory_store.InMemorySessionStore = OurStore
    suite = sources / "tests" / "genkit" / "ai" / "agent_conformance_test.py"
    options = ["-o", "asyncio_mode=auto", "-p", "no:cacheprovider", "-q", "--rootdir", str(sources)]
    verdict = pytest.main([*options, *arguments, str(suite)])
    print(f"{OurStore.made} stores of ours were made")
    return int(verdict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
