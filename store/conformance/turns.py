"""What the contract suite sends to a store: messages, states, claims and outcomes. Holds no test."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from store.canonical import Json
from store.conformance.harness import Store
from store.ids import mint_id
from store.models import Change, Claim, Lease, NewSession, Outcome, SameSend, Scope, Snapshot, SnapshotStatus
from store.rules.history import last_message_id, messages_of
from store.state import Raw, State

ANN = Scope("acme", "ann")
BOB = Scope("acme", "bob")
ELSEWHERE = Scope("other", "ann")
RUNNER = "instance-1"

PENDING, ABORTING = SnapshotStatus.PENDING, SnapshotStatus.ABORTING
COMPLETED, FAILED, ABORTED = SnapshotStatus.COMPLETED, SnapshotStatus.FAILED, SnapshotStatus.ABORTED
EXPIRED = SnapshotStatus.EXPIRED


def message(message_id: str, text: str = "Hello", role: str = "user") -> dict[str, Json]:
    """A message of one text."""
    return {"id": message_id, "role": role, "content": [{"text": text}]}


def state_of(*message_ids: str, **members: Json) -> State:
    """A state with these messages, and further members."""
    return State.of({"messages": [message(message_id) for message_id in message_ids], **members})


def snapshot(session_id: str = "s", **fields: Any) -> Snapshot:
    """A row to save; completed, with a state of one message unless told otherwise."""
    return Snapshot(session_id, **{"state": state_of("m"), **fields})


def always(row: Snapshot) -> Change:
    """The change that stores `row` whatever is there."""
    return lambda _: row


def changed(**fields: Any) -> Change:
    """The change that sets `fields` of the present row."""
    return lambda row: row and replace(row, **fields)


async def save(store: Store, snapshot_id: str, *, scope: Scope = ANN, **fields: Any) -> Snapshot:
    """Saves a new row; `fields` as in `snapshot`."""
    saved = await store.save_snapshot(scope, snapshot_id, always(snapshot(**fields)))
    assert saved is not None
    return saved


def claim(message_id: str | None = None, session_id: str | None = None, text: str = "Hello", **fields: Any) -> Claim:
    """A claim for a turn that answers a message; without `message_id` the message's id is one that nobody chose."""
    given: Mapping[str, Any] = {
        "snapshot_id": mint_id(),
        "attempt": mint_id(),
        "session": NewSession("echo"),
        "message": Raw.of(message(message_id or mint_id(), text), depth=3),
        "message_is_named": message_id is not None,
        "runner": RUNNER,
        **fields,
    }
    return Claim(session_id=session_id, **given)


async def claimed(store: Store, given: Claim, scope: Scope = ANN) -> Lease:
    """The lease of a claim that must be granted."""
    lease = await store.claim_turn(scope, given)
    assert isinstance(lease, Lease)
    return lease


async def same_send(store: Store, given: Claim, scope: Scope = ANN) -> SameSend:
    """The earlier turn of a claim that must be known."""
    answer = await store.claim_turn(scope, given)
    assert isinstance(answer, SameSend)
    return answer


def answered(lease: Lease, text: str = "Hi", **members: Json) -> State:
    """The state after the turn: its message and an answer to it are added, `members` are set."""
    question = lease.message_id or "q"
    added = [message(question), message(f"{question}-answer", text, "model")]
    state = lease.state.with_messages([*messages_of(lease.state), *(Raw.of(each, depth=3) for each in added)])
    for name, value in members.items():
        state = state.with_member(name, Raw.of(value))
    return state


def completed(lease: Lease, text: str = "Hi", **members: Json) -> Outcome:
    """The turn ends well."""
    return Outcome(COMPLETED, "stop", answered(lease, text, **members))


def aborted(lease: Lease, text: str = "Hi") -> Outcome:
    """The turn was stopped, and what it had produced is kept."""
    return Outcome(ABORTED, "aborted", answered(lease, text))


BROKEN = {"status": "INTERNAL", "message": "The agent broke.", "details": {"n": 1}}


def failed() -> Outcome:
    """The turn failed."""
    return Outcome(FAILED, "failed", error=BROKEN)


async def converse(
    store: Store, message_id: str, session_id: str | None = None, *, scope: Scope = ANN, **fields: Any
) -> Snapshot:
    """One whole turn that ends well, on whatever the transcript ends with."""
    tail = None
    if session_id is not None:
        transcript = await store.get_transcript(scope, session_id)
        tail = last_message_id(transcript.state if transcript else None)
    lease = await claimed(store, claim(message_id, session_id, **{"last_message_id": tail, **fields}), scope)
    return await store.settle_turn(lease, completed(lease))


async def require(store: Store, snapshot_id: str, scope: Scope = ANN) -> Snapshot:
    """A row that must be there, with its state."""
    found = await store.get_snapshot(scope, snapshot_id)
    assert found is not None
    return found
