"""Making a session of Genkit's ours, at the first write: its session document becomes one of ours, with an owner, and
the state of its head a snapshot of ours. Genkit's own documents stay as they are, and readable by their ids."""

from dataclasses import replace

from store.database import CommitRefusedError, Committed, CommitUnansweredError, Write
from store.documents.claims import claim_turn
from store.documents.commits import Retries, shard_writes, try_commit, write_ahead
from store.documents.legacy import UnconvertedSessionError
from store.documents.loading import RecordRead, read_one_record
from store.documents.save_writes import SaveInput, plan_conversion, plan_save
from store.documents.shelf import Shelf
from store.models import Claim, Lease, NewSession, SameSend, Scope, Snapshot


async def claim_converted(shelf: Shelf, scope: Scope, claim: Claim) -> Lease | SameSend:
    """`claim_turn`; a session of Genkit's is made ours once the claim has been found to be acceptable."""
    while True:
        try:
            return await claim_turn(shelf, scope, claim)
        except UnconvertedSessionError as found:
            await convert(shelf, scope, found.session_id, claim.session)


async def convert(shelf: Shelf, scope: Scope, session_id: str, new_session: NewSession) -> None:
    """Makes the session ours, where it is still Genkit's: one commit, conditional on what was read. TurnBusyError where
    a turn of Genkit's is alive. Whoever comes first owns it; the next read tells who that was."""
    retries = Retries(shelf)
    while True:
        read = await read_one_record(shelf, scope, session_id, with_copy=False)
        if read.record is None or not read.record.is_legacy:
            return
        plain = replace(new_session, lifetime=None, branched_from=None, temporary=False)
        result = await _try(shelf, scope, read, plain)
        if isinstance(result, Committed):
            return
        await retries.wait(result)


async def _try(
    shelf: Shelf, scope: Scope, read: RecordRead, new_session: NewSession
) -> Committed | CommitRefusedError | CommitUnansweredError:
    record, ground = read.record, read.ground
    assert record is not None  # the caller has seen to it
    head = record.head.snapshot if record.head and ground else None
    saved = Snapshot(
        session_id=record.session.id,
        snapshot_id=shelf.mint(),
        parent_id=head.snapshot_id if head else None,
        state=ground.state if ground else None,
        finish_reason=head.finish_reason if head else None,
    )
    token = shelf.mint()
    given = SaveInput(shelf, scope, token, new_session, None, record, read.time, None, saved, head is not None)
    if head is None:
        writes: list[Write] = await plan_conversion(given)
        return await try_commit(shelf, writes)
    plan = await plan_save(given)
    ahead = await write_ahead(shelf, shard_writes(scope.tenant, record.session.id, plan.shards, None))
    return await try_commit(shelf, [*plan.writes, *ahead])
