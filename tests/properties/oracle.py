"""What must hold after every commit that landed and every answer that was given, whatever the order and the faults."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from store.database import Database, Kind, Write
from store.documents.store import DocumentStore
from store.models import Abort, Beat, Lease, SameSend, Scope, Snapshot, SnapshotStatus
from store.rules.history import messages_of
from store.state import State
from tests.properties.ledger import VIEWED, Attempt, Ledger, RowView, SessionView, status_is_kept


class BrokenPromiseError(AssertionError):
    """Something that must always hold does not."""


def require(holds: object, promise: str) -> None:
    """BrokenPromiseError with the promise unless it holds."""
    if not holds:
        raise BrokenPromiseError(promise)


class Oracle:
    """Hears of every landed commit and of every answer. `cold` opens a store that has read nothing yet.

    With `structural` off only what a client can see is checked, not how rows and leases hang together: for the proof
    that clients would notice if they did not."""

    def __init__(
        self, raw: Database, scope: Scope, cold: Callable[[], DocumentStore], *, structural: bool = True
    ) -> None:
        self.ledger = Ledger()
        self._raw = raw
        self._scope = scope
        self._cold = cold
        self._structural = structural

    # Commits.

    async def landed(self, writes: Sequence[Write]) -> None:
        """Looks at what a commit has written."""
        paths = [write.path for write in writes if write.path.kind in (Kind.SNAPSHOTS, Kind.POINTERS)]
        read = await self._raw.get(paths, mask=VIEWED)
        heads: list[tuple[SessionView, str | None]] = []
        for path, document in read.documents.items():
            if document is None:
                continue  # refused, as one write of several may be
            if path.kind is Kind.SNAPSHOTS:
                self._take_row(RowView.of(document.fields))
            else:
                heads += self._take_session(SessionView.of(document.fields))
        for session, former in heads:
            await self._head_moved(session, former)
        self._check_leases()
        self._check_told()

    def _take_row(self, row: RowView) -> None:
        former = self.ledger.rows.get(row.id)
        self.ledger.rows[row.id] = row
        if former is None:
            return
        require(status_is_kept(former.status, row.status), f"{row.id} went from {former.status} to {row.status}")
        if not former.is_running:
            require(former.settled == row.settled, f"the settled row {row.id} changed: {former} became {row}")

    def _take_session(self, session: SessionView) -> list[tuple[SessionView, str | None]]:
        former = self.ledger.sessions.get(session.id)
        self.ledger.sessions[session.id] = session
        former_head = former.head_id if former else None
        return [] if session.head_id == former_head else [(session, former_head)]

    def _check_leases(self) -> None:
        if not self._structural:
            return
        for session in self.ledger.sessions.values():
            named = {session.active_id} - {None}
            running = self.ledger.running(session.id)
            require(running == named, f"session {session.id} names {named}, but {running} are not settled")

    async def _head_moved(self, session: SessionView, former: str | None) -> None:
        ledger = self.ledger
        head = ledger.rows[session.head_id or ""]
        require(head.is_resumable, f"the head {head.id} is {head.status} or has no state")
        if head.parent_id != former:
            require(
                ledger.attempts[head.id].names_parent,
                f"the head moved from {former} to {head.id}, which continues {head.parent_id} without having named it",
            )
        ledger.removed |= set(ledger.history(former))
        ledger.removed -= set(ledger.history(head.id))
        await self._check_transcript(session, self._cold())

    async def _check_transcript(self, session: SessionView, store: DocumentStore) -> None:
        transcript = await store.get_transcript(self._scope, session.id)
        state = transcript.state if transcript else None
        if session.head_id is None:
            require(state is None, f"session {session.id} has a state but no head")
            return
        ids = [message.key for message in messages_of(state)]
        require(len(set(ids)) == len(ids), f"a message is in the transcript twice: {ids}")
        expected = self.ledger.messages(session.head_id)
        require(ids == expected, f"the transcript of {session.head_id} holds {ids}, its turns have made {expected}")
        require((session.message_count, session.last_message_id) == (len(ids), ids[-1]), f"{session} miscounts {ids}")
        self._check_state(self.ledger.rows[session.head_id], state)

    def _check_state(self, row: RowView, state: State | None) -> None:
        """A row's state is one that somebody meant to publish in it."""
        is_meant = state is not None and (row.status, state) in self.ledger.attempts[row.id].published
        require(is_meant, f"{row} reads as {state}")

    # Answers.

    def denied(self, attempt: Attempt, why: str) -> None:
        """The client was told that nothing of its attempt was published, or that it never held the lease."""
        attempt.denied = why
        self._check_told()

    def leased(self, attempt: Attempt, lease: Lease) -> None:
        """The client got the lease, with the state that its turn continues from."""
        row = self.ledger.rows.get(attempt.snapshot_id)
        require(row and row.attempt == attempt.token, f"{attempt.snapshot_id} was leased and is not stored: {row}")
        parent = self.ledger.rows.get(lease.parent_id or "")
        digest = None if lease.parent_id is None else lease.state.digest
        stored = parent.state_digest if parent else None
        require(digest == stored, f"the lease of {attempt.snapshot_id} gave another state than {lease.parent_id}'s")

    def same_send(self, message_id: str, answer: SameSend) -> None:
        """The client was referred to another turn of its message."""
        row = self.ledger.rows.get(answer.snapshot_id)
        require(row and row.message_id == message_id, f"the turn of {message_id} is not {row}")
        if not answer.is_running:
            require(row and row.is_resumable, f"{message_id} was said to be done by {row}")

    def beaten(self, attempt: Attempt, beat: Beat) -> None:
        """The client got a heartbeat's verdict."""
        row = self.ledger.rows[attempt.snapshot_id]
        if beat is Beat.LOST:
            self.denied(attempt, "lost")
        if beat is Beat.ABORTING:
            require(row.status != "pending", f"{row.id} was said to be aborting and is not")

    def acknowledged(self, attempt: Attempt, snapshot: Snapshot) -> None:
        """The client was told that this is stored."""
        attempt.acknowledged = snapshot
        self._check_told()

    def aborted(self, answer: Abort) -> None:
        """The client was told what its abort did."""
        if answer.status in (SnapshotStatus.ABORTING, SnapshotStatus.ABORTED):
            self.ledger.flagged.add(answer.snapshot_id)
        else:
            row = self.ledger.rows[answer.snapshot_id]
            require(row.status == answer.status, f"{row.id} is {row.status}, and its abort answered {answer.status}")
        self._check_told()

    def _check_told(self) -> None:
        for attempt in self.ledger.attempts.values():
            if attempt.denied is not None:
                self._check_denied(attempt, attempt.denied)
        for attempt, snapshot in self.ledger.acknowledged():
            self._check_acknowledged(attempt, snapshot)
        for row_id in self.ledger.flagged:
            status = self.ledger.rows[row_id].status
            require(status in ("aborting", "aborted"), f"{row_id} was aborted, and is {status}")

    def _check_denied(self, attempt: Attempt, why: str) -> None:
        row = self.ledger.rows.get(attempt.snapshot_id)
        if row is None:
            return
        require(attempt.token is not None, f"{attempt.snapshot_id} was told {why!r}, and is stored as {row}")
        require(row.settled_by != attempt.token, f"{row.id} was told {why!r}, and has published {row}")
        require(not row.is_running or not self._structural, f"{row.id} was told {why!r}, and still holds the lease")

    def _check_acknowledged(self, attempt: Attempt, snapshot: Snapshot) -> None:
        row = self.ledger.rows.get(attempt.snapshot_id)
        require(row and row.status == snapshot.status, f"{attempt.snapshot_id} was {snapshot.status}, and is {row}")
        if row is None or attempt.token is None:
            return
        require(row.settled_by == attempt.token, f"{row.id} was acknowledged, and settled by {row.settled_by}")
        if snapshot.state is None:
            return
        session = self.ledger.sessions[row.session_id]
        is_there = row.id in self.ledger.history(session.head_id) or row.id in self.ledger.removed
        require(is_there, f"{row.id} was acknowledged, and is not in the history of {session.head_id}")

    # The end.

    async def finish(self, stores: Sequence[DocumentStore]) -> None:
        """Reads everything once more: by stores that have run all along, and by one that has read nothing yet."""
        for session in self.ledger.sessions.values():
            for store in (*stores, self._cold()):
                await self._check_transcript(session, store)
        for row in self.ledger.rows.values():
            await self._check_row(row, await self._cold().get_snapshot(self._scope, row.id))

    async def _check_row(self, row: RowView, read: Snapshot | None) -> None:
        require(read is not None, f"{row.id} cannot be read")
        assert read is not None
        if row.state_digest is not None:
            self._check_state(row, read.state)
        told = self.ledger.attempts[row.id].acknowledged
        if told is not None and row.id not in self.ledger.touched:
            require(_without_beat(read) == _without_beat(told), f"{row.id} reads as {read}, its client was told {told}")


def _without_beat(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, heartbeat_at=None)
