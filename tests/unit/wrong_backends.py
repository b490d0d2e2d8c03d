"""Stores that each break one rule of the design, for the suite to be tested on. Holds no test."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from store.conformance.claims import ClaimCases
from store.conformance.damage import DamageCases
from store.conformance.fidelity import FidelityCases
from store.conformance.latest import LatestCases
from store.conformance.leases import LeaseCases
from store.conformance.races import RaceCases
from store.conformance.saves import SaveCases
from store.conformance.scopes import ScopeCases
from store.conformance.settles import SettleCases
from store.conformance.subscriptions import SubscriptionCases
from store.database import SERVER_TIME, Committed, Database, Delete, Query, Read, Update, Write
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import DataLossError
from store.memory.database import MemoryDatabase
from store.models import Change, Claim, Lease, SameSend, Scope, Snapshot
from store.state import State
from tests.contract.stores import MemoryStores


class Passing:
    """A database that passes everything on; its subclasses do one thing otherwise."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)


class LeaseStays(Passing):
    """A row that ends leaves its session claimed."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        return await self.database.commit([self._kept(write) for write in writes])

    def _kept(self, write: Write) -> Write:
        return replace(write, remove=()) if isinstance(write, Update) and "activeSnapshotId" in write.remove else write


class NoPreconditions(Passing):
    """Whoever comes last wins."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        blind = [replace(write, update_time=None) if isinstance(write, Update | Delete) else write for write in writes]
        return await self.database.commit(blind)


class HalfCommits(Passing):
    """A commit of several documents stores each by itself."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        answers = [await self.database.commit([write]) for write in writes]
        times = tuple(answer.update_times[0] for answer in answers)
        return Committed(times, answers[-1].server_time)


class SlowClock(Passing):
    """Reads are of a time long before the one that heartbeats get: no lease is ever old."""

    async def get(self, *paths: Any, **keywords: Any) -> Read:
        keywords["at"] = None
        read = await self.database.get(*paths, **keywords)
        return Read(read.documents, read.time - timedelta(days=1))


class BeatsTouchTheUpdate(Passing):
    """A heartbeat counts as a change of the row."""

    async def write_each(self, writes: Sequence[Write]) -> Any:
        touching = [
            replace(write, fields={**write.fields, "updatedAt": SERVER_TIME}) if isinstance(write, Update) else write
            for write in writes
        ]
        return await self.database.write_each(touching)


class OneTenant(Passing):
    """All tenants share their documents."""

    async def get(self, paths: Any, **keywords: Any) -> Read:
        renamed = {path._replace(tenant="all"): path for path in paths}
        read = await self.database.get(list(renamed), **keywords)
        documents = {
            renamed[path]: document and replace(document, path=renamed[path])
            for path, document in read.documents.items()
        }
        return Read(documents, read.time)

    async def commit(self, writes: Sequence[Write]) -> Committed:
        shared = [replace(write, path=write.path._replace(tenant="all")) for write in writes]
        return await self.database.commit(shared)

    async def query(self, query: Query) -> Any:
        return await self.database.query(replace(query, tenant="all"))


class NoWatches(Passing):
    """A watch delivers what is there at first, and no change."""

    def watch(self, target: Any) -> Any:
        return MemoryDatabase().watch(target)


class LateRows(DocumentStore):
    """A turn is a row only once it is settled: the latest row is an older one until then."""

    async def get_latest_snapshot(self, scope: Scope, session_id: str) -> Snapshot | None:
        page = await self.list_snapshots(scope, session_id, 100)
        ended = [row for row in page.snapshots if row.status.is_terminal]
        return await self.get_snapshot(scope, ended[-1].snapshot_id) if ended else None


class LastWriteIsLatest(DocumentStore):
    """The latest row is the one that was written last, however old it is."""

    written: dict[str, str]

    async def save_snapshot(self, scope: Scope, snapshot_id: str | None, change: Change) -> Snapshot | None:
        saved = await super().save_snapshot(scope, snapshot_id, change)
        if saved is not None:
            LastWriteIsLatest.written = {saved.session_id: saved.snapshot_id}
        return saved

    async def get_latest_snapshot(self, scope: Scope, session_id: str) -> Snapshot | None:
        row_id = self.written.get(session_id)
        return (
            await self.get_snapshot(scope, row_id) if row_id else await super().get_latest_snapshot(scope, session_id)
        )


class LossIsAbsence(DocumentStore):
    """What cannot be read is missing."""

    async def get_snapshot(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        try:
            return await super().get_snapshot(scope, snapshot_id)
        except DataLossError:
            return None


class NoneWrites(DocumentStore):
    """A change that gives None rewrites the row."""

    async def save_snapshot(self, scope: Scope, snapshot_id: str | None, change: Change) -> Snapshot | None:
        def written(row: Snapshot | None) -> Snapshot | None:
            given = change(row)
            return replace(row, updated_at=None) if given is None and row is not None else given

        return await super().save_snapshot(scope, snapshot_id, written)


class SortsKeys(DocumentStore):
    """States are stored as another JSON library would write them."""

    async def save_snapshot(self, scope: Scope, snapshot_id: str | None, change: Change) -> Snapshot | None:
        def sorted_keys(row: Snapshot | None) -> Snapshot | None:
            given = change(row)
            if given is None or given.state is None:
                return given
            return replace(given, state=State.of(json.loads(json.dumps(given.state.value(), sort_keys=True))))

        return await super().save_snapshot(scope, snapshot_id, sorted_keys)


class ForgetsClaims(DocumentStore):
    """A claim that is repeated, as after a lost answer, is taken for another one."""

    async def claim_turn(self, scope: Scope, claim: Claim) -> Lease | SameSend:
        return await super().claim_turn(scope, replace(claim, attempt=f"{claim.attempt}{id(object())}"))


class ManyOwners(DocumentStore):
    """Whoever is of the tenant may read everything."""

    async def get_snapshot(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        for user in (scope.user, "ann", "bob"):
            found = await super().get_snapshot(Scope(scope.tenant, user), snapshot_id)
            if found is not None:
                return found
        return None


CAUGHT_BY: dict[type[Passing] | type[DocumentStore], type] = {
    LateRows: LatestCases,  # rule 1: a turn is a row from its first moment
    LeaseStays: SettleCases,  # rule 2: a row and its lease end together
    HalfCommits: RaceCases,
    NoPreconditions: RaceCases,  # rule 3: a refused commit is a question
    ForgetsClaims: ClaimCases,
    SlowClock: LeaseCases,  # rule 4: ages are the database's
    BeatsTouchTheUpdate: LeaseCases,  # rule 6: heartbeats touch nothing else
    LastWriteIsLatest: LatestCases,  # rule 7: recency is by creation
    LossIsAbsence: DamageCases,  # rule 8: corruption is never absence
    NoneWrites: SaveCases,  # rule 9: None writes nothing
    OneTenant: ScopeCases,  # rule 10: tenancy fails closed
    ManyOwners: ScopeCases,
    SortsKeys: FidelityCases,  # rule 11: what is stored is what was given
    NoWatches: SubscriptionCases,
}
"""Each with the cases that have to catch it; the whole suite does too, but takes longer."""


class WrongStores(MemoryStores):
    """The memory harness with one thing wrong."""

    def __init__(self, wrong: type[Passing] | type[DocumentStore]) -> None:
        super().__init__()
        self._make = wrong if issubclass(wrong, DocumentStore) else DocumentStore
        self._shared: Any = self.database if issubclass(wrong, DocumentStore) else wrong(self.database)

    def open(self, **options: Any) -> DocumentStore:
        """Another instance."""
        return self._opened(self._make(Shelf(self._shared, Options(**options))))
