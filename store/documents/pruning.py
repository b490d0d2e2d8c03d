"""Keeping chains short: after a row was stored, its ancestors beyond `max_persisted_chain_length` go.

Runs right after the commit that extended the chain, in commits of its own: which rows are still needed is known only
once the new row's chain is, and a turn that has been published must not fail because an old one cannot be dropped. Each
commit is preconditioned on the session document, and changes it. So whoever wants to continue from a row that goes (a
claim, a restore, a save) and has read it before is refused, reads again, and finds it missing; and a prune that was
overtaken plans anew. What an interruption leaves is dropped after the next turn.

Costs, where the option is set: one query that reads the session's rows (the kept ones, those of the oldest kept row's
segment, and other branches), one read of the session, and one commit of the session and of usually one row.
"""

import logging
from collections.abc import Iterator

from store.database import SERVER_TIME, Committed, Condition, Delete, Kind, Query, Update, Write
from store.documents.commits import Retries, try_commit
from store.documents.loading import read_one_record
from store.documents.shelf import Shelf, row_path, shard_path
from store.errors import StoreError
from store.layout.records import Record
from store.layout.rows import METADATA_FIELDS, Row, read_row
from store.legacy.rows import is_legacy
from store.models import Scope
from store.rules.pruning import Pruning, plan_pruning

_MOST_WRITES = 400  # of one commit, whose requests are bounded in size
_MOST_TRIES = 5  # a session so busy that it refuses as many is pruned after one of the turns that did it

_log = logging.getLogger(__name__)


async def prune_chain(shelf: Shelf, scope: Scope, session_id: str, leaf_id: str | None) -> None:
    """Drops the ancestors of `leaf_id` that are too far back. Never fails: what could not be dropped stays."""
    keep = shelf.options.max_persisted_chain_length
    if keep is None or leaf_id is None:
        return
    try:
        await _prune(shelf, scope, session_id, leaf_id, keep)
    except StoreError as error:
        _log.warning("The chain behind snapshot %r was not pruned: %s", leaf_id, error.message)


async def _prune(shelf: Shelf, scope: Scope, session_id: str, leaf_id: str, keep: int) -> None:
    retries = Retries(shelf, most=_MOST_TRIES)
    while True:
        # The session first: a row that is stored after this read has changed the session, which refuses the commit.
        read = await read_one_record(shelf, scope, session_id, with_copy=False)
        if read.record is None:
            return
        rows = await _read_rows(shelf, scope, session_id)
        doubt = await _carry_out(shelf, scope, read.record, _plan(read.record, rows, leaf_id, keep))
        if doubt is None:
            return
        await retries.wait(doubt)


async def _read_rows(shelf: Shelf, scope: Scope, session_id: str) -> dict[str, Row]:
    """Our own ones: what Genkit wrote stays."""
    where = (Condition("sessionId", "==", session_id),)
    found = await shelf.database.query(Query(Kind.SNAPSHOTS, scope.tenant, where, mask=METADATA_FIELDS))
    return {document.path.id: read_row(document) for document in found.documents if not is_legacy(document)}


def _plan(record: Record, rows: dict[str, Row], leaf_id: str, keep: int) -> Pruning:
    session = record.session
    active = rows.get(session.active_snapshot_id) if session.active_snapshot_id else None
    held = {
        session.head_snapshot_id,
        record.current_snapshot_id,
        session.active_snapshot_id,
        active.snapshot.parent_id if active else None,
    }
    return plan_pruning(rows, leaf_id, keep, held)


async def _carry_out(shelf: Shelf, scope: Scope, record: Record, pruning: Pruning) -> Exception | None:
    """The oldest first, so that what an interruption leaves still hangs together and is found the next time. What
    stopped it is given back."""
    writes = list(_writes(scope, pruning))
    version = record.update_time
    while writes:
        guard = Update(record.document.path, {"prunedAt": SERVER_TIME}, update_time=version)
        result = await try_commit(shelf, [guard, *writes[:_MOST_WRITES]])
        if not isinstance(result, Committed):
            return result
        assert result.update_times[0] is not None  # an update has one
        version, writes = result.update_times[0], writes[_MOST_WRITES:]
    return None


def _writes(scope: Scope, pruning: Pruning) -> Iterator[Write]:
    """A row goes after its shards: one without them names them still, and is found again."""
    for row in pruning.hidden:
        yield Update(row_path(scope, row.snapshot.snapshot_id), {"pruned": True}, update_time=row.update_time)
    for shard_id in sorted(pruning.shards):
        yield Delete(shard_path(scope.tenant, shard_id))
    for row in pruning.removed:
        yield Delete(row_path(scope, row.snapshot.snapshot_id), row.update_time)
