"""Turns as the plainest client makes them. Holds no test."""

from store.contract import TurnStore
from store.ids import mint_id
from store.models import Claim, Lease, NewSession, Outcome, Scope, SnapshotStatus
from store.rules.history import messages_of
from store.state import Raw

ADA = Scope("acme", "ada")


def claim(message_id: str, session_id: str | None = None, *, after: str | None = None) -> Claim:
    """A claim for a turn that answers a message; `after` is the last message that its client has seen."""
    return Claim(
        snapshot_id=mint_id(),
        attempt=mint_id(),
        session=NewSession(agent="echo"),
        session_id=session_id,
        message=Raw.of({"id": message_id, "role": "user", "content": [{"text": "Hello"}]}),
        last_message_id=after,
        runner="instance",
        message_is_named=True,
    )


async def claimed(store: TurnStore, claim: Claim) -> Lease:
    """The lease, which must be given."""
    lease = await store.claim_turn(ADA, claim)
    assert isinstance(lease, Lease)
    return lease


def completed(lease: Lease) -> Outcome:
    """The turn's message and its answer."""
    user = Raw.of({"id": lease.message_id, "role": "user", "content": [{"text": "Hello"}]})
    answer = Raw.of({"id": f"{lease.message_id}-answer", "role": "model", "content": [{"text": "Hello to you."}]})
    state = lease.state.with_messages([*messages_of(lease.state), user, answer])
    return Outcome(SnapshotStatus.COMPLETED, "stop", state)
