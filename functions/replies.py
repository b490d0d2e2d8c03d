"""What answers look like: records of the store as the JSON shapes of the HTTP contract. Absent rather than null."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response

from store.canonical import Json
from store.models import Abort, Session, SessionPage, Snapshot, SnapshotPage

COSTS_HEADER: Final = "x-firesession-costs"
TIMING_HEADER: Final = "server-timing"


class JsonReply(Response):
    """A JSON answer, written by the plain encoder: values go out as they were stored."""

    media_type = "application/json"

    def render(self, content: Json) -> bytes:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def time_text(time: datetime | None) -> str | None:
    """RFC 3339, UTC, with microseconds."""
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _present(members: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in members.items() if value is not None}


def session_reply(session: Session) -> dict[str, Json]:
    """A session's metadata."""
    return _present(
        {
            "id": session.id,
            "title": session.title,
            "agent": session.agent,
            "model": session.model,
            "createdAt": time_text(session.created_at),
            "updatedAt": time_text(session.updated_at),
            "expiresAt": time_text(session.expires_at),
            "temporary": session.temporary,
            "isTurnActive": session.is_turn_active,
            "activeSnapshotId": session.active_snapshot_id,
            "lastMessageId": session.last_message_id,
            "messageCount": session.message_count,
            "headSnapshotId": session.head_snapshot_id,
            "branchedFrom": None if session.branched_from is None else dict(session.branched_from),
        }
    )


def sessions_reply(page: SessionPage) -> dict[str, Json]:
    """One page of sessions."""
    return _present({"sessions": [session_reply(session) for session in page.sessions], "nextCursor": page.next_cursor})


def tree_reply(page: SnapshotPage) -> dict[str, Json]:
    """One page of a session's tree; `text` is the beginning of the user's message."""
    entries = [
        _present(
            {
                "snapshotId": snapshot.snapshot_id,
                "parentId": snapshot.parent_id,
                "origin": snapshot.origin.value,
                "status": snapshot.status.value,
                "createdAt": time_text(snapshot.created_at),
                "finishReason": snapshot.finish_reason,
                "text": snapshot.message_text,
            }
        )
        for snapshot in page.snapshots
    ]
    return _present({"snapshots": entries, "nextCursor": page.next_cursor})


def snapshot_reply(snapshot: Snapshot) -> dict[str, Json]:
    """A row; with `state` where the row is settled and has one."""
    has_state = snapshot.state is not None and snapshot.status.is_terminal
    return _present(
        {
            "snapshotId": snapshot.snapshot_id,
            "sessionId": snapshot.session_id,
            "parentId": snapshot.parent_id,
            "origin": snapshot.origin.value,
            "status": snapshot.status.value,
            "finishReason": snapshot.finish_reason,
            "error": None if snapshot.error is None else dict(snapshot.error),
            "model": snapshot.model,
            "createdAt": time_text(snapshot.created_at),
            "updatedAt": time_text(snapshot.updated_at),
            "heartbeatAt": time_text(snapshot.heartbeat_at),
            "state": snapshot.state.value() if has_state and snapshot.state else None,
        }
    )


def abort_reply(abort: Abort) -> dict[str, Any]:
    """What an abort did."""
    return {
        "snapshotId": abort.snapshot_id,
        "previousStatus": abort.previous.value,
        "status": abort.status.value,
    }
