"""The writes by which a row and its lease end together (rule 2)."""

from typing import Any

from store.database import SERVER_TIME, Delete, Update, Write
from store.documents.shelf import record_path, row_path, shard_path
from store.layout.records import LEASE_FIELDS, Record
from store.layout.rows import CHAIN_FIELDS, Row, error_field
from store.legacy.rows import end_fields
from store.models import FinishReason, Scope, SnapshotStatus
from store.rules.lease import status_of_stale
from store.rules.settle import LEASE_LOST

REQUEST_FIELDS = ("request", "requestShards", "abortRunner", "queuedUntil")
"""What a row holds only while it runs."""
END_FIELDS = (*CHAIN_FIELDS, "lastMessageId", "usage", "eventCount", "error")
"""What a row's end tells. A save may have given a running row other ones, which go where the end has none."""


def plan_stale_settlement(scope: Scope, row: Row, settled_by: str) -> list[Write]:
    """Settles a row whose owner is gone, for whoever accepts its lease. Refused if the owner has beaten since."""
    return plan_row_end(scope, row, status_of_stale(row.snapshot.status), settled_by)


def plan_row_end(scope: Scope, row: Row, status: SnapshotStatus, settled_by: str) -> list[Write]:
    """Settles a row without a state: failed as lease lost, or aborted. One that a save has given it goes."""
    fields: dict[str, Any] = {"status": status.value, "settledBy": settled_by, "updatedAt": SERVER_TIME}
    if status is SnapshotStatus.FAILED:
        fields |= {"finishReason": FinishReason.FAILED.value, "error": error_field(LEASE_LOST)}
    else:
        fields |= {"finishReason": FinishReason.ABORTED.value}
    path = row_path(scope, row.snapshot.snapshot_id)
    if row.is_legacy:
        return [Update(path, end_fields(row, status), update_time=row.update_time)]
    gone = (*REQUEST_FIELDS, *(name for name in END_FIELDS if name not in fields))
    return [
        Update(path, fields, remove=gone, update_time=row.update_time),
        *(Delete(shard_path(scope.tenant, shard_id)) for shard_id in (*row.request_shards, *row.own_shards)),
    ]


def plan_release(scope: Scope, record: Record) -> Write:
    """Takes the lease from the session document, provided that nothing in it has changed."""
    path = record_path(scope, record.session.id)
    updated_at = record.document.fields.get("updatedAt") if record.is_legacy else SERVER_TIME  # as its writer knows it
    return Update(path, {"updatedAt": updated_at}, remove=LEASE_FIELDS, update_time=record.update_time)
