"""Requests that reach for a session or a snapshot by its id, for every route of the description. Holds no test.

Each entry makes its request out of `Things`: somebody's, which the caller must not get, or ids of nothing at all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from store.ids import mint_id


def _id() -> str:
    return mint_id()  # of one length, so that not even an answer's length differs


@dataclass(frozen=True)
class Things:
    """Ids of a session with a completed turn, and of one that a turn runs in; by default of nothing that exists."""

    session_id: str = field(default_factory=_id)
    snapshot_id: str = field(default_factory=_id)
    user_message_id: str = field(default_factory=_id)
    last_message_id: str = field(default_factory=_id)
    busy_session_id: str = field(default_factory=_id)
    busy_snapshot_id: str = field(default_factory=_id)

    @property
    def ids(self) -> tuple[str, ...]:
        """All of them, in an order that is the same for everybody's."""
        return (
            self.session_id,
            self.snapshot_id,
            self.user_message_id,
            self.last_message_id,
            self.busy_session_id,
            self.busy_snapshot_id,
        )


class Attempt(NamedTuple):
    """One request; `own` are the caller's own things, where it takes some of its own along."""

    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None


Attack: TypeAlias = Callable[[Things, Things], Attempt]  # (the target's things, the caller's own)

_STREAM = {"accept": "text/event-stream"}


def _chat(**body: Any) -> Attempt:
    return Attempt("/chat", {"message": "Hello"} | body)


_HELLO = {"role": "user", "content": [{"text": "Hello"}]}


def _genkit(
    action: str,
    data: Mapping[str, Any],
    init: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Attempt:
    return Attempt(f"/agents/echo{action}", {"data": data} | ({"init": init} if init else {}), headers=headers)


ATTACKS: Mapping[tuple[str, str], Mapping[str, Attack]] = {
    ("POST", "/chat"): {
        "continues it": lambda it, own: _chat(sessionId=it.session_id, lastMessageId=it.last_message_id),
        "continues it, streaming": lambda it, own: Attempt(
            "/chat",
            {"message": "Hello", "sessionId": it.session_id, "lastMessageId": it.last_message_id},
            headers=_STREAM,
        ),
        "continues a snapshot": lambda it, own: _chat(snapshotId=it.snapshot_id, lastMessageId=it.last_message_id),
        "continues a snapshot of it": lambda it, own: _chat(
            sessionId=it.session_id, snapshotId=it.snapshot_id, lastMessageId=it.last_message_id
        ),
        "continues its own from a snapshot of it": lambda it, own: _chat(
            sessionId=own.session_id, snapshotId=it.snapshot_id, lastMessageId=own.last_message_id
        ),
        "continues it from a snapshot of its own": lambda it, own: _chat(
            sessionId=it.session_id, snapshotId=own.snapshot_id, lastMessageId=own.last_message_id
        ),
        "detached": lambda it, own: _chat(sessionId=it.session_id, lastMessageId=it.last_message_id, detach=True),
        "joins the running turn": lambda it, own: _chat(sessionId=it.busy_session_id),
        "sends the first message again": lambda it, own: Attempt(
            "/chat",
            {
                "message": {"id": it.user_message_id, "role": "user", "content": [{"text": "Hello"}]},
                "sessionId": it.session_id,
            },
        ),
    },
    ("GET", "/chat/{snapshotId}"): {
        "re-attaches": lambda it, own: Attempt(f"/chat/{it.snapshot_id}"),
        "re-attaches as a stream": lambda it, own: Attempt(f"/chat/{it.snapshot_id}", headers=_STREAM),
        "re-attaches in the middle": lambda it, own: Attempt(f"/chat/{it.snapshot_id}", query={"after": 1}),
        "re-attaches to the running turn": lambda it, own: Attempt(f"/chat/{it.busy_snapshot_id}", headers=_STREAM),
    },
    ("POST", "/abort"): {
        "aborts the running turn": lambda it, own: Attempt("/abort", {"snapshotId": it.busy_snapshot_id}),
        "aborts what the session runs": lambda it, own: Attempt("/abort", {"sessionId": it.busy_session_id}),
        "aborts a settled turn": lambda it, own: Attempt("/abort", {"snapshotId": it.snapshot_id}),
    },
    ("GET", "/snapshot"): {
        "reads it": lambda it, own: Attempt("/snapshot", query={"snapshotId": it.snapshot_id}),
        "reads the running turn": lambda it, own: Attempt("/snapshot", query={"snapshotId": it.busy_snapshot_id}),
        "reads the latest": lambda it, own: Attempt("/snapshot", query={"sessionId": it.session_id}),
        "reads its status": lambda it, own: Attempt(
            "/snapshot", query={"snapshotId": it.busy_snapshot_id, "metadataOnly": "true"}
        ),
        "reads the latest's status": lambda it, own: Attempt(
            "/snapshot", query={"sessionId": it.busy_session_id, "metadataOnly": "true"}
        ),
        "waits for the running turn": lambda it, own: Attempt(
            "/snapshot", query={"snapshotId": it.busy_snapshot_id, "wait": "0.05"}
        ),
        "waits for the session": lambda it, own: Attempt(
            "/snapshot", query={"sessionId": it.busy_session_id, "wait": "0.05"}
        ),
    },
    ("GET", "/sessions/{sessionId}"): {
        "reads it": lambda it, own: Attempt(f"/sessions/{it.session_id}"),
        "polls the running turn": lambda it, own: Attempt(f"/sessions/{it.busy_session_id}"),
    },
    ("GET", "/sessions/{sessionId}/messages"): {
        "reads the transcript": lambda it, own: Attempt(f"/sessions/{it.session_id}/messages"),
        "reads a page": lambda it, own: Attempt(f"/sessions/{it.session_id}/messages", query={"limit": 1}),
    },
    ("GET", "/sessions/{sessionId}/snapshots"): {
        "reads the tree": lambda it, own: Attempt(f"/sessions/{it.session_id}/snapshots"),
    },
    ("PATCH", "/sessions/{sessionId}"): {
        "renames it": lambda it, own: Attempt(f"/sessions/{it.session_id}", {"title": "Mine"}),
        "changes its model": lambda it, own: Attempt(f"/sessions/{it.session_id}", {"model": "other"}),
        "renames the busy one": lambda it, own: Attempt(f"/sessions/{it.busy_session_id}", {"title": "Mine"}),
    },
    ("DELETE", "/sessions/{sessionId}"): {
        "erases it": lambda it, own: Attempt(f"/sessions/{it.session_id}"),
    },
    ("POST", "/sessions/{sessionId}/truncate"): {
        "rewinds it": lambda it, own: Attempt(f"/sessions/{it.session_id}/truncate", {"messageId": it.user_message_id}),
        "rewinds it, knowing its end": lambda it, own: Attempt(
            f"/sessions/{it.session_id}/truncate",
            {"messageId": it.user_message_id, "lastMessageId": it.last_message_id},
        ),
    },
    ("POST", "/sessions/{sessionId}/restore"): {
        "restores it": lambda it, own: Attempt(f"/sessions/{it.session_id}/restore", {"snapshotId": it.snapshot_id}),
        "restores its own from it": lambda it, own: Attempt(
            f"/sessions/{own.session_id}/restore", {"snapshotId": it.snapshot_id}
        ),
    },
    ("POST", "/sessions/{sessionId}/branch"): {
        "branches from it": lambda it, own: Attempt(
            f"/sessions/{it.session_id}/branch", {"messageId": it.last_message_id}
        ),
        "branches its own at its message": lambda it, own: Attempt(
            f"/sessions/{own.session_id}/branch", {"messageId": it.last_message_id}
        ),
    },
    ("POST", "/agents/{agent}"): {
        "continues a snapshot": lambda it, own: _genkit("", {"message": _HELLO}, {"snapshotId": it.snapshot_id}),
        "continues a snapshot, streaming": lambda it, own: _genkit(
            "", {"message": _HELLO}, {"snapshotId": it.snapshot_id}, _STREAM
        ),
        "continues the running turn": lambda it, own: _genkit(
            "", {"message": _HELLO}, {"snapshotId": it.busy_snapshot_id}
        ),
        "continues a snapshot of it": lambda it, own: _genkit(
            "", {"message": _HELLO}, {"snapshotId": it.snapshot_id, "sessionId": it.session_id}
        ),
        "continues its own from a snapshot of it": lambda it, own: _genkit(
            "", {"message": _HELLO}, {"snapshotId": it.snapshot_id, "sessionId": own.session_id}
        ),
        "continues it from a snapshot of its own": lambda it, own: _genkit(
            "", {"message": _HELLO}, {"snapshotId": own.snapshot_id, "sessionId": it.session_id}
        ),
    },
    ("POST", "/agents/{agent}/getSnapshot"): {
        "reads it": lambda it, own: _genkit("/getSnapshot", {"snapshotId": it.snapshot_id}),
        "reads the latest": lambda it, own: _genkit("/getSnapshot", {"sessionId": it.session_id}),
    },
    ("POST", "/agents/{agent}/abort"): {
        "aborts the running turn": lambda it, own: _genkit("/abort", {"snapshotId": it.busy_snapshot_id}),
    },
    ("POST", "/agents/{agent}/waitForSnapshot"): {
        "waits for a settled turn": lambda it, own: _genkit("/waitForSnapshot", {"snapshotId": it.snapshot_id}),
        "waits for the running turn": lambda it, own: _genkit("/waitForSnapshot", {"snapshotId": it.busy_snapshot_id}),
    },
    ("POST", "/sessions/{sessionId}/compact"): {
        "compacts it": lambda it, own: Attempt(f"/sessions/{it.session_id}/compact", {}),
    },
}
"""Requests that must be answered as if there were nothing, by method and path of the route."""

NAMES_NOTHING: Mapping[tuple[str, str], str] = {
    ("POST", "/sessions"): "makes a session; an id that is taken has tests of its own",
    ("GET", "/sessions"): "lists the caller's; has a test of its own",
    ("DELETE", "/sessions"): "erases the caller's; has a test of its own",
    ("GET", "/retention"): "the tenant's; has a test of its own",
    ("PUT", "/retention"): "the tenant's; has a test of its own",
    ("POST", "/sweep"): "for the scheduler alone; see the tests of identity",
    ("POST", "/turn"): "for the queue alone; see the tests of identity",
    ("GET", "/health"): "reads nothing",
    ("GET", "/ready"): "reads nothing of anybody's",
    ("GET", "/openapi.json"): "reads nothing",
}
"""Routes that take nobody's id, and why they are not above."""
