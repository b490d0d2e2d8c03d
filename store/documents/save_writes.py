"""The writes of one save: the row, what its session document says of it, and the lease where the save needs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from store.database import SERVER_TIME, Create, Delete, Update, Write
from store.documents.apart import apart, work_on
from store.documents.claim_checks import read_active, require_stale
from store.documents.claims import record_identity
from store.documents.commits import expiry_fields
from store.documents.legacy import POINTER_FIELDS
from store.documents.loading import RowRead
from store.documents.requests import token_of
from store.documents.settlements import REQUEST_FIELDS, plan_stale_settlement
from store.documents.settles import head_fields
from store.documents.shelf import Shelf, latest_of, record_path, row_path, shard_path
from store.errors import StateTooLargeError
from store.layout.chain import Ground, StoragePlan, plan_storage
from store.layout.codec import Stored
from store.layout.fields import present
from store.layout.heads import Footing, HeadPlan, plan_head
from store.layout.records import LEASE_FIELDS, Record, head_field
from store.layout.rows import CHAIN_FIELDS, Row, snapshot_fields, state_fields
from store.models import NewSession, Scope, Snapshot, SnapshotStatus
from store.rules.history import last_message_id
from store.rules.retention import due_at
from store.rules.saves import is_heartbeat, is_newer

_OPTIONAL = (
    "parentId",
    "finishReason",
    "error",
    "usage",
    "model",
    "heartbeatAt",
    "messageId",
    "messageText",
    "lastMessageId",
    "eventCount",
)


@dataclass(frozen=True, slots=True)
class SavePlan:
    """A save's writes. `ground` is the state it stores, None where it leaves the state alone."""

    saved: Snapshot
    writes: list[Write]
    shards: dict[str, Stored] = field(default_factory=dict)
    ground: Ground | None = None
    is_head: bool = False
    expires_at: datetime | None = None

    def as_stored(self, server_time: datetime) -> Snapshot:
        """The row as it reads now; `server_time` is what the database's own time became."""
        return replace(
            self.saved,
            created_at=self.saved.created_at or server_time,
            updated_at=self.saved.updated_at or server_time,
        )


@dataclass(frozen=True, slots=True)
class SaveInput:
    """What a save is planned from: the row and the session as read, the parent's state, and what is to be stored.

    `changes_state` is whether the row gets a state that it did not have; `parent` matters only then."""

    shelf: Shelf
    scope: Scope
    token: str
    new_session: NewSession
    row: Row | None
    record: Record | None
    time: datetime
    parent: Ground | None
    saved: Snapshot
    changes_state: bool
    active: RowRead | None = None
    """The session's active row, where it was read already."""

    @property
    def holds_lease(self) -> bool:
        """Whether the row is the session's active turn."""
        return self.record is not None and self.record.session.active_snapshot_id == self.saved.snapshot_id

    @property
    def names_another_turn(self) -> bool:
        """Whether the session's active turn is another row."""
        return self.record is not None and self.record.session.active_snapshot_id not in (None, self.saved.snapshot_id)

    @property
    def is_head(self) -> bool:
        """Whether the row is the session's head already."""
        return self.record is not None and self.record.session.head_snapshot_id == self.saved.snapshot_id

    @property
    def becomes_head(self) -> bool:
        """Whether the conversation continues from this row from now on: it settles the active turn, or is newer."""
        saved = self.saved
        if not self.changes_state or saved.status not in (SnapshotStatus.COMPLETED, SnapshotStatus.ABORTED):
            return False
        head = self.record.head.snapshot if self.record and self.record.head else None
        return self.holds_lease or head is None or is_newer(saved, head.created_at, head.snapshot_id)

    @property
    def expires_at(self) -> datetime | None:
        """When the session expires, the one that this save makes included."""
        if self.record is not None:
            return self.record.session.expires_at
        lifetime = self.new_session.lifetime
        return None if lifetime is None else self.time + timedelta(seconds=lifetime)


async def plan_save(given: SaveInput) -> SavePlan:
    """All writes of one commit; TurnBusyError where the save would need a lease that a live turn holds."""
    saved = replace(with_times(given), last_message_id=last_message_id(given.saved.state))
    given, row = replace(given, saved=saved), given.row
    if row is not None and not given.changes_state and is_heartbeat(row.snapshot, replace(saved, state=None)):
        beat = {"heartbeatAt": saved.heartbeat_at, "savedBy": given.token}
        return SavePlan(saved, [Update(row.document.path, beat, update_time=row.update_time)])
    stale = await _stale_writes(given)
    size = work_on(saved.state, given.parent) if given.changes_state and saved.state is not None else 0
    head, storage = await apart(size, lambda: _plan_state(given))
    writes = [*_row_writes(given, storage), *stale, *_record_writes(given, head)]
    ground = None
    if storage is not None and saved.state is not None:
        ground = storage.ground(saved.state)
    return SavePlan(saved, writes, storage.shards if storage else {}, ground, head is not None, given.expires_at)


def with_times(given: SaveInput) -> Snapshot:
    """Times as given; else a creation after every other row's, and the database's time for the update."""
    saved, row = given.saved, given.row
    if row is None:
        created_at = saved.created_at
        if created_at is None:
            created_at = given.record.next_created_at(given.time) if given.record else given.time
        return replace(saved, created_at=created_at, updated_at=saved.updated_at or created_at)
    if saved.updated_at == row.snapshot.updated_at and not is_heartbeat(row.snapshot, replace(saved, state=None)):
        return replace(saved, updated_at=None)
    return saved


async def _stale_writes(given: SaveInput) -> list[Write]:
    """Settles the stale turn whose lease this save takes or whose head it replaces."""
    active_id = given.record.session.active_snapshot_id if given.record else None
    if active_id is None or given.holds_lease:
        return []
    if given.saved.status.is_terminal and not given.becomes_head:
        return []
    active = given.active
    if active is None and given.record is not None:
        active = await read_active(given.shelf, given.scope, given.record, given.time)
    stale = await require_stale(given.shelf, given.scope, active_id, active)
    return plan_stale_settlement(given.scope, stale, given.token) if stale else []


def _plan_state(given: SaveInput) -> tuple[HeadPlan | None, StoragePlan | None]:
    saved = given.saved
    if not given.changes_state or saved.state is None:
        return None, None
    limit = given.shelf.options.max_state_size
    if saved.state.size > limit:
        raise StateTooLargeError(saved.state.size, limit)
    shape, token = given.shelf.options.shape, token_of(given.token)
    if not given.becomes_head:
        return None, plan_storage(shape, saved.snapshot_id, token, given.parent, saved.state)
    head = given.record.head if given.record else None
    is_on_head = (head and head.snapshot.snapshot_id) == (given.parent and given.parent.snapshot_id)
    record = given.record
    footing = Footing(given.parent, is_on_head, record.tail_bytes if record else 0, bool(record and record.has_base))
    plan = plan_head(shape, saved.snapshot_id, token, footing, saved.state)
    return plan, plan.storage


def _row_writes(given: SaveInput, storage: StoragePlan | None) -> list[Write]:
    saved, row = given.saved, given.row
    attempt = row.attempt if row else given.token
    fields = snapshot_fields(saved, given.scope.user, attempt) | {"savedBy": given.token}
    fields |= state_fields(saved, storage) if storage else {}
    if saved.status.is_terminal and (row is None or not row.snapshot.status.is_terminal):
        fields["settledBy"] = given.token
    path = row_path(given.scope, saved.snapshot_id)
    if row is None:
        return [Create(path, fields | expiry_fields(given.expires_at))]
    fields |= present(abortRunner=row.runner if saved.status is SnapshotStatus.ABORTING else None)
    loses_chain = storage is not None or saved.state is None
    cleared = (
        *_OPTIONAL,
        *(CHAIN_FIELDS if loses_chain else ()),
        *(REQUEST_FIELDS if saved.status.is_terminal else ()),
    )
    remove = tuple(name for name in cleared if name not in fields)
    return [Update(path, fields, remove=remove, update_time=row.update_time), *_obsolete_shards(given, storage)]


def _obsolete_shards(given: SaveInput, storage: StoragePlan | None) -> list[Write]:
    """Deletes the shards of a state that is replaced or dropped, and of a request that is done with."""
    row = given.row
    if row is None:
        return []
    ids = list(row.request_shards) if given.saved.status.is_terminal else []
    loses_chain = storage is not None or given.saved.state is None
    if loses_chain:
        ids += row.own_shards  # the chain's other shards belong to earlier rows
    return [Delete(shard_path(given.scope.tenant, shard_id)) for shard_id in ids]


def _record_writes(given: SaveInput, head: HeadPlan | None) -> list[Write]:
    """The session's side; nothing where the save does not concern it."""
    saved, record = given.saved, given.record
    fields = _record_fields(given, head)
    remove: tuple[str, ...] = ()
    if given.holds_lease and saved.status.is_terminal:
        remove = LEASE_FIELDS
    elif given.names_another_turn and (head is not None or not saved.status.is_terminal):
        remove = LEASE_FIELDS  # the stale turn's, which the same commit settles
    if head is not None:
        remove = (*remove, *head.remove)
        remove += () if last_message_id(saved.state) is not None else ("lastMessageId",)
    append = head.append if head else {}
    if record is None:
        created = record_identity(given.scope, saved.session_id, given.new_session)
        times = {"createdAt": SERVER_TIME, "updatedAt": SERVER_TIME, "dueAt": due_at(given.time, given.expires_at)}
        fields = created | times | expiry_fields(given.expires_at) | fields | append
        return [Create(record_path(given.scope, saved.session_id), fields)]
    if record.is_legacy:
        return [_converted(given, record, fields)]
    if not fields and not remove and not _may_meet_pruning(given):
        return []
    remove = tuple(name for name in remove if name not in fields)
    fields = fields | {"updatedAt": SERVER_TIME, "dueAt": due_at(given.time, record.session.expires_at)}
    return [Update(record.document.path, fields, remove=remove, append=append, update_time=record.update_time)]


async def plan_conversion(given: SaveInput) -> list[Write]:
    """What makes a session of Genkit's ours that has no state to continue from; TurnBusyError where a turn lives."""
    assert given.record is not None
    return [*await _stale_writes(given), _converted(given, given.record, {})]


def _converted(given: SaveInput, record: Record, fields: Mapping[str, Any]) -> Write:
    """Turns a session document of Genkit's into one of ours; the caller becomes its owner."""
    current = {"currentSnapshotId": record.current_snapshot_id, "currentCreatedAt": record.latest_created_at}
    latest = present(**current, latestCreatedAt=record.latest_created_at, createdAt=record.session.created_at)
    times = {"updatedAt": SERVER_TIME, "dueAt": due_at(given.time, None)}
    converted = record_identity(given.scope, record.session.id, given.new_session) | latest | times | dict(fields)
    remove = tuple(name for name in POINTER_FIELDS if name not in converted)
    return Update(record.document.path, converted, remove=remove, update_time=record.update_time)


def _may_meet_pruning(given: SaveInput) -> bool:
    """Whether the row's state is built on others that somebody might prune just now: the session's version tells."""
    return given.changes_state and given.shelf.options.max_persisted_chain_length is not None


def _record_fields(given: SaveInput, head: HeadPlan | None) -> dict[str, Any]:
    saved, record = given.saved, given.record
    fields: dict[str, Any] = {}
    latest = record.latest_created_at if record else None
    if given.row is None and is_newer(saved, latest, record.current_snapshot_id if record else None):
        fields |= {"currentSnapshotId": saved.snapshot_id, "currentCreatedAt": saved.created_at}
        fields["latestCreatedAt"] = latest_of(saved.created_at, latest)
    if not saved.status.is_terminal and not given.holds_lease:
        fields |= {"activeSnapshotId": saved.snapshot_id, "claimedAt": SERVER_TIME}
        fields |= present(activeMessageId=saved.message_id)
    if head is not None:
        fields |= head_fields(saved, head)
    elif given.is_head and record is not None and record.head is not None:
        fields |= {
            "head": head_field(saved, record.head.chain, record.head.runs),
            "headUpdatedAt": saved.updated_at or SERVER_TIME,
        }
    return fields
