"""The store for tests and single-process experiments: everything is gone with the process."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.local.values import utc_now
from store.memory.database import MemoryDatabase


class MemoryStore(DocumentStore):
    """`options` are the keywords of `store.documents.shelf.Options`; a wrong one is refused by name."""

    def __init__(self, *, clock: Callable[[], datetime] = utc_now, **options: Any) -> None:
        super().__init__(Shelf(MemoryDatabase(clock=clock), Options(**options)))
