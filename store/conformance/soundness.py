"""Whether raw documents keep what must always hold, as a list of complaints. Holds no test; knows no operation."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Protocol

from store.conformance.capabilities import Capability
from store.conformance.harness import Store
from store.database import Database, Document, Kind, Path, Query
from store.documents.settlements import REQUEST_FIELDS
from store.errors import StoreError
from store.layout.records import LEASE_FIELDS, Record, read_record
from store.layout.rows import Row, read_row
from store.models import Scope, Snapshot
from store.rules.history import messages_of
from store.state import State


class Inspected(Protocol):
    """What is looked at: the documents, and a way to open a store on them."""

    @property
    def capabilities(self) -> Set[Capability]:
        """What is declared."""

    @property
    def database(self) -> Database:
        """The raw documents."""

    def open(self, **options: Any) -> Store:
        """Another instance."""


async def complaints(stores: Inspected) -> list[str]:
    """What is wrong with the documents."""
    database, cold = stores.database, stores.open(cache_size=0)
    records = [read_record(document) for document in await documents_of(database, Kind.POINTERS)]
    rows = [read_row(document) for document in await documents_of(database, Kind.SNAPSHOTS)]
    shards = {document.path for document in await documents_of(database, Kind.SHARDS)}
    found = [complaint for record in records for complaint in _about_session(record, _rows_of(record, rows))]
    found += _homeless(records, rows)
    found += [complaint for row in rows for complaint in _about_row(row)]
    found += _about_shards(rows, shards)
    for record in records:
        found += await _about_states(cold, record, _rows_of(record, rows))
    return found


async def documents_of(database: Database, kind: Kind) -> Sequence[Document]:
    """All documents of one kind, of all tenants."""
    return (await database.query(Query(kind, None, ()))).documents


async def raw(database: Database, path: Path) -> Mapping[str, object]:
    """The fields of one document, which must be there."""
    document = (await database.get([path])).documents[path]
    assert document is not None, f"{path} is missing"
    return document.fields


def _rows_of(record: Record, rows: Sequence[Row]) -> list[Row]:
    place = (record.document.path.tenant, record.session.id)
    return [row for row in rows if (row.document.path.tenant, row.snapshot.session_id) == place]


def _about_session(record: Record, rows: Sequence[Row]) -> list[str]:
    """Rule 2 (a row runs exactly when its session names it), and recency."""
    found = []
    running = {row.snapshot.snapshot_id for row in rows if not row.snapshot.status.is_terminal}
    named = {record.session.active_snapshot_id} - {None}
    if running != named:
        found.append(f"{record.name} names {named} as its turn, but {running} run")
    if not named and set(LEASE_FIELDS) & set(record.document.fields):
        found.append(f"{record.name} keeps fields of a lease that it does not have")
    latest = max(rows, key=lambda row: (row.snapshot.created_at, row.snapshot.snapshot_id), default=None)
    if record.current_snapshot_id != (latest and latest.snapshot.snapshot_id):
        found.append(f"{record.name} names {record.current_snapshot_id} as its latest row, but it is {latest}")
    return found


def _homeless(records: Sequence[Record], rows: Sequence[Row]) -> list[str]:
    homes = {(record.document.path.tenant, record.session.id) for record in records}
    return [
        f"{row.name} has no session" for row in rows if (row.document.path.tenant, row.snapshot.session_id) not in homes
    ]


def _about_row(row: Row) -> list[str]:
    """A settled row says by whom, and lets go of what only a running one needs."""
    if not row.snapshot.status.is_terminal:
        return []
    left = set(REQUEST_FIELDS) & set(row.document.fields)
    found = [f"{row.name} is settled and keeps {left}"] if left else []
    return found if row.settled_by else [*found, f"{row.name} is settled by nobody"]


def _about_shards(rows: Sequence[Row], stored: set[Path]) -> list[str]:
    """Every shard that a row needs is there, and none that nobody needs."""
    needed = {
        Path(Kind.SHARDS, row.document.path.tenant, shard_id)
        for row in rows
        for shard_id in [*(row.chain.shards if row.chain else ()), *row.request_shards]
    }
    missing = [f"{path} is needed and missing" for path in needed - stored]
    return missing + [f"{path} is there for nobody" for path in stored - needed]


async def _about_states(cold: Store, record: Record, rows: Sequence[Row]) -> list[str]:
    """Every row's state can be put together, and the session's copy of the head is the same as its row."""
    if record.session.expires_at is not None:
        return []
    scope = Scope(record.document.path.tenant, record.session.owner_id)
    try:
        snapshots = [await cold.get_snapshot(scope, row.snapshot.snapshot_id) for row in rows]
        transcript = await cold.get_transcript(scope, record.session.id)
    except StoreError as error:
        return [f"{record.name}: {error.code}: {error.message}"]
    assert transcript is not None
    head_id = record.session.head_snapshot_id
    head = next((snapshot for snapshot in snapshots if snapshot and snapshot.snapshot_id == head_id), None)
    return _about_head(record, head, transcript.state)


def _about_head(record: Record, head: Snapshot | None, copied: State | None) -> list[str]:
    if head is None or record.head is None:
        return [] if record.head is None and copied is None else [f"{record.name} names a head that is not there"]
    found = [] if copied == head.state else [f"{record.name} copies another state than its head's"]
    if replace(head, state=None) != record.head.snapshot:
        found.append(f"{record.name} says of its head {record.head.snapshot}, the row {head}")
    messages = messages_of(head.state)
    told = (record.session.message_count, record.session.last_message_id)
    if told != (len(messages), messages[-1].key if messages else None):
        found.append(f"{record.name} counts its messages wrong: {told}")
    return found
