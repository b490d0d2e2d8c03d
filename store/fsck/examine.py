"""What is wrong with one session, from its documents alone. Pure: findings carry the writes that would repair them.

Absence is concluded only where every row can be read: a damaged row, or one of another version, may be what is missing.
"""

from collections.abc import Iterator
from datetime import timedelta

from store.errors import DataLossError
from store.fsck.contents import SessionContents, SessionView, is_foreign
from store.fsck.findings import Finding, Problem
from store.fsck.legacy import examine_legacy, legacy_shards, nearest_readable
from store.fsck.repairs import (
    delete,
    drop_copy,
    end_running_row,
    point_to_latest,
    rebuild_session,
    release_lease,
    rewrite_head,
)
from store.layout.records import Record
from store.layout.rows import Row
from store.legacy.rows import is_legacy
from store.rules.retention import is_expired


def examine(contents: SessionContents, grace: timedelta) -> list[Finding]:
    """All findings of a session; `grace` is how old something must be to count as left behind."""
    document = contents.record_document
    view = SessionView(contents)
    found = [*_unreadable(view), *examine_legacy(view)]
    if document is not None and is_foreign(document):
        return found
    found += _damaged_chains(view)
    if document is not None and is_legacy(document):
        return found
    if view.record is not None and view.record.is_deleting:
        return [*found, *_unfinished_deletion(view, view.record, grace)]
    if view.record is not None:
        found += _lease(view, view.record, grace)
        found += _latest(view, view.record)
        found += _head(view, view.record)
    elif document is not None or view.rows:
        found += _without_session(view, grace)
    return [*found, *_orphaned_shards(view, grace), *_orphaned_others(view, grace)]


def _unreadable(view: SessionView) -> Iterator[Finding]:
    for path, error in view.errors:
        yield Finding(Problem.DOCUMENT, path, error.reason)
    contents = view.contents
    documents = [contents.record_document, *contents.row_documents, *contents.shard_documents]
    for document in documents:
        if document is not None and is_foreign(document):
            version = document.fields.get("formatVersion")
            yield Finding(Problem.FORMAT, document.path, f"its format version is {version!r}")


def _damaged_chains(view: SessionView) -> Iterator[Finding]:
    for row in view.rows.values():
        try:
            view.state(row)
        except DataLossError as error:
            if not row.is_pruned:
                reason = f"its state is lost ({error.message}); {nearest_readable(view, row)}"
                yield Finding(Problem.CHAIN, row.document.path, reason)


def _lease(view: SessionView, record: Record, grace: timedelta) -> Iterator[Finding]:
    """Rule 2: a row runs exactly when its session names it."""
    active_id = record.session.active_snapshot_id
    active = view.rows.get(active_id) if active_id else None
    is_gone = active is None and active_id not in view.present and not view.is_blind
    if active_id is not None and (is_gone or (active is not None and active.snapshot.status.is_terminal)):
        reason = f"it names {active_id!r} as its turn, which {'is missing' if active is None else 'is settled'}"
        yield release_lease(record, reason)
    for row in view.rows.values():
        if not row.snapshot.status.is_terminal and row.snapshot.snapshot_id != active_id:
            yield end_running_row(row, "it runs, and its session does not name it", view.contents.time, grace)


def _latest(view: SessionView, record: Record) -> Iterator[Finding]:
    newest = view.newest(view.rows.values())
    named = record.current_snapshot_id
    if named == (newest and newest.snapshot.snapshot_id) or view.is_blind:
        return
    if named is not None and named in view.present and named not in view.rows:
        return  # Genkit's
    yield point_to_latest(record, newest, f"it names {named!r} as its latest row")


def _head(view: SessionView, record: Record) -> Iterator[Finding]:
    if record.head is None:
        return
    head_id = record.head.snapshot.snapshot_id
    row = view.rows.get(head_id)
    if row is None:
        yield from _missing_head(view, record, head_id)
        return
    if row.chain != record.head.chain or row.snapshot != record.head.snapshot:
        if view.is_readable(row):
            yield rewrite_head(view, record, row, f"what it says of its head {head_id!r} is not what the row says")
        else:
            reason = f"it contradicts the row of its head {head_id!r}, whose state is lost"
            yield Finding(Problem.POINTER, record.document.path, reason)
        return
    yield from _copy(view, record, row)


def _missing_head(view: SessionView, record: Record, head_id: str) -> Iterator[Finding]:
    """Only where nothing is left of the state does an older row take its place."""
    path = record.document.path
    if _has_copy(view, record):
        reason = f"the row of its head {head_id!r} is missing or damaged; its own copy of the state can be read"
        yield Finding(Problem.POINTER, path, reason)
        return
    newest = view.newest(row for row in view.rows.values() if _may_be_head(view, row))
    if view.is_blind or head_id in view.present or newest is None:
        yield Finding(Problem.POINTER, path, f"the row of its head {head_id!r} is missing or damaged")
        return
    yield rewrite_head(view, record, newest, f"the row of its head {head_id!r} is missing")


def _has_copy(view: SessionView, record: Record) -> bool:
    try:
        return view.copied_state(record) is not None
    except DataLossError:
        return False


def _may_be_head(view: SessionView, row: Row) -> bool:
    return row.snapshot.status.is_terminal and not row.is_pruned and view.is_readable(row)


def _copy(view: SessionView, record: Record, row: Row) -> Iterator[Finding]:
    try:
        view.copied_state(record)
    except DataLossError as error:
        if view.is_readable(row):
            yield drop_copy(record, error.reason)
        else:
            yield Finding(Problem.COPY, record.document.path, error.reason)


def _without_session(view: SessionView, grace: timedelta) -> Iterator[Finding]:
    """Rows that hold a state make a session again; those that hold none are left over once they are old."""
    contents = view.contents
    living = [row for row in view.rows.values() if not is_expired(row.expires_at, contents.time)]
    head = view.newest(row for row in living if _may_be_head(view, row))
    if head is not None and not contents.is_partial:
        yield rebuild_session(view, head)
    elif contents.record_document is None:
        for row in view.rows.values():
            if row.chain is None or is_expired(row.expires_at, contents.time):
                yield delete(row.document, "its session is missing", contents.time, grace)


def _unfinished_deletion(view: SessionView, record: Record, grace: timedelta) -> Iterator[Finding]:
    contents = view.contents
    # The shards of Genkit's rows first: once their row is gone, nothing tells whose they were.
    shards = [*legacy_shards(view), *contents.shard_documents]
    rest = [*shards, *contents.row_documents, *contents.other_documents]
    for document in rest or [record.document]:
        left = delete(document, "its session is being deleted", contents.time, grace, since=record.session.updated_at)
        yield Finding(Problem.DELETION, left.document, left.reason, left.repair, writes=left.writes)


def _orphaned_shards(view: SessionView, grace: timedelta) -> Iterator[Finding]:
    if view.is_blind:
        return
    needed = {shard for row in view.rows.values() if row.chain for shard in row.chain.shards}
    needed |= {shard for row in view.rows.values() for shard in row.request_shards}
    for document in view.contents.shard_documents:
        if document.path.id not in needed and not is_foreign(document) and not is_legacy(document):
            yield delete(document, "no row refers to it", view.contents.time, grace)


def _orphaned_others(view: SessionView, grace: timedelta) -> Iterator[Finding]:
    if view.contents.record_document is None and not view.contents.is_partial and not view.rows:
        for document in view.contents.other_documents:
            if not is_foreign(document):
                yield delete(document, "its session is missing", view.contents.time, grace)
