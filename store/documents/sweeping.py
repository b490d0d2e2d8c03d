"""The sweep: one bounded call that deletes what the retention rules let go, oldest first, bucket by bucket.

What is due is found by an index (`bucket`, `dueAt`); what was looked at and stays is put off, so that it is not looked
at again until a rule can apply. Every deletion is preconditioned on the session as it was read: one that woke up is
spared.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from store.database import Committed, Condition, Kind, Path, Put, Query, Update
from store.documents.commits import try_commit
from store.documents.deletions import delete_marked, plan_mark
from store.documents.retention import get_retention, trim_sessions
from store.documents.shelf import Shelf
from store.errors import TurnBusyError
from store.layout.fields import FORMAT_VERSION
from store.layout.records import METADATA_FIELDS, Record, read_record
from store.models import RetentionRules, Scope, SweepReport
from store.rules.retention import BUCKETS, Verdict, next_due, verdict_on

BATCH = 100
_CURSOR = Path(Kind.SETTINGS, "firesession", "sweep")  # which bucket the next sweep begins with


@dataclass(slots=True)
class _Sweep:
    """The state of one call. `left` is how many documents it may still delete."""

    shelf: Shelf
    now: datetime
    left: int
    is_dry: bool
    examined: int = 0
    spared: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    rules: dict[str, RetentionRules] = field(default_factory=dict)
    trimmed: set[Scope] = field(default_factory=set)


async def sweep(shelf: Shelf, limit: int = 500, *, dry_run: bool = False) -> SweepReport:
    """Examines what is due and deletes about `limit` documents at most. A dry run writes nothing and says the same."""
    read = await shelf.database.get([_CURSOR])
    cursor = read.documents[_CURSOR]
    first = int(cursor.fields.get("bucket", 0)) if cursor else 0
    state = _Sweep(shelf, read.time, limit, dry_run)
    bucket = first
    for step in range(BUCKETS):
        bucket = (first + step) % BUCKETS
        if not await _sweep_bucket(state, bucket):
            break
    else:
        bucket = first
    is_done = state.left > 0
    if not dry_run and bucket != first:
        await try_commit(shelf, [Put(_CURSOR, {"formatVersion": FORMAT_VERSION, "bucket": bucket})])
    deleted = state.reasons.total()
    return SweepReport(state.examined, deleted, state.spared, is_done, dict(state.reasons))


async def _sweep_bucket(state: _Sweep, bucket: int) -> bool:
    """Whether the bucket was finished within the limit."""
    after: tuple[datetime, Path] | None = None
    while state.left > 0:
        where = (Condition("bucket", "==", bucket), Condition("dueAt", "<=", state.now))
        query = Query(
            Kind.POINTERS, None, where, order=(("dueAt", False),), start_after=after, limit=BATCH, mask=METADATA_FIELDS
        )
        documents = (await state.shelf.database.query(query)).documents
        for document in documents:
            await _examine(state, read_record(document))
            if state.left <= 0:
                return False
        if len(documents) < BATCH:
            return True
        after = (documents[-1].fields["dueAt"], documents[-1].path)
    return False


async def _examine(state: _Sweep, record: Record) -> None:
    scope = Scope(record.document.path.tenant, record.session.owner_id)
    state.examined += 1
    rules = await _rules(state, scope.tenant)
    verdict = verdict_on(record.session, record.is_deleting, rules, state.now)
    if verdict is not None:
        await _delete(state, scope, record, verdict)
        return
    await _trim(state, scope, rules)
    if not state.is_dry:
        # Refused where the session woke up meanwhile: that has set its own due time.
        due = {"dueAt": next_due(record.session, rules, state.now)}
        await try_commit(state.shelf, [Update(record.document.path, due, update_time=record.update_time)])
    state.spared += 1


async def _rules(state: _Sweep, tenant: str) -> RetentionRules:
    if tenant not in state.rules:
        state.rules[tenant] = await get_retention(state.shelf, tenant)
    return state.rules[tenant]


async def _delete(state: _Sweep, scope: Scope, record: Record, verdict: Verdict) -> None:
    if state.is_dry:
        state.reasons[verdict] += 1
        return
    if verdict is not Verdict.RESUMED:
        try:
            # Nobody can settle a turn of an expired session any more, however alive it is.
            writes = await plan_mark(state.shelf, scope, record, force=verdict is Verdict.EXPIRED)
        except TurnBusyError:
            state.spared += 1
            return
        if not isinstance(await try_commit(state.shelf, writes), Committed):
            state.spared += 1
            return
    deleted = await delete_marked(state.shelf, scope, record.session.id, state.left)
    state.left = 0 if deleted is None else state.left - deleted
    state.reasons[verdict] += 1


async def _trim(state: _Sweep, scope: Scope, rules: RetentionRules) -> None:
    """The cap of one user, once per sweep."""
    if scope in state.trimmed or state.is_dry:
        return
    state.trimmed.add(scope)
    deleted = await trim_sessions(state.shelf, scope, rules)
    if deleted:
        state.reasons[Verdict.CAP] += deleted
        state.left -= deleted
