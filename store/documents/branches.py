"""Branching: a new session with a prefix of another one's transcript."""

from store.database import Committed, Write
from store.documents.claim_checks import require_stale
from store.documents.commits import Retries, shard_writes, try_commit, write_ahead
from store.documents.loading import RecordRead, load_head, read_one_record
from store.documents.rewinds import read_guarded
from store.documents.save_writes import SaveInput, SavePlan, plan_save
from store.documents.settlements import plan_release, plan_stale_settlement
from store.documents.shelf import Shelf
from store.errors import MessageNotFoundError, SessionExistsError
from store.layout.chain import Ground
from store.models import NewSession, Origin, Scope, Session, Snapshot
from store.rules.transcripts import branched


async def branch(shelf: Shelf, scope: Scope, source_id: str, message_id: str, session_id: str | None = None) -> Session:
    """The new session. With `session_id` a repeated call gives the same one; SessionExistsError where that id is
    another session's."""
    new_id = shelf.mint() if session_id is None else session_id
    snapshot_id, token = shelf.mint(), shelf.mint()
    retries = Retries(shelf)
    while True:
        known = await _branched_before(shelf, scope, source_id, message_id, new_id)
        if known is not None:
            return known
        read = await read_guarded(shelf, scope, source_id, None)
        head = await load_head(shelf, scope, read)
        if head is None or read.record is None:
            raise MessageNotFoundError(message_id)
        plan = await plan_save(_input(shelf, scope, read, head, (new_id, snapshot_id, token), message_id))
        stale = await _stale_writes(shelf, scope, read, token)
        shards = shard_writes(scope.tenant, new_id, plan.shards, plan.expires_at)
        result = await try_commit(shelf, [*plan.writes, *stale, *await write_ahead(shelf, shards)])
        if isinstance(result, Committed):
            _remember(shelf, scope, new_id, plan)
        else:
            await retries.wait(result)


async def _branched_before(shelf: Shelf, scope: Scope, source_id: str, message_id: str, new_id: str) -> Session | None:
    """The session under the new id, where it is this very branch."""
    record = (await read_one_record(shelf, scope, new_id, with_copy=False)).record
    if record is None:
        return None
    origin = record.session.branched_from or {}
    if (origin.get("sessionId"), origin.get("messageId")) != (source_id, message_id):
        raise SessionExistsError(new_id)
    return record.session


def _input(
    shelf: Shelf, scope: Scope, read: RecordRead, head: Ground, ids: tuple[str, str, str], message_id: str
) -> SaveInput:
    assert read.record is not None
    source = read.record.session
    new_id, snapshot_id, token = ids
    lineage = {"sessionId": source.id, "snapshotId": head.snapshot_id, "messageId": message_id}
    lifetime = None if source.expires_at is None else (source.expires_at - read.time).total_seconds()
    new_session = NewSession(source.agent, source.title, source.model, lifetime, lineage)
    state = branched(head.state, message_id, shelf.mint)
    saved = Snapshot(new_id, snapshot_id, origin=Origin.BRANCH, state=state, model=source.model)
    return SaveInput(shelf, scope, token, new_session, None, None, read.time, None, saved, True)


async def _stale_writes(shelf: Shelf, scope: Scope, read: RecordRead, token: str) -> list[Write]:
    """Settles the source's stale turn, whose lease this branch has accepted as dead."""
    assert read.record is not None
    active_id = read.record.session.active_snapshot_id
    stale = await require_stale(shelf, scope, active_id) if active_id else None
    return [] if stale is None else [*plan_stale_settlement(scope, stale, token), plan_release(scope, read.record)]


def _remember(shelf: Shelf, scope: Scope, session_id: str, plan: SavePlan) -> None:
    if plan.ground is not None:
        shelf.cache.replace_head(scope.tenant, session_id, plan.ground)
