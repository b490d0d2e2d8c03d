"""Reading all documents once, tenant by tenant: a check holds one tenant's documents in memory, never all."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime

from store.database import Database, Document, Kind, Path, Query
from store.errors import DataLossError

CHECKED = (Kind.POINTERS, Kind.SNAPSHOTS, Kind.SHARDS, Kind.STREAMS, Kind.BLOBS)
_PAGE = {Kind.POINTERS: 100, Kind.SNAPSHOTS: 200, Kind.SHARDS: 60, Kind.STREAMS: 500, Kind.BLOBS: 500}
_MASK = dict.fromkeys((Kind.STREAMS, Kind.BLOBS), ("formatVersion", "sessionId"))


@dataclass(slots=True)
class TenantDocuments:
    """One tenant's documents, by kind. `time` is when the first of them were read."""

    tenant: str
    time: datetime
    documents: dict[Kind, list[Document]] = field(default_factory=lambda: {kind: [] for kind in CHECKED})


class Scan:
    """Reads pages of every kind side by side, in the order of tenants and ids, each document once."""

    def __init__(
        self,
        database: Database,
        tenant: str | None,
        on_read: Callable[[Kind, int], None],
        on_damage: Callable[[DataLossError], None],
    ) -> None:
        self._database = database
        self._tenant = tenant
        self._on_read = on_read
        self._on_damage = on_damage

    async def tenants(self) -> AsyncIterator[TenantDocuments]:
        """Every tenant's documents, one tenant after another."""
        streams = {kind: _Stream(self._documents(kind)) for kind in CHECKED}
        for stream in streams.values():
            await stream.advance()
        while waiting := [stream.first for stream in streams.values() if stream.first is not None]:
            tenant = min(document.path.tenant for document, _ in waiting)
            found = TenantDocuments(tenant, min(time for _, time in waiting))
            for kind, stream in streams.items():
                while stream.first is not None and stream.first[0].path.tenant == tenant:
                    found.documents[kind].append(stream.first[0])
                    await stream.advance()
            yield found

    async def _documents(self, kind: Kind) -> AsyncIterator[tuple[Document, datetime]]:
        last: Path | None = None
        while True:
            query = Query(
                kind,
                self._tenant,
                (),
                start_after=None if last is None else (last,),
                limit=_PAGE[kind],
                mask=_MASK.get(kind),
                on_damage=self._on_damage,
            )
            found = await self._database.query(query)
            self._on_read(kind, len(found.documents))
            for document in found.documents:
                yield document, found.time
            if len(found.documents) < _PAGE[kind]:
                return
            last = found.documents[-1].path


class _Stream:
    """A stream of documents whose next one can be looked at."""

    def __init__(self, documents: AsyncIterator[tuple[Document, datetime]]) -> None:
        self._documents = documents
        self.first: tuple[Document, datetime] | None = None

    async def advance(self) -> None:
        """Takes the first one off."""
        self.first = await anext(self._documents, None)
