"""Stores that each break one promise, for the suite to be tested on: which, and which cases have to catch it. Holds no
test."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from store.adapters.own_ids import OwnIds
from store.conformance.capability_cases import CapabilityCases
from store.conformance.claims import ClaimCases
from store.conformance.damage import DamageCases
from store.conformance.database_commits import CommitCases
from store.conformance.database_moments import MomentCases
from store.conformance.database_queries import QueryCases
from store.conformance.database_reads import ReadCases
from store.conformance.database_watches import WatchCases
from store.conformance.deletes import DeleteCases
from store.conformance.erasures import ErasureCases
from store.conformance.event_logs import EventLogCases
from store.conformance.fidelity import FidelityCases
from store.conformance.latest import LatestCases
from store.conformance.leases import LeaseCases
from store.conformance.queues import QueueCases
from store.conformance.races import RaceCases
from store.conformance.saves import SaveCases
from store.conformance.scopes import ScopeCases
from store.conformance.session_ids import SessionIdCases
from store.conformance.settles import SettleCases
from store.conformance.subscriptions import SubscriptionCases
from store.conformance.sweeps import SweepCases
from store.conformance.torn_reads import TornReadCases
from store.conformance.trees import TreeCases
from store.conformance.truncates import TruncateCases
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import DataLossError, SessionExistsError, SessionNotFoundError
from store.ids import mint_id
from store.models import (
    Adopted,
    Adoption,
    Change,
    Claim,
    Lease,
    NewSession,
    SameSend,
    Scope,
    Segment,
    Session,
    Snapshot,
    SnapshotPage,
    SweepReport,
)
from store.state import State
from tests.contract.stores import MemoryStores, OwnIdsStores
from tests.unit.wrong_databases import (
    BeatsTouchTheUpdate,
    HalfCommits,
    IgnoresMoments,
    KeepsLogs,
    LateBeats,
    LeaseStays,
    NoPreconditions,
    NoWatches,
    OneTenant,
    Passing,
    ReadsOneByOne,
    SlowClock,
    Unordered,
)


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

    seen: set[str] = set()  # noqa: RUF012  # shared by all instances, as a wrong database would be

    async def claim_turn(self, scope: Scope, claim: Claim) -> Lease | SameSend:
        if claim.snapshot_id in self.seen:
            claim = replace(claim, snapshot_id=mint_id(), attempt=mint_id())
        self.seen.add(claim.snapshot_id)
        return await super().claim_turn(scope, claim)


class ManyOwners(DocumentStore):
    """Whoever is of the tenant may read everything."""

    async def get_snapshot(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        for user in (scope.user, "ann", "bob"):
            found = await super().get_snapshot(Scope(scope.tenant, user), snapshot_id)
            if found is not None:
                return found
        return None


class TellsWhatOthersHave(DocumentStore):
    """An id that another user has is refused as taken, which tells that it is."""

    async def create_session(
        self, scope: Scope, session_id: str | None, new: NewSession, custom: State | None = None
    ) -> Session:
        try:
            return await super().create_session(scope, session_id, new, custom)
        except SessionNotFoundError as refused:
            raise SessionExistsError(refused.session_id) from refused


class TakesNames(OwnIds):
    """Each user has ids of their own, until another one makes a session of the same name."""

    async def create_session(
        self, scope: Scope, session_id: str | None, new: NewSession, custom: State | None = None
    ) -> Session:
        for other in {"ann", "bob"} - {scope.user}:
            with suppress(SessionNotFoundError):
                await self.delete_session(Scope(scope.tenant, other), str(session_id))
        return await super().create_session(scope, session_id, new, custom)


class AnyTenant(DocumentStore):
    """Whatever is given is a tenant."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(replace(shelf, check_tenant=str))


class NeverPrunes(DocumentStore):
    """Says that it keeps chains short, and does not."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(replace(shelf, options=replace(shelf.options, max_persisted_chain_length=None)))


class DeletesByPrefix(DocumentStore):
    """A deleted session takes those with it whose ids begin alike."""

    async def delete_session(self, scope: Scope, session_id: str) -> None:
        await super().delete_session(scope, session_id)
        for session in (await self.list_sessions(scope, 100)).sessions:
            if session.id.startswith(session_id):
                await super().delete_session(scope, session.id)


class IgnoresTails(DocumentStore):
    """A transcript is cut whatever its caller knows of it."""

    async def truncate(
        self, scope: Scope, session_id: str, message_id: str, expected_tail: str | None = None
    ) -> Session:
        return await super().truncate(scope, session_id, message_id)


class NewestFirst(DocumentStore):
    """The tree begins with its leaves."""

    async def list_snapshots(
        self, scope: Scope, session_id: str, limit: int, cursor: str | None = None
    ) -> SnapshotPage:
        page = await super().list_snapshots(scope, session_id, limit, cursor)
        return replace(page, snapshots=page.snapshots[::-1])


class AdoptsAgain(DocumentStore):
    """A turn that was delivered twice runs twice."""

    adopted: dict[str, Adopted] = {}  # noqa: RUF012  # shared by all instances, as a wrong database would be

    async def adopt_turn(self, scope: Scope, snapshot_id: str, runner: str, attempt: str) -> Adopted | Adoption:
        answer = await super().adopt_turn(scope, snapshot_id, runner, attempt)
        if isinstance(answer, Adopted):
            self.adopted[snapshot_id] = answer
        return self.adopted.get(snapshot_id, answer)


class SegmentsByName(DocumentStore):
    """The tenth segment comes after the first."""

    async def read_segments(self, scope: Scope, snapshot_id: str) -> list[Segment]:
        return sorted(await super().read_segments(scope, snapshot_id), key=lambda segment: str(segment.index))


class SweepsInEarnest(DocumentStore):
    """A dry run deletes."""

    async def sweep(self, limit: int = 500, *, dry_run: bool = False) -> SweepReport:
        return await super().sweep(limit)


class ErasesTheTenant(DocumentStore):
    """Of others too what goes is what one user asked for."""

    async def erase_user(self, scope: Scope, most: int = 500) -> bool:
        await super().erase_user(Scope(scope.tenant, "bob"), most)
        return await super().erase_user(scope, most)


class Wrong(NamedTuple):
    """A wrong backend, the cases that have to catch it, and the rule of docs/design.md that it breaks; None for what
    the contract promises besides. The whole suite catches it too, but takes longer."""

    backend: type[Passing] | type[DocumentStore]
    cases: type
    rule: int | None = None


WRONG_STORES = [
    Wrong(LateRows, LatestCases, 1),
    Wrong(LeaseStays, SettleCases, 2),
    Wrong(HalfCommits, RaceCases, 2),
    Wrong(NoPreconditions, RaceCases, 2),
    Wrong(ForgetsClaims, ClaimCases, 3),
    Wrong(SlowClock, LeaseCases, 4),
    Wrong(LateBeats, RaceCases, 5),
    Wrong(BeatsTouchTheUpdate, LeaseCases, 6),
    Wrong(LastWriteIsLatest, LatestCases, 7),
    Wrong(LossIsAbsence, DamageCases, 8),
    Wrong(IgnoresMoments, TornReadCases, 8),
    Wrong(NoneWrites, SaveCases, 9),
    Wrong(OneTenant, ScopeCases, 10),
    Wrong(ManyOwners, ScopeCases, 10),
    Wrong(AnyTenant, ScopeCases, 10),
    Wrong(TellsWhatOthersHave, SessionIdCases, 10),
    Wrong(SortsKeys, FidelityCases, 11),
    Wrong(NoWatches, SubscriptionCases),
    Wrong(NeverPrunes, CapabilityCases),
    Wrong(DeletesByPrefix, DeleteCases),
    Wrong(KeepsLogs, DeleteCases),
    Wrong(IgnoresTails, TruncateCases),
    Wrong(NewestFirst, TreeCases),
    Wrong(AdoptsAgain, QueueCases),
    Wrong(SegmentsByName, EventLogCases),
    Wrong(SweepsInEarnest, SweepCases),
    Wrong(ErasesTheTenant, ErasureCases),
    Wrong(TakesNames, SessionIdCases),
]

WRONG_DATABASES = [
    Wrong(NoPreconditions, CommitCases),
    Wrong(HalfCommits, CommitCases),
    Wrong(ReadsOneByOne, MomentCases),
    Wrong(IgnoresMoments, ReadCases),
    Wrong(Unordered, QueryCases),
    Wrong(NoWatches, WatchCases),
]


def suite_name(wrong: Wrong) -> str:
    """The name of the class in wrong_suites that runs its cases."""
    return f"Test{wrong.backend.__name__}In{wrong.cases.__name__}"


class WrongStores(MemoryStores):
    """The memory harness with one thing wrong."""

    def __init__(self, wrong: type[Passing] | type[DocumentStore]) -> None:
        super().__init__()
        self._make: Any = wrong if issubclass(wrong, DocumentStore) else DocumentStore
        if issubclass(wrong, OwnIds):
            self.capabilities = OwnIdsStores.capabilities
            self._make = lambda shelf: wrong(DocumentStore(shelf))
        if not issubclass(wrong, DocumentStore):
            self.database: Any = wrong(self.database)

    def open(self, **options: Any) -> DocumentStore:
        """Another instance."""
        return self._opened(self._make(Shelf(self.database, Options(**options))))
