"""What must hold after every commit that landed, whatever the order and the faults; what clients are told is checked by
`tests.properties.answers`, which builds on this."""

from collections.abc import Callable, Sequence

from store.database import Database, Kind, Write
from store.documents.store import DocumentStore
from store.models import Scope
from store.rules.history import messages_of
from store.state import State
from tests.properties.ledger import VIEWED, Ledger, RowView, SessionView, status_is_kept


class BrokenPromiseError(AssertionError):
    """Something that must always hold does not."""


def require(holds: object, promise: str) -> None:
    """BrokenPromiseError with the promise unless it holds."""
    if not holds:
        raise BrokenPromiseError(promise)


class Oracle:
    """Hears of every landed commit. `cold` opens a store that has read nothing yet.

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

    async def landed(self, writes: Sequence[Write]) -> None:
        """Looks at what a commit has written."""
        paths = [write.path for write in writes if write.path.kind in (Kind.SNAPSHOTS, Kind.POINTERS)]
        read = await self._raw.get(paths, mask=VIEWED) if paths else None
        documents = [document for document in read.documents.values() if document is not None] if read else []
        for document in documents:
            if document.path.kind is Kind.SNAPSHOTS:
                await self._take_row(RowView.of(self._scope, document.fields))
        for document in documents:
            if document.path.kind is Kind.POINTERS:
                await self._take_session(SessionView.of(self._scope, document.fields))
        self._check_leases()
        self.check_told()

    def check_told(self) -> None:
        """Whether what clients were told still holds."""

    async def _take_row(self, row: RowView) -> None:
        former = self.ledger.rows.get(row.id)
        self.ledger.rows[row.id] = row
        if former is None:
            require(row.session_id not in self.ledger.deleted, f"{row} was written after its session was deleted")
        else:
            require(status_is_kept(former.status, row.status), f"{row.id} went from {former.status} to {row.status}")
            kept = former.is_running or former.settled == row.settled
            require(kept, f"the settled row {row.id} changed: {former} became {row}")
        if row.is_resumable and row.id not in self.ledger.states:
            self.ledger.states[row.id] = await self._published(row)

    async def _published(self, row: RowView) -> State:
        """The state that the row was meant to have: its parent's and what it adds, or what a rewind makes of it."""
        before = self.ledger.states.get(row.parent_id or "")
        if row.origin in ("truncate", "restore"):
            return await self._rewound(row, before)
        found = self.ledger.meant[row.id].found(row.status, row.state_digest)
        require(found, f"nobody meant to publish {row}")
        assert found is not None
        state, adds = found
        kept, added = messages_of(state)[: -len(adds)], messages_of(state)[-len(adds) :]
        ids = tuple(message.key for message in added)
        require([*kept] == [*messages_of(before)] and ids == adds, f"{row} lost or gained messages of {row.parent_id}")
        return state

    async def _rewound(self, row: RowView, before: State | None) -> State:
        """A rewind's state: a prefix of the former head's messages, or another row's state."""
        snapshot = await self._cold().get_snapshot(self._scope, row.id)
        state = snapshot.state if snapshot else None
        assert state is not None
        if row.origin == "restore":
            require(state in self.ledger.states.values(), f"{row} restored a state that no row has had")
            return state
        count = len(messages_of(state))
        assert before is not None
        is_prefix = state == before.with_messages(messages_of(before)[:count])
        require(is_prefix and count < len(messages_of(before)), f"{row} is no prefix of {row.parent_id}")
        return state

    async def _take_session(self, session: SessionView) -> None:
        former = self.ledger.sessions.get(session.id)
        if session.id in self.ledger.deleted:
            return
        self.ledger.sessions[session.id] = session
        if session.is_deleting:
            require(not self.ledger.running(session.id), f"{session} is deleted while a turn holds it")
            self.ledger.forget(session.id)
        elif session.head_id != (former.head_id if former else None):
            await self._head_moved(session, former.head_id if former else None)

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
        may_leave = head.id in ledger.meant and ledger.meant[head.id].names_parent
        is_next = head.parent_id == former or may_leave
        require(is_next, f"the head moved from {former} to {head.id}, which continues {head.parent_id} unasked")
        ledger.removed |= set(ledger.history(former))
        ledger.removed -= set(ledger.history(head.id))
        await self._check_transcript(session, self._cold())

    async def _check_transcript(self, session: SessionView, store: DocumentStore) -> None:
        transcript = await store.get_transcript(self._scope, session.id)
        require(transcript is not None, f"session {session.id} cannot be read")
        state = transcript.state if transcript else None
        require(state == self.ledger.states.get(session.head_id or ""), f"{session} reads as {state}")
        ids = [message.key for message in messages_of(state)]
        require(len(set(ids)) == len(ids), f"a message is in the transcript twice: {ids}")
        tail = ids[-1] if ids else None
        require((session.message_count, session.last_message_id) == (len(ids), tail), f"{session} miscounts {ids}")

    async def check_rest(self, stores: Sequence[DocumentStore]) -> None:
        """Reads everything once more: by stores that have run all along, and by one that has read nothing yet."""
        for session in self.ledger.sessions.values():
            for store in (*stores, self._cold()):
                await self._check_transcript(session, store)
        for row in self.ledger.rows.values():
            if row.session_id not in self.ledger.deleted:
                await self._check_row(row)

    async def _check_row(self, row: RowView) -> None:
        read = await self._cold().get_snapshot(self._scope, row.id)
        require(read is not None, f"{row.id} cannot be read")
        assert read is not None
        require(read.state == self.ledger.states.get(row.id), f"{row} reads as {read}")
