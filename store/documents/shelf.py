"""What all operations work on: the database, the options, the cache, and the paths of documents."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from store.database import Database, Kind, Path
from store.documents.cache import StateCache
from store.errors import InvalidRequestError
from store.ids import mint_id, require_id, require_session_id
from store.layout.chain import Shape
from store.models import RetentionRules, Scope


def require_tenant(tenant: object) -> str:
    """A tenant that is one segment of a path; an empty one is refused."""
    return require_id(tenant, "tenant")


@dataclass(frozen=True, slots=True)
class Options:
    """The constructor keywords of every store; a wrong one is refused by name.

    Sizes are bytes, `lease_staleness` is seconds: how old a heartbeat may be while its turn still counts as alive.
    `max_persisted_chain_length` is how many rows stay along parent links from a row that is stored, itself included: 1
    keeps the newest alone, None all. Without `share_runs` every checkpoint stores its whole text. `legacy_owner` is who
    may read what Genkit's own stores wrote: nobody (`off`), or, until the first write stamps an owner, every user of
    its tenant (`tenant`)."""

    checkpoint_interval: int = 25
    shard_size: int = 524_288
    base_size: int = 131_072
    commit_size: int = 3_145_728
    max_state_size: int = 67_108_864
    max_messages: int = 100_000
    cache_size: int = 67_108_864
    lease_staleness: float = 60.0
    share_runs: bool = True
    max_persisted_chain_length: int | None = None
    legacy_owner: str = "off"
    retention: RetentionRules = field(default_factory=RetentionRules)

    def __post_init__(self) -> None:
        _require_range("checkpoint_interval", self.checkpoint_interval, 1, 10_000)
        _require_range("shard_size", self.shard_size, 1, 1_000_000)
        _require_range("base_size", self.base_size, 0, 500_000)
        _require_range("commit_size", self.commit_size, 65_536, 10_000_000)
        _require_range("max_state_size", self.max_state_size, 1, 2**40)
        _require_range("max_messages", self.max_messages, 1, 100_000_000)
        _require_range("cache_size", self.cache_size, 0, 2**40)
        if self.max_persisted_chain_length is not None:
            _require_range("max_persisted_chain_length", self.max_persisted_chain_length, 1, 1_000_000)
        staleness: object = self.lease_staleness
        if not isinstance(staleness, int | float) or isinstance(staleness, bool) or not 0 < staleness <= 86_400:
            raise InvalidRequestError("lease_staleness must be a number of seconds, over 0 and up to 86,400.")
        if not isinstance(self.share_runs, bool):
            raise InvalidRequestError("share_runs must be True or False.")
        if self.legacy_owner not in ("off", "tenant"):
            raise InvalidRequestError("legacy_owner must be 'off' or 'tenant'.")
        if not isinstance(self.retention, RetentionRules):
            raise InvalidRequestError("retention must be RetentionRules.")
        _require_range("retention.max_idle_days", self.retention.max_idle_days, 0, 2**31)
        _require_range("retention.max_count_per_user", self.retention.max_count_per_user, 0, 2**31)

    @property
    def shape(self) -> Shape:
        """The part that decides how states are laid out."""
        return Shape(self.checkpoint_interval, self.shard_size, self.base_size, self.share_runs)


def _require_range(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidRequestError(f"{name} must be a whole number from {low:,} to {high:,}.")


@dataclass(frozen=True, slots=True)
class Shelf:
    """One database with one set of options. Shared by all operations of a store."""

    database: Database
    options: Options = field(default_factory=Options)
    check_tenant: Callable[[object], str] = require_tenant
    mint: Callable[[], str] = mint_id
    jitter: Callable[[], float] = random.random
    cache: StateCache = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache", StateCache(self.options.cache_size))

    @property
    def staleness(self) -> timedelta:
        """How old a heartbeat may be while its turn still counts as alive."""
        return timedelta(seconds=self.options.lease_staleness)

    def require_scope(self, scope: Scope) -> Scope:
        """`scope`, refused where it could not be part of a path."""
        self.check_tenant(scope.tenant)
        require_id(scope.user, "user")
        return scope


def row_path(scope: Scope, snapshot_id: str) -> Path:
    """Where a row lies; the id is checked."""
    return Path(Kind.SNAPSHOTS, scope.tenant, require_id(snapshot_id, "snapshotId"))


def record_path(scope: Scope, session_id: str) -> Path:
    """Where a session document lies; the id is checked."""
    return Path(Kind.POINTERS, scope.tenant, require_session_id(session_id))


def shard_path(tenant: str, shard_id: str) -> Path:
    """Where a shard lies."""
    return Path(Kind.SHARDS, tenant, shard_id)


def latest_of(*times: datetime | None) -> datetime | None:
    """The latest of the times that are known."""
    return max((time for time in times if time is not None), default=None)
