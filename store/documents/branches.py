"""Branching: a new session with a prefix of another one's transcript."""

from store.database import Committed
from store.documents.commits import Retries, shard_writes, try_commit, write_ahead
from store.documents.loading import found_record, load_head
from store.documents.reading import with_activity
from store.documents.rewinds import Guarded, read_guarded, release_writes
from store.documents.save_writes import SaveInput, SavePlan, plan_save
from store.documents.shelf import Shelf, record_path
from store.errors import MessageNotFoundError, SessionExistsError, SessionNotFoundError
from store.layout.chain import Ground
from store.layout.records import METADATA_FIELDS
from store.models import NewSession, Origin, Scope, Session, Snapshot
from store.rules.transcripts import branched


async def branch(shelf: Shelf, scope: Scope, source_id: str, message_id: str, session_id: str | None = None) -> Session:
    """The new session. With `session_id` a repeated call gives the same one; SessionExistsError where that id is
    another session's."""
    new_id = shelf.mint() if session_id is None else session_id
    retries = Retries(shelf)
    while True:
        known = await _branched_before(shelf, scope, source_id, message_id, new_id)
        if known is not None:
            return known
        guarded = await read_guarded(shelf, scope, source_id, None)
        head = await load_head(shelf, scope, guarded.read)
        if head is None:
            raise MessageNotFoundError(message_id)
        # Ids are minted for every try, as those of the messages are: shards written ahead of a commit that lands after
        # all must not be replaced by the next try's.
        snapshot_id, token = shelf.mint(), shelf.mint()
        plan = await plan_save(_input(shelf, scope, guarded, head, (new_id, snapshot_id, token), message_id))
        shards = await write_ahead(shelf, shard_writes(scope.tenant, new_id, plan.shards, plan.expires_at))
        result = await try_commit(shelf, [*plan.writes, *release_writes(scope, guarded, token), *shards])
        if isinstance(result, Committed):
            _remember(shelf, scope, new_id, plan)
        else:
            await retries.wait(result)


async def _branched_before(shelf: Shelf, scope: Scope, source_id: str, message_id: str, new_id: str) -> Session | None:
    """The session under the new id, where it is this very branch. SessionNotFoundError where that id belongs to a
    session that this caller cannot see."""
    path = record_path(shelf.require_scope(scope), new_id)
    read = await shelf.database.get([path], mask=METADATA_FIELDS)
    found = await found_record(shelf, scope, read.documents[path], read.time, has_copy=False)
    record = found.record
    if record is None:
        if read.documents[path] is not None:
            raise SessionNotFoundError(new_id)
        return None
    origin = record.session.branched_from or {}
    if (origin.get("sessionId"), origin.get("messageId")) != (source_id, message_id):
        raise SessionExistsError(new_id)
    return await with_activity(shelf, scope, found)


def _input(
    shelf: Shelf, scope: Scope, guarded: Guarded, head: Ground, ids: tuple[str, str, str], message_id: str
) -> SaveInput:
    source, time = guarded.record.session, guarded.read.time
    new_id, snapshot_id, token = ids
    lineage = {"sessionId": source.id, "snapshotId": head.snapshot_id, "messageId": message_id}
    lifetime = None if source.expires_at is None else (source.expires_at - time).total_seconds()
    new_session = NewSession(source.agent, source.title, source.model, lifetime, lineage, source.temporary)
    state = branched(head.state, message_id, shelf.mint)
    saved = Snapshot(new_id, snapshot_id, origin=Origin.BRANCH, state=state, model=source.model)
    return SaveInput(shelf, scope, token, new_session, None, None, time, None, saved, True)


def _remember(shelf: Shelf, scope: Scope, session_id: str, plan: SavePlan) -> None:
    if plan.ground is not None:
        shelf.cache.replace_head(scope.tenant, session_id, plan.ground)
