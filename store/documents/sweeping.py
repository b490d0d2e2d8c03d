"""The sweep: one bounded call that deletes what the retention rules let go, oldest first, bucket by bucket.

What is due is found by an index (`bucket`, `dueAt`); what was looked at and stays is put off, so that it is not looked
at again until a rule can apply. The sessions of a tenant whose rules are new are all looked at once, before that. Every
deletion is preconditioned on the session as it was read: one that woke up is spared.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from store.database import CommitUnansweredError, Condition, Document, Kind, Path, Put, Query, Update
from store.documents.commits import try_commit
from store.documents.deletions import delete_marked
from store.documents.retention import REVIEW_FIELDS, get_retention
from store.documents.shelf import Shelf
from store.documents.trimming import delete_unless_awake, may_go, record_or_none, report_damage, trim
from store.layout.fields import FORMAT_VERSION
from store.layout.records import METADATA_FIELDS, Record
from store.legacy.rows import is_legacy
from store.models import RetentionRules, Scope, SweepReport
from store.rules.retention import BUCKETS, Verdict, next_due, verdict_on

BATCH = 100
_EXAMINED_PER_DELETED = 20  # a look costs a twentieth of what a deletion does, or less
_CURSOR = Path(Kind.SETTINGS, "firesession", "sweep")  # which bucket the next sweep begins with


@dataclass(slots=True)
class _Sweep:
    """The state of one call. `left` is how many documents it may still delete, `unseen` how many sessions it may still
    look at. A dry run does not know of documents, and counts a session as one."""

    shelf: Shelf
    now: datetime
    left: int
    unseen: int
    is_dry: bool
    spared: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    rules: dict[str, RetentionRules] = field(default_factory=dict)
    trimmed: set[Scope] = field(default_factory=set)
    seen: set[Path] = field(default_factory=set)
    staying: list[Update] = field(default_factory=list)

    @property
    def is_spent(self) -> bool:
        """Whether the rest is the next call's."""
        return self.left <= 0 or self.unseen <= 0

    @property
    def page(self) -> int:
        """How many sessions to read at once, so that few are read in vain: one that goes takes some three documents."""
        return max(1, min(BATCH, self.left // 3, self.unseen))


async def sweep(shelf: Shelf, limit: int = 500, *, dry_run: bool = False) -> SweepReport:
    """Examines what is due and deletes about `limit` documents at most. A dry run writes nothing, and says what would
    go: up to `limit` sessions."""
    read = await shelf.database.get([_CURSOR])
    state = _Sweep(shelf, read.time, limit, limit * _EXAMINED_PER_DELETED, dry_run)
    await _review_tenants(state)
    await _sweep_buckets(state, read.documents[_CURSOR])
    deleted = state.reasons.total()
    return SweepReport(deleted + state.spared, deleted, state.spared, not state.is_spent, dict(state.reasons))


async def _sweep_buckets(state: _Sweep, cursor: Document | None) -> None:
    """Begins where the last sweep was spent, and says where the next one has to."""
    first = int(cursor.fields.get("bucket", 0)) if cursor else 0
    for step in range(BUCKETS):
        bucket = (first + step) % BUCKETS
        if state.is_spent or not await _sweep_bucket(state, bucket):
            break
    else:
        return
    if not state.is_dry and bucket != first:
        await try_commit(state.shelf, [Put(_CURSOR, {"formatVersion": FORMAT_VERSION, "bucket": bucket})])


async def _sweep_bucket(state: _Sweep, bucket: int) -> bool:
    """Whether the bucket was finished within the limits."""
    where = (Condition("bucket", "==", bucket), Condition("dueAt", "<=", state.now))
    after: tuple[datetime, Path] | None = None
    while not state.is_spent:
        query = Query(
            Kind.POINTERS,
            None,
            where,
            order=(("dueAt", False),),
            start_after=after,
            limit=(page := state.page),
            mask=METADATA_FIELDS,
            on_damage=report_damage,
        )
        documents = (await state.shelf.database.query(query)).documents
        if await _examine_all(state, documents) < len(documents):
            return False
        if len(documents) < page:
            return True
        after = (documents[-1].fields["dueAt"], documents[-1].path)
    return False


async def _review_tenants(state: _Sweep) -> None:
    """The tenants whose rules were changed since the last sweep."""
    query = Query(Kind.SETTINGS, None, (Condition("underReview", "==", True),), limit=BATCH)
    for settings in (await state.shelf.database.query(query)).documents:
        if state.is_spent:
            return
        await _review(state, settings)


async def _review(state: _Sweep, settings: Document) -> None:
    """Looks at all sessions of a tenant, from where the last sweep stopped. The mark is taken away only if the rules
    have not been changed again."""
    done_to: str | None = settings.fields.get("reviewedTo")
    while not state.is_spent:
        query = Query(
            Kind.POINTERS,
            settings.path.tenant,
            (),
            start_after=None if done_to is None else (done_to,),
            limit=(page := state.page),
            mask=METADATA_FIELDS,
            on_damage=report_damage,
        )
        documents = (await state.shelf.database.query(query)).documents
        done = await _examine_all(state, documents)
        if done == len(documents) < page:
            await _note(state, Update(settings.path, remove=REVIEW_FIELDS, update_time=settings.update_time))
            return
        done_to = documents[done - 1].path.id
    await _note(state, Update(settings.path, {"reviewedTo": done_to}, update_time=settings.update_time))


async def _note(state: _Sweep, write: Update) -> None:
    if not state.is_dry:
        await try_commit(state.shelf, [write])


async def _examine_all(state: _Sweep, documents: Iterable[Document]) -> int:
    """How many of them there was room for; at least one."""
    done = 0
    for document in documents:
        if done and state.is_spent:
            break
        await _examine(state, document)
        done += 1
    await _put_off(state)
    return done


async def _examine(state: _Sweep, document: Document) -> None:
    state.unseen -= 1
    if document.path in state.seen or is_legacy(document):
        return
    state.seen.add(document.path)
    record = record_or_none(document)
    if record is None:
        state.spared += 1
        return
    scope = Scope(document.path.tenant, record.session.owner_id)
    rules = await _rules(state, scope.tenant)
    verdict = verdict_on(record.session, record.is_deleting, rules, state.now)
    if verdict is not None:
        await _delete(state, scope, record, verdict)
        return
    await _trim(state, scope, rules, record)


async def _rules(state: _Sweep, tenant: str) -> RetentionRules:
    if tenant not in state.rules:
        state.rules[tenant] = await get_retention(state.shelf, tenant)
    return state.rules[tenant]


async def _delete(state: _Sweep, scope: Scope, record: Record, verdict: Verdict) -> None:
    # Nobody can settle a turn of an expired session any more, however alive it is.
    force = verdict is Verdict.EXPIRED
    if verdict is Verdict.RESUMED:
        count = 1 if state.is_dry else await _resume(state, scope, record)
    elif state.is_dry:
        count = 1 if force else await may_go(state.shelf, scope, record)
    else:
        count = await delete_unless_awake(state.shelf, scope, record, state.left, force=force)
    _count(state, verdict, 1 if count else 0, count)
    state.spared += 0 if count else 1


async def _resume(state: _Sweep, scope: Scope, record: Record) -> int:
    deleted = await delete_marked(state.shelf, scope, record.session.id, state.left)
    return state.left if deleted is None else deleted


def _count(state: _Sweep, verdict: Verdict, sessions: int, documents: int) -> None:
    state.left -= documents
    if sessions:
        state.reasons[verdict] += sessions


async def _trim(state: _Sweep, scope: Scope, rules: RetentionRules, record: Record) -> None:
    """A session that no rule but the cap concerns: the cap of its user, once per sweep."""
    if scope not in state.trimmed:
        state.trimmed.add(scope)
        trimmed = await trim(state.shelf, scope, rules, state.left, is_dry=state.is_dry)
        _count(state, Verdict.CAP, len(trimmed.sessions), trimmed.documents)
        state.seen.update(trimmed.sessions)
        if record.document.path in trimmed.sessions:
            return
    state.spared += 1
    due = next_due(record.session, rules, state.now)
    if not state.now < record.document.fields["dueAt"] <= due:
        state.staying.append(Update(record.document.path, {"dueAt": due}, update_time=record.update_time))


async def _put_off(state: _Sweep) -> None:
    """In one round trip. Refused where a session woke up meanwhile: that has set its own due time. What is not known to
    have landed is looked at again."""
    staying, state.staying = state.staying, []
    if not staying or state.is_dry:
        return
    with suppress(CommitUnansweredError):
        await state.shelf.database.write_each(staying)
