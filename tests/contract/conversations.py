"""What tests of transcripts say: the conformance suite's own conversations, and stores whose commits meet faults."""

from collections.abc import Sequence
from typing import Any

from store.conformance.conversations import (
    MODEL,
    TOOL,
    Documents,
    add,
    asking_turn,
    compact,
    compaction,
    conversation,
    documents,
    empty_session,
    extended,
    ids,
    kept,
    noise,
    of_session,
    opened,
    parts,
    plain_turn,
    request,
    response,
    state_of_head,
    taken,
    texts,
    tool_turn,
)
from store.database import Database, Path, Write
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from tests.properties.faulty_database import Fault, FaultyDatabase, LateWrite

__all__ = [
    "MODEL",
    "TOOL",
    "Documents",
    "Faults",
    "add",
    "asking_turn",
    "compact",
    "compaction",
    "conversation",
    "documents",
    "empty_session",
    "extended",
    "faulty_store",
    "ids",
    "kept",
    "noise",
    "of_session",
    "opened",
    "parts",
    "plain_turn",
    "request",
    "response",
    "state_of_head",
    "taken",
    "texts",
    "tool_turn",
]


class Faults:
    """A gate that lets the next commits meet these faults, one each. A late one lands before the next call that begins
    like `landing`: a read of the session, or the commit of the next try."""

    def __init__(self, faults: Sequence[Fault], landing: str) -> None:
        self._faults = list(faults)
        self._landing = landing
        self._late: list[LateWrite] = []

    async def before(self, call: str, faults: tuple[Fault, ...]) -> Fault:
        """The fault of this call."""
        if call.startswith(self._landing):
            while self._late:
                await self._late.pop().land()
        is_write = Fault.LATE in faults
        return self._faults.pop(0) if is_write and self._faults else Fault.NONE

    async def contend(self, paths: Sequence[Path]) -> None:
        """Nobody else is there."""

    async def landed(self, writes: Sequence[Write]) -> None:
        """Not of interest."""

    async def answering(self, call: str) -> None:
        """Not of interest."""

    def keep(self, late: LateWrite) -> None:
        """Until it lands."""
        self._late.append(late)


def faulty_store(
    database: Database, faults: Sequence[Fault], *, landing: str = "get pointer", **options: Any
) -> DocumentStore:
    """An instance of its own whose commits meet these faults."""
    return DocumentStore(Shelf(FaultyDatabase(database, Faults(faults, landing)), Options(**options)))
