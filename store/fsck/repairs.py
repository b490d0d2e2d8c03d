"""Findings with the writes that repair them. Every write repeats what it was concluded from: it is refused where the
document was written since. Pure."""

from datetime import datetime, timedelta
from typing import Any

from store.database import SERVER_TIME, Create, Delete, Document, Kind, Path, Update, Write
from store.documents.claims import record_identity
from store.documents.commits import expiry_fields
from store.documents.settlements import plan_stale_settlement
from store.errors import DataLossError
from store.fsck.contents import SessionView
from store.fsck.findings import Finding, Problem
from store.layout.fields import present
from store.layout.records import COPY_FIELDS, LEASE_FIELDS, NO_COPY, Record, head_field
from store.layout.rows import Row
from store.models import NewSession, Scope
from store.rules.history import last_message_id, messages_of
from store.rules.retention import due_at


def delete(
    document: Document, reason: str, now: datetime, grace: timedelta, *, since: datetime | None = None
) -> Finding:
    """What nothing refers to goes after `grace` without a write; a younger one may belong to a commit under way."""
    if now - (since or document.update_time) < grace:
        return Finding(Problem.ORPHAN, document.path, f"{reason}, and it is younger than {_shown(grace)}")
    writes = (Delete(document.path, document.update_time),)
    return Finding(Problem.ORPHAN, document.path, reason, "delete it", writes=writes)


def _shown(grace: timedelta) -> str:
    return "a day" if grace == timedelta(days=1) else str(grace)


def release_lease(record: Record, reason: str) -> Finding:
    """The session has no turn any more."""
    write = Update(
        record.document.path, {"updatedAt": SERVER_TIME}, remove=LEASE_FIELDS, update_time=record.update_time
    )
    return Finding(Problem.LEASE, record.document.path, reason, "release the session", writes=(write,))


def end_running_row(row: Row, reason: str, now: datetime, grace: timedelta) -> Finding:
    """The row is settled like one whose instance is gone; not before its owner was silent for `grace`."""
    beat = max(time for time in (row.snapshot.heartbeat_at, row.update_time, row.queued_until) if time is not None)
    if now - beat < grace:
        return Finding(Problem.LEASE, row.document.path, reason)
    scope = Scope(row.document.path.tenant, row.owner_id)
    writes = tuple(plan_stale_settlement(scope, row, "fsck"))
    return Finding(Problem.LEASE, row.document.path, reason, "settle it as lost", writes=writes)


def drop_copy(record: Record, reason: str) -> Finding:
    """Base and tail go; the state is read from the chain until the next head writes a new copy."""
    write = Update(record.document.path, dict(NO_COPY), remove=COPY_FIELDS, update_time=record.update_time)
    return Finding(Problem.COPY, record.document.path, reason, "drop base and tail", writes=(write,))


def point_to_latest(record: Record, newest: Row | None, reason: str) -> Finding:
    """The latest row is the newest one that there is."""
    fields = {} if newest is None else _latest_fields(newest, record.latest_created_at)
    gone = ("currentSnapshotId", "currentCreatedAt") if newest is None else ()
    write = Update(record.document.path, fields, remove=gone, update_time=record.update_time)
    told = "no row" if newest is None else repr(newest.snapshot.snapshot_id)
    return Finding(
        Problem.POINTER, record.document.path, f"{reason}, and it is {told}", f"name {told}", writes=(write,)
    )


def rewrite_head(view: SessionView, record: Record, row: Row, reason: str) -> Finding:
    """The head becomes what the row says."""
    remove = (*COPY_FIELDS, *_without_tail(view, row))
    write = Update(record.document.path, _head_fields(view, row), remove=remove, update_time=record.update_time)
    repair = f"make {row.snapshot.snapshot_id!r} the head"
    return Finding(Problem.POINTER, record.document.path, reason, repair, writes=(write,))


def rebuild_session(view: SessionView, head: Row) -> Finding:
    """The session document out of its rows: the newest readable one becomes the head, the newest one the latest."""
    contents = view.contents
    path = Path(Kind.POINTERS, contents.tenant, contents.session_id)
    fields = _rebuilt_fields(view, head)
    document = contents.record_document
    write: Write = Create(path, fields)
    if document is not None:
        gone = tuple(name for name in document.fields if name not in fields)
        write = Update(path, fields, remove=gone, update_time=document.update_time)
    problem = Problem.MISSING_SESSION if document is None else Problem.POINTER
    reason = "it is missing" if document is None else "it cannot be read"
    repair = f"rebuild it from its rows, with the head {head.snapshot.snapshot_id!r}"
    return Finding(problem, path, reason, repair, writes=(write,))


def _rebuilt_fields(view: SessionView, head: Row) -> dict[str, Any]:
    contents, rows = view.contents, view.rows.values()
    newest = view.newest(rows)
    assert newest is not None  # the head is one of them
    created_at = min(row.snapshot.created_at for row in rows if row.snapshot.created_at is not None)
    scope = Scope(contents.tenant, head.owner_id)
    identity = record_identity(scope, contents.session_id, _description(contents.record_document, head))
    return (
        identity
        | {"temporary": head.expires_at is not None, "createdAt": created_at, "updatedAt": SERVER_TIME}
        | {"dueAt": due_at(contents.time, head.expires_at)}
        | expiry_fields(head.expires_at)
        | _latest_fields(newest, None)
        | _head_fields(view, head)
        | _lease_fields(view)
    )


def _description(document: Document | None, head: Row) -> NewSession:
    """What the damaged session document still says of itself; the rest no row knows."""

    def text(name: str) -> str | None:
        value = document.fields.get(name) if document else None
        return value if isinstance(value, str) else None

    return NewSession(
        text("agent") or "", text("title") or text("autoTitle") or "", text("model") or head.snapshot.model
    )


def _lease_fields(view: SessionView) -> dict[str, Any]:
    """The newest running row gets the session; others are settled by the next look."""
    running = view.newest(row for row in view.rows.values() if not row.snapshot.status.is_terminal)
    if running is None:
        return {}
    return present(
        activeSnapshotId=running.snapshot.snapshot_id,
        activeMessageId=running.snapshot.message_id,
        activeMessageDigest=running.message_digest,
        claimedAt=running.snapshot.created_at,
    )


def _latest_fields(newest: Row, known: datetime | None) -> dict[str, Any]:
    created_at = newest.snapshot.created_at
    times = [time for time in (created_at, known) if time is not None]
    return {
        "currentSnapshotId": newest.snapshot.snapshot_id,
        "currentCreatedAt": created_at,
        "latestCreatedAt": max(times),
    }


def _head_fields(view: SessionView, row: Row) -> dict[str, Any]:
    assert row.chain is not None  # a head has a state
    state = view.state(row)
    return dict(NO_COPY) | present(
        headSnapshotId=row.snapshot.snapshot_id,
        head=head_field(row.snapshot, row.chain),
        headUpdatedAt=row.snapshot.updated_at,
        lastMessageId=last_message_id(state),
        messageCount=len(messages_of(state)),
    )


def _without_tail(view: SessionView, row: Row) -> tuple[str, ...]:
    try:
        return () if last_message_id(view.state(row)) is not None else ("lastMessageId",)
    except DataLossError:
        return ()
