"""The one class that a third party subclasses: all cases, and the fixtures that they share."""

from collections.abc import AsyncIterator

import pytest

from store.conformance.aborts import AbortCases
from store.conformance.branches import BranchCases
from store.conformance.capabilities import Capability
from store.conformance.capability_cases import CapabilityCases
from store.conformance.chains import ChainCases
from store.conformance.claims import ClaimCases
from store.conformance.damage import DamageCases
from store.conformance.deletes import DeleteCases
from store.conformance.edit_leases import EditLeaseCases
from store.conformance.edit_sizes import EditSizeCases
from store.conformance.erasures import ErasureCases
from store.conformance.event_logs import EventLogCases
from store.conformance.fidelity import FidelityCases
from store.conformance.harness import Harness, Store, Stores
from store.conformance.interruptions import InterruptionCases
from store.conformance.latest import LatestCases
from store.conformance.leases import LeaseCases
from store.conformance.log_requests import LogRequestCases
from store.conformance.machine import MachineCases
from store.conformance.pruning import PruneCases
from store.conformance.queues import QueueCases
from store.conformance.races import RaceCases
from store.conformance.restores import RestoreCases
from store.conformance.resumes import ResumeCases
from store.conformance.retention import RetentionCases
from store.conformance.same_sends import SameSendCases
from store.conformance.save_rules import SaveRuleCases
from store.conformance.saves import SaveCases
from store.conformance.scopes import ScopeCases
from store.conformance.session_ids import SessionIdCases
from store.conformance.sessions import SessionCases
from store.conformance.settles import SettleCases
from store.conformance.sizes import SizeCases
from store.conformance.soundness import complaints
from store.conformance.subscriptions import SubscriptionCases
from store.conformance.sweep_races import SweepRaceCases
from store.conformance.sweeps import SweepCases
from store.conformance.torn_reads import TornReadCases
from store.conformance.trees import TreeCases
from store.conformance.truncates import TruncateCases


class StoreFixtures:
    """What every case works with. A subclass overrides the fixture `harness`."""

    @pytest.fixture
    def harness(self) -> Harness:
        """A new, empty store of the backend."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture `harness`.")

    @pytest.fixture
    async def stores(self, harness: Harness) -> AsyncIterator[Stores]:
        """Instances that share their sessions. Afterwards the documents must keep what must always hold."""
        opened = Stores(harness)
        yield opened
        can_look = Capability.DOCUMENTS in opened.capabilities and not opened.is_damaged
        found = await complaints(opened) if can_look else []
        await opened.close()
        assert found == []

    @pytest.fixture
    def store(self, stores: Stores) -> Store:
        """One instance with the default options."""
        return stores.open()


class StoreConformance(
    CapabilityCases,
    SaveCases,
    SaveRuleCases,
    LatestCases,
    ChainCases,
    FidelityCases,
    DamageCases,
    ScopeCases,
    ClaimCases,
    LeaseCases,
    SettleCases,
    AbortCases,
    SameSendCases,
    ResumeCases,
    RaceCases,
    TornReadCases,
    SessionCases,
    SessionIdCases,
    SubscriptionCases,
    TruncateCases,
    RestoreCases,
    BranchCases,
    DeleteCases,
    TreeCases,
    EditLeaseCases,
    EditSizeCases,
    QueueCases,
    EventLogCases,
    LogRequestCases,
    RetentionCases,
    SweepCases,
    SweepRaceCases,
    ErasureCases,
    PruneCases,
    SizeCases,
    InterruptionCases,
    MachineCases,
    StoreFixtures,
):
    """Everything that CONTRACT promises of a store. A subclass, named `Test…`, overrides the fixture `harness`."""
