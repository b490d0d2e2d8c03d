"""What a backend has to offer: documents, preconditioned commits, a few queries, and watching.

Everything that knows what a session *is* lives above this line, once, in `store.documents`; a backend knows documents
only. The semantics are Firestore's, reduced to what we use:

* a commit is atomic; every write may carry a precondition, and one that fails refuses the whole commit;
* every document has an update time, which changes with every write that changes the document;
* SERVER_TIME in a field becomes one time of the database for the whole commit;
* all documents of one read are of one moment, its `time`.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, final

from store.errors import DataLossError

Value: TypeAlias = Any  # None | bool | int | str | bytes | datetime | list[Value] | dict[str, Value]
Fields: TypeAlias = Mapping[str, Value]


class Kind(StrEnum):
    """The six kinds of documents; the value is the inner collection's name."""

    SNAPSHOTS = "snapshots"
    SHARDS = "shards"
    POINTERS = "pointers"
    STREAMS = "streams"
    BLOBS = "blobs"
    SETTINGS = "settings"

    @property
    def suffix(self) -> str:
        """What is appended to the configured collection's name."""
        return "" if self is Kind.SNAPSHOTS else f"-{self.value}"


class Path(NamedTuple):
    """Where a document lies: `{collection}{kind.suffix}/{tenant}/{kind}/{id}`."""

    kind: Kind
    tenant: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.tenant}/{self.id}"


@final
class ServerTime:
    """The type of SERVER_TIME."""

    def __repr__(self) -> str:
        return "SERVER_TIME"


SERVER_TIME: Final = ServerTime()
"""As a field's value in a write: the database's time of the commit."""


@dataclass(frozen=True, slots=True)
class Document:
    """One stored document as it was at its update time; `fields` holds the masked ones only where a mask was given."""

    path: Path
    fields: Fields
    update_time: datetime


@dataclass(frozen=True, slots=True)
class Create:
    """Refused where the document exists."""

    path: Path
    fields: Fields


@dataclass(frozen=True, slots=True)
class Put:
    """Replaces the whole document, unconditionally."""

    path: Path
    fields: Fields


@dataclass(frozen=True, slots=True)
class Update:
    """Sets top-level `fields` whole, removes others, appends to arrays (a value that is there already is not added
    again). Refused where the document is missing or, with `update_time`, was written since."""

    path: Path
    fields: Fields = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    append: Mapping[str, list[Value]] = field(default_factory=dict)
    update_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """With `update_time`: refused where the document is missing or was written since. Without: always works."""

    path: Path
    update_time: datetime | None = None


Write: TypeAlias = Create | Put | Update | Delete


class Read(NamedTuple):
    """Documents by path (None = missing), all as of `time`."""

    documents: Mapping[Path, Document | None]
    time: datetime


class Found(NamedTuple):
    """A query's documents in order, all as of `time`."""

    documents: list[Document]
    time: datetime


class Committed(NamedTuple):
    """`update_times` has one entry per write (None for a delete); `server_time` is what SERVER_TIME became, or the
    commit's own time where no write used it."""

    update_times: tuple[datetime | None, ...]
    server_time: datetime


class Condition(NamedTuple):
    """`field op value`, with op one of `==`, `<`, `<=`, `>`, `>=`."""

    field: str
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class Query:
    """Documents of one kind, of one tenant or (tenant None) of all. `order` holds (field, descending) and always ends,
    implicitly, with the document's id in the direction of the last entry; `start_after` holds one value per entry of
    `order`, and the id. `on_damage` is given the error of a document that cannot be read, which then is left out;
    without it the query fails. Called from any thread, perhaps several times for one document."""

    kind: Kind
    tenant: str | None
    where: tuple[Condition, ...]
    order: tuple[tuple[str, bool], ...] = ()
    start_after: tuple[Value, ...] | None = None
    limit: int | None = None
    mask: tuple[str, ...] | None = None
    on_damage: Callable[[DataLossError], None] | None = field(default=None, compare=False)


class CommitRefusedError(Exception):
    """A precondition failed; nothing was written. After a lost answer this may be our own commit's echo."""


class CommitUnansweredError(Exception):
    """The database was unavailable, too slow or contended: the commit may or may not have landed."""


class Database(Protocol):
    """One collection's documents. Used from one event loop; makes its connections at first use."""

    async def get(
        self, paths: Sequence[Path], *, mask: Sequence[str] | None = None, at: datetime | None = None
    ) -> Read:
        """All `paths` in one round trip, as of `at` or now. Repeats by itself; UnavailableError within 5 seconds."""

    async def query(self, query: Query) -> Found:
        """One round trip. Repeats by itself; UnavailableError within 5 seconds."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        """One atomic commit, sent once: CommitRefusedError or CommitUnansweredError."""

    async def write_each(self, writes: Sequence[Write]) -> list[datetime | None]:
        """Independent writes in one round trip: each one's update time, or None where it was refused. Sent once:
        CommitUnansweredError."""

    def watch(self, target: Path | Query) -> AbstractAsyncContextManager[AsyncIterator[list[Document | None]]]:
        """Deliveries of state, not of events: the current documents first ([None] for a missing path, [] for an empty
        query), then what changed. A path that vanishes is delivered as [None]. Deliveries may be merged; the last state
        always arrives while the database can be reached."""

    async def close(self) -> None:
        """Frees connections, tasks and threads; open watches end."""
