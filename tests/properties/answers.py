"""What must hold of every answer that a client was given, at once and for ever after."""

from collections.abc import Iterable
from dataclasses import replace

from store.adapters.own_ids import stored_id
from store.database import Condition, Kind, Query
from store.documents.store import DocumentStore
from store.models import Abort, Beat, Lease, SameSend, Snapshot, SnapshotStatus
from tests.properties.ledger import Told
from tests.properties.oracle import Oracle, require


class Witness(Oracle):
    """An oracle that also hears of every answer."""

    def denied(self, told: Told, why: str) -> None:
        """The client was told that nothing of its attempt was published, or that it never held the lease."""
        row = self.ledger.rows.get(told.snapshot_id)
        if row is not None and row.session_id in self.ledger.deleted:
            return  # a deletion takes back what was stored before it
        told.denied = why
        self.check_told()

    def leased(self, told: Told, lease: Lease, *, may_be_adopted: bool = False) -> None:
        """The client got the lease, with the state that its turn continues from."""
        row = self.ledger.rows.get(told.snapshot_id)
        is_theirs = row and (row.attempt == told.token or may_be_adopted)
        require(is_theirs, f"{told.snapshot_id} was leased, and is stored as {row}")
        parent = self.ledger.states.get(lease.parent_id or "")
        state = None if lease.parent_id is None else lease.state
        require(state == parent, f"the lease of {told.snapshot_id} gave another state than {lease.parent_id} has")
        if lease.is_new_session and lease.message_id is not None:
            first = self.ledger.opened.setdefault(lease.message_id, lease.session_id)
            require(first == lease.session_id, f"{lease.message_id} has opened {first} and {lease.session_id}")

    def adopted(self, told: Told, lease: Lease) -> None:
        """A runner got a queued turn."""
        first = self.ledger.adopted.setdefault(told.snapshot_id, str(told.token))
        require(first == told.token, f"{told.snapshot_id} was given to two runners")
        if self.ledger.rows[told.snapshot_id].is_running:
            self.leased(told, lease)

    def same_send(self, message_id: str, answer: SameSend) -> None:
        """The client was referred to another turn of its message."""
        row = self.ledger.rows.get(answer.snapshot_id)
        require(row and row.message_id == message_id, f"the turn of {message_id} is not {row}")
        if not answer.is_running:
            require(row and row.is_resumable, f"{message_id} was said to be done by {row}")

    def beaten(self, told: Told, beat: Beat) -> None:
        """The client got a heartbeat's verdict."""
        row = self.ledger.rows[told.snapshot_id]
        if beat is Beat.LOST:
            self.denied(told, "lost")
        if beat is Beat.ABORTING:
            require(row.status != "pending", f"{row.id} was said to be aborting, and is not")

    def acknowledged(self, told: Told, snapshot: Snapshot) -> None:
        """The client was told that this is stored."""
        told.acknowledged = snapshot
        self.check_told()

    def aborted(self, answer: Abort) -> None:
        """The client was told what its abort did."""
        if answer.session_id in self.ledger.deleted:
            return
        if answer.status in (SnapshotStatus.ABORTING, SnapshotStatus.ABORTED):
            self.ledger.flagged.add(answer.snapshot_id)
        else:
            row = self.ledger.rows[answer.snapshot_id]
            require(row.status == answer.status, f"{row.id} is {row.status}, and its abort answered {answer.status}")
        self.check_told()

    def never_stored(self, ids: Iterable[str], why: str) -> None:
        """The client was refused, and these ids were minted for what it asked."""
        for row_id in ids:
            self.denied(self.ledger.tell(row_id, None), why)

    def check_told(self) -> None:
        for told in self.ledger.told:
            if told.denied is not None:
                self._check_denied(told, told.denied)
            if told.acknowledged is not None:
                self._check_acknowledged(told, told.acknowledged)
        for row_id in self.ledger.flagged:
            status = self.ledger.rows[row_id].status
            require(status in ("aborting", "aborted"), f"{row_id} was aborted, and is {status}")

    def _check_denied(self, told: Told, why: str) -> None:
        row = self.ledger.rows.get(told.snapshot_id)
        if row is None:
            return
        require(told.token is not None, f"{told.snapshot_id} was told {why!r}, and is stored as {row}")
        if row.attempt == told.token:
            require(row.settled_by != told.token, f"{row.id} was told {why!r}, and has published {row}")
            require(not row.is_running or not self._structural, f"{row.id} was told {why!r}, and still holds the lease")

    def _check_acknowledged(self, told: Told, snapshot: Snapshot) -> None:
        row = self.ledger.rows.get(told.snapshot_id)
        require(row and row.status == snapshot.status, f"{told.snapshot_id} was {snapshot.status}, and is {row}")
        if row is None or told.token is None:
            return
        require(row.settled_by == told.token, f"{row.id} was acknowledged, and settled by {row.settled_by}")
        if snapshot.state is None:
            return
        session = self.ledger.sessions[row.session_id]
        is_there = row.id in self.ledger.history(session.head_id) or row.id in self.ledger.removed
        require(is_there, f"{row.id} was acknowledged, and is not in the history of {session.head_id}")

    async def finish(self, stores: list[DocumentStore]) -> None:
        """Everything is read once more, and compared with what clients were told."""
        await self.check_rest(stores)
        for told in self.ledger.told:
            if told.acknowledged is not None and told.snapshot_id not in self.ledger.touched:
                read = await self._cold().get_snapshot(self._scope, told.snapshot_id)
                wanted = replace(told.acknowledged, heartbeat_at=read.heartbeat_at if read else None)
                require(read == wanted, f"{told.snapshot_id} reads as {read}, its client was told {wanted}")

    async def gone(self, session_id: str) -> None:
        """The client was told that no document of the session remains."""
        for kind in (Kind.SNAPSHOTS, Kind.SHARDS):
            for stored in (session_id, stored_id(self._scope, session_id)):
                where = (Condition("sessionId", "==", stored),)
                found = await self._raw.query(Query(kind, self._scope.tenant, where, mask=("sessionId",)))
                left = [document.path.id for document in found.documents]
                require(not left, f"{session_id} was said to be deleted, and {left} remain")
