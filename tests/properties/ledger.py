"""What the clients of a run did and were told, and what the documents say, in as few words as the promises need.

Reads the documents' fields by itself: a mistake of the store's own readers must not hide one of its writers. Sessions
are called as their user calls them, wherever they are stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from store.adapters.own_ids import own_id
from store.models import Scope, Snapshot, SnapshotStatus
from store.state import State

RUNNING = ("pending", "aborting")


@dataclass(frozen=True, slots=True)
class RowView:
    """A snapshot document."""

    id: str
    session_id: str
    origin: str
    status: str
    attempt: str
    settled_by: str | None
    parent_id: str | None
    state_digest: bytes | None
    message_id: str | None
    last_message_id: str | None
    runner: str | None

    @classmethod
    def of(cls, scope: Scope, fields: Mapping[str, Any]) -> "RowView":
        """The row in these fields."""
        return cls(
            fields["snapshotId"], own_id(scope, fields["sessionId"]), fields["origin"], fields["status"],
            fields["attempt"], fields.get("settledBy"), fields.get("parentId"), fields.get("stateDigest"),
            fields.get("messageId"), fields.get("lastMessageId"), fields.get("runner"),
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
    is_deleting: bool

    @classmethod
    def of(cls, scope: Scope, fields: Mapping[str, Any]) -> "SessionView":
        """The session in these fields."""
        return cls(
            own_id(scope, fields["id"]), fields.get("activeSnapshotId"), fields.get("headSnapshotId"),
            fields.get("lastMessageId"), fields["messageCount"], fields.get("deleting", False),
        )  # fmt: skip


VIEWED = (
    "snapshotId", "sessionId", "origin", "status", "attempt", "settledBy", "parentId", "stateDigest", "messageId",
    "lastMessageId", "runner", "id", "activeSnapshotId", "headSnapshotId", "messageCount", "deleting",
)  # fmt: skip
"""The fields that the views are made of."""


@dataclass(slots=True, eq=False)
class Meant:
    """What somebody meant to publish under one row's id: by status and state, the ids of the messages that the state
    adds to the parent's. `names_parent` is whether the row may leave the head behind."""

    names_parent: bool = False
    published: dict[tuple[str, State], tuple[str, ...]] = field(default_factory=dict)

    def may_be(self, status: str, state: State, *adds: str) -> None:
        """Somebody is about to settle the row like this."""
        self.published[(status, state)] = adds

    def found(self, status: str, digest: bytes | None) -> tuple[State, tuple[str, ...]] | None:
        """What was meant, of what is stored."""
        for (meant, state), adds in self.published.items():
            if (meant, state.digest) == (status, digest):
                return state, adds
        return None


@dataclass(slots=True, eq=False)
class Told:
    """One attempt at one row, and what its client was told. `token` is None for a row written from aside."""

    snapshot_id: str
    token: str | None
    denied: str | None = None
    acknowledged: Snapshot | None = None


@dataclass(slots=True)
class Ledger:
    """Everything so far.

    `states` are the published states by row; `removed` are turns that somebody has rewound or branched off from on
    purpose; `touched` are rows whose metadata somebody has corrected; `flagged` are rows whose abort was confirmed;
    `adopted` are the attempts by which queued rows got a runner; `opened` are the sessions that messages have opened;
    `deleted` are sessions that are being deleted."""

    rows: dict[str, RowView] = field(default_factory=dict)
    sessions: dict[str, SessionView] = field(default_factory=dict)
    meant: dict[str, Meant] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    states: dict[str, State] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    flagged: set[str] = field(default_factory=set)
    adopted: dict[str, str] = field(default_factory=dict)
    opened: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def tell(self, snapshot_id: str, token: str | None) -> Told:
        """Opens an account of what a client is told of an attempt."""
        self.told.append(Told(snapshot_id, token))
        return self.told[-1]

    def history(self, snapshot_id: str | None) -> list[str]:
        """The rows that a row continues, itself included, oldest first."""
        found: list[str] = []
        while snapshot_id is not None and snapshot_id not in found:
            found.append(snapshot_id)
            row = self.rows.get(snapshot_id)
            snapshot_id = row.parent_id if row else None
        return found[::-1]

    def running(self, session_id: str) -> set[str]:
        """The session's rows that nobody has settled."""
        return {row.id for row in self.rows.values() if row.is_running and row.session_id == session_id}

    def resumable(self, session_id: str) -> list[str]:
        """The session's rows that a turn may continue from."""
        return [row.id for row in self.rows.values() if row.is_resumable and row.session_id == session_id]

    def forget(self, session_id: str) -> None:
        """The session is being deleted: what was promised of it ends."""
        self.deleted.add(session_id)
        del self.sessions[session_id]
        gone = {row.id for row in self.rows.values() if row.session_id == session_id}
        self.told = [told for told in self.told if told.snapshot_id not in gone]
        self.flagged -= gone


def status_is_kept(before: str, after: str) -> bool:
    """Whether a row of one status may be of the other at the next commit."""
    settled = [status.value for status in SnapshotStatus if status.is_terminal and status is not SnapshotStatus.EXPIRED]
    nexts = {"pending": ["pending", "aborting", *settled], "aborting": ["aborting", "aborted"]}
    return after in nexts.get(before, [before])
