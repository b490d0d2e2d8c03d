"""The cap on a user's persisted sessions: checked where one was made, and by the sweep."""

import logging
from dataclasses import dataclass, field

from store.database import Committed, Condition, Document, Kind, Path, Query
from store.documents.commits import try_commit
from store.documents.deletions import BATCH, delete_marked, plan_mark
from store.documents.shelf import Shelf
from store.errors import DataLossError, TurnBusyError
from store.layout.records import METADATA_FIELDS, Record, read_record
from store.models import RetentionRules, Scope

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Trimmed:
    """What one trim deleted, or would delete: the sessions, and how many documents it took."""

    sessions: list[Path] = field(default_factory=list)
    documents: int = 0


async def trim(shelf: Shelf, scope: Scope, rules: RetentionRules, most: int, *, is_dry: bool = False) -> Trimmed:
    """Deletes the user's persisted sessions beyond the cap, the least recently used first, a running one never, and no
    more than about `most` documents. Temporary sessions neither count nor go. One query, of as many slim documents as
    the user has where that is no more than the cap."""
    trimmed = Trimmed()
    if not rules.max_count_per_user:
        return trimmed
    beyond = (await _persisted(shelf, scope, rules.max_count_per_user + BATCH))[rules.max_count_per_user :]
    for record in reversed(beyond):
        if trimmed.documents >= most:
            break
        left = most - trimmed.documents
        count = await (may_go(shelf, scope, record) if is_dry else delete_unless_awake(shelf, scope, record, left))
        if count:
            trimmed.sessions.append(record.document.path)
            trimmed.documents += count
    return trimmed


async def _persisted(shelf: Shelf, scope: Scope, limit: int) -> list[Record]:
    """The user's sessions, the most recently used first."""
    query = Query(
        Kind.POINTERS,
        shelf.require_scope(scope).tenant,
        (Condition("ownerId", "==", scope.user), Condition("temporary", "==", False)),
        order=(("updatedAt", True),),
        limit=limit,
        mask=METADATA_FIELDS,
        on_damage=report_damage,
    )
    found = map(record_or_none, (await shelf.database.query(query)).documents)
    return [record for record in found if record is not None and not record.is_deleting]


async def may_go(shelf: Shelf, scope: Scope, record: Record) -> int:
    """1 for a session that `delete_unless_awake` would delete. Writes nothing."""
    try:
        await plan_mark(shelf, scope, record)
    except TurnBusyError:
        return 0
    return 1


async def delete_unless_awake(shelf: Shelf, scope: Scope, record: Record, most: int, *, force: bool = False) -> int:
    """Deletes a session as it was read: about how many documents that took, up to about `most`, after which the next
    sweep goes on. 0 where it was spared, because it was written since or, unless `force`, its turn lives."""
    try:
        writes = await plan_mark(shelf, scope, record, force=force)
    except TurnBusyError:
        return 0
    if not isinstance(await try_commit(shelf, writes), Committed):
        return 0
    deleted = await delete_marked(shelf, scope, record.session.id, most)
    return most if deleted is None else deleted


def record_or_none(document: Document) -> Record | None:
    """The session in a document. One that is damaged is left to `fsck`, and must not keep the others from being looked
    at."""
    try:
        return read_record(document)
    except DataLossError as error:
        report_damage(error)
        return None


def report_damage(error: DataLossError) -> None:
    """Into the log, where `fsck` is not run yet."""
    _log.warning("left alone by retention: %s", error)
