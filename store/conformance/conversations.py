"""Conversations for the cases about transcripts: turns with and without tools, compactions, and all documents at a
glance. Holds no test."""

import random
from collections.abc import Mapping, Sequence

from store.canonical import Json
from store.conformance.capabilities import Capability
from store.conformance.harness import Store
from store.conformance.soundness import Inspected
from store.conformance.turns import ANN, COMPLETED, always, claim, claimed, message
from store.database import Document, Kind, Path, Query
from store.ids import mint_id
from store.models import Lease, NewSession, Origin, Outcome, Scope, Snapshot, SnapshotStatus
from store.rules.history import messages_of
from store.state import Raw, State

Documents = Mapping[Path, Document]
MODEL, TOOL = "model", "tool"


def request(name: str, ref: str) -> dict[str, Json]:
    """A part that asks for a call."""
    return {"toolRequest": {"name": name, "ref": ref, "input": {"of": ref}}}


def response(name: str, ref: str) -> dict[str, Json]:
    """A part that answers it."""
    return {"toolResponse": {"name": name, "ref": ref, "output": {"for": ref}}}


def parts(message_id: str, role: str, *content: Json, **members: Json) -> dict[str, Json]:
    """A message of these parts."""
    return {"id": message_id, "role": role, "content": list(content), **members}


def noise(size: int) -> str:
    """Text that no compression makes much smaller."""
    return random.Random(size).randbytes(size // 2).hex()


def plain_turn(name: str) -> list[dict[str, Json]]:
    """A question and its answer: `{name}` and `{name}-answer`."""
    return [message(name, f"Question {name}"), message(f"{name}-answer", f"Answer to {name}", MODEL)]


def tool_turn(name: str) -> list[dict[str, Json]]:
    """A question, two calls, their results in two messages, and an answer."""
    calls = [{"text": "Let me look."}, request("look", f"{name}-1"), request("weigh", f"{name}-2")]
    return [
        message(name, f"Question {name}"),
        parts(f"{name}-calls", MODEL, *calls),
        parts(f"{name}-result-1", TOOL, response("look", f"{name}-1")),
        parts(f"{name}-result-2", TOOL, response("weigh", f"{name}-2")),
        message(f"{name}-answer", f"Answer to {name}", MODEL),
    ]


def asking_turn(name: str) -> list[dict[str, Json]]:
    """A question whose turn ends with two calls that somebody has to answer."""
    return [
        message(name, f"Question {name}"),
        parts(f"{name}-calls", MODEL, request("ask", f"{name}-1"), request("ask", f"{name}-2")),
    ]


def compaction(message_id: str) -> dict[str, Json]:
    """A message that stands for everything before it."""
    return parts(message_id, "user", {"text": "What was said so far."}, metadata={"isCompaction": True})


async def taken(store: Store, name: str, session_id: str | None = None, scope: Scope = ANN) -> Lease:
    """The lease of a turn that `{name}` opens, on whatever the transcript ends with."""
    return await opened(store, message(name, f"Question {name}"), session_id, scope)


async def opened(store: Store, question: dict[str, Json], session_id: str | None, scope: Scope) -> Lease:
    """The lease of a turn that answers `question`."""
    session = None if session_id is None else await store.get_session(scope, session_id)
    tail = session.last_message_id if session else None
    given = claim(question["id"], session_id, message=Raw.of(question, depth=3), last_message_id=tail)
    return await claimed(store, given, scope)


async def add(
    store: Store,
    session_id: str | None,
    messages: Sequence[dict[str, Json]],
    *,
    scope: Scope = ANN,
    status: SnapshotStatus = COMPLETED,
    **members: Json,
) -> Snapshot:
    """One whole turn that adds `messages`, the first of which is the user's, and sets other members of the state."""
    lease = await opened(store, messages[0], session_id, scope)
    return await store.settle_turn(lease, Outcome(status, "stop", extended(lease.state, messages, **members)))


def extended(state: State, messages: Sequence[dict[str, Json]], **members: Json) -> State:
    """The state with more messages and other members."""
    longer = state.with_messages([*messages_of(state), *(Raw.of(each, depth=3) for each in messages)])
    for name, value in members.items():
        longer = longer.with_member(name, Raw.of(value))
    return longer


async def compact(store: Store, session_id: str, message_id: str) -> Snapshot:
    """What the engine makes of a compaction, with a message of that id."""
    given = claim(session_id=session_id, message=None, check_tail=False, origin=Origin.COMPACT)
    lease = await claimed(store, given)
    return await store.settle_turn(lease, Outcome(COMPLETED, "stop", extended(lease.state, [compaction(message_id)])))


async def conversation(store: Store, *names: str, **members: Json) -> str:
    """A session in which every name is a turn with tools; `members` are set by the first."""
    session_id: str | None = None
    for name in names:
        row = await add(store, session_id, tool_turn(name), **(members if session_id is None else {}))
        session_id = row.session_id
    assert session_id is not None
    return session_id


async def kept(store: Store, *messages: dict[str, Json], scope: Scope = ANN, **members: Json) -> str:
    """A session with this transcript, made at one stroke."""
    row = Snapshot(mint_id(), state=State.of({"messages": list(messages), **members}))
    saved = await store.save_snapshot(scope, None, always(row))
    assert saved is not None
    return saved.session_id


async def state_of_head(store: Store, session_id: str, scope: Scope = ANN) -> State:
    """What the session's next turn would continue from."""
    transcript = await store.get_transcript(scope, session_id)
    assert transcript is not None
    assert transcript.state is not None
    return transcript.state


def ids(state: State | None) -> list[str | None]:
    """The ids of a state's messages."""
    return [raw.key for raw in messages_of(state)]


def texts(state: State | None) -> list[bytes]:
    """A state's messages as they are kept."""
    return [raw.text for raw in messages_of(state)]


async def documents(stores: Inspected) -> Documents:
    """Every document of every kind and tenant, with its update time: a rewrite of the same fields shows too. None where
    a store is not made of documents: what a case says of them is not asked then."""
    return await all_documents(stores) if Capability.DOCUMENTS in stores.capabilities else {}


async def all_documents(stores: Inspected) -> Documents:
    """The same for a case that is about documents: it is skipped where there are none."""
    pages = [(await stores.database.query(Query(kind, None, ()))).documents for kind in Kind]
    return {document.path: document for page in pages for document in page}


def of_session(found: Documents, session_id: str) -> list[Path]:
    """Those that belong to a session."""
    return [
        path
        for path, document in found.items()
        if session_id in (document.fields.get("sessionId"), document.fields.get("id"))
    ]


async def empty_session(store: Store, session_id: str) -> None:
    """A session that no turn has run in."""
    await store.create_session(ANN, session_id, NewSession("echo"))
