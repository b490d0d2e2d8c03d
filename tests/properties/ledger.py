"""What the clients of a run did and were told, and what the documents say, in as few words as the invariants need.

Reads the documents' fields by itself: a mistake of the store's own readers must not hide one of its writers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from store.models import Snapshot, SnapshotStatus
from store.state import State

RUNNING = ("pending", "aborting")


@dataclass(frozen=True, slots=True)
class RowView:
    """A snapshot document."""

    id: str
    session_id: str
    status: str
    attempt: str
    settled_by: str | None
    parent_id: str | None
    state_digest: bytes | None
    message_id: str | None
    last_message_id: str | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "RowView":
        """The row in these fields."""
        return cls(
            fields["snapshotId"], fields["sessionId"], fields["status"], fields["attempt"], fields.get("settledBy"),
            fields.get("parentId"), fields.get("stateDigest"), fields.get("messageId"), fields.get("lastMessageId"),
        )  # fmt: skip

    @property
    def is_running(self) -> bool:
        """Whether nobody has settled it."""
        return self.status in RUNNING

    @property
    def is_resumable(self) -> bool:
        """Whether a turn may continue from it."""
        return self.status in ("completed", "aborted") and self.state_digest is not None

    @property
    def settled(self) -> tuple[object, ...]:
        """What never changes once the row is settled."""
        return self.session_id, self.status, self.settled_by, self.parent_id, self.state_digest


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session document."""

    id: str
    active_id: str | None
    head_id: str | None
    last_message_id: str | None
    message_count: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "SessionView":
        """The session in these fields."""
        return cls(
            fields["id"], fields.get("activeSnapshotId"), fields.get("headSnapshotId"), fields.get("lastMessageId"),
            fields["messageCount"],
        )  # fmt: skip


VIEWED = (
    "snapshotId", "sessionId", "status", "attempt", "settledBy", "parentId", "stateDigest", "messageId",
    "lastMessageId", "id", "activeSnapshotId", "headSnapshotId", "messageCount",
)  # fmt: skip
"""The fields that the views are made of."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One try of one send, or one row saved from aside (`token` None), and what its client was told of it.

    `published` holds what may be published under its id: by status and state, the ids of the messages that the state
    adds to its parent's."""

    snapshot_id: str
    token: str | None
    names_parent: bool = False
    published: dict[tuple[str, State], tuple[str, ...]] = field(default_factory=dict)
    denied: str | None = None
    acknowledged: Snapshot | None = None

    def may_publish(self, status: str, state: State, *adds: str) -> None:
        """Somebody is about to settle the row like this."""
        self.published[(status, state)] = adds


@dataclass(slots=True)
class Ledger:
    """Everything so far. `removed` are turns that a named parent has left behind; `touched` are rows whose metadata
    somebody has corrected; `flagged` are rows whose abort was confirmed."""

    rows: dict[str, RowView] = field(default_factory=dict)
    sessions: dict[str, SessionView] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    flagged: set[str] = field(default_factory=set)

    def history(self, snapshot_id: str | None) -> list[str]:
        """The rows that a row continues, itself included, oldest first."""
        found: list[str] = []
        while snapshot_id is not None and snapshot_id not in found:
            found.append(snapshot_id)
            row = self.rows.get(snapshot_id)
            snapshot_id = row.parent_id if row else None
        return found[::-1]

    def messages(self, snapshot_id: str | None) -> list[str]:
        """The ids of the messages that a row's state must hold."""
        return [message for row_id in self.history(snapshot_id) for message in self._added(self.rows[row_id])]

    def _added(self, row: RowView) -> tuple[str, ...]:
        for (status, state), adds in self.attempts[row.id].published.items():
            if (status, state.digest) == (row.status, row.state_digest):
                return adds
        return ("a state that nobody meant to publish",)

    def running(self, session_id: str) -> set[str]:
        """The session's rows that nobody has settled."""
        return {row.id for row in self.rows.values() if row.is_running and row.session_id == session_id}

    def resumable(self, session_id: str) -> list[str]:
        """The session's rows that a turn may continue from."""
        return [row.id for row in self.rows.values() if row.is_resumable and row.session_id == session_id]

    def acknowledged(self) -> Iterator[tuple[Attempt, Snapshot]]:
        """The attempts whose clients were told that they are stored, with what they were told."""
        for attempt in self.attempts.values():
            if attempt.acknowledged is not None:
                yield attempt, attempt.acknowledged


def status_is_kept(before: str, after: str) -> bool:
    """Whether a row of one status may be of the other at the next commit."""
    settled = [status.value for status in SnapshotStatus if status.is_terminal and status is not SnapshotStatus.EXPIRED]
    nexts = {"pending": ["pending", "aborting", *settled], "aborting": ["aborting", "aborted"]}
    return after in nexts.get(before, [before])
