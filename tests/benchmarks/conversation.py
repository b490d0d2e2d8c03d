"""A long conversation, as an instance of the service holds it: claim, answer, settle. Holds no test."""

from collections.abc import Iterable
from dataclasses import dataclass

from store.documents.store import DocumentStore
from store.ids import mint_id
from store.models import Claim, Lease, NewSession, Outcome, Scope, SnapshotStatus
from store.rules.history import last_message_id, messages_of
from store.state import Raw

SCOPE = Scope("acme", "kN3vQ8xZ2pLrT6yWb9DsFh1JmCgU")  # as long as the user ids of Firebase
_QUESTION = 400  # characters of a turn that the user says; the model says the rest


@dataclass
class Conversation:
    """One session of one store."""

    store: DocumentStore
    session_id: str | None = None
    tail: str | None = None

    async def say(self, texts: Iterable[str]) -> None:
        """One turn for each text: its beginning is the user's, its rest the model's."""
        for text in texts:
            await self.settle(await self.claim(text), text)

    async def claim(self, text: str) -> Lease:
        """The lease of the next turn."""
        given = Claim(
            session_id=self.session_id,
            snapshot_id=mint_id(),
            attempt=mint_id(),
            session=NewSession("echo"),
            message=_message("user", text[:_QUESTION]),
            message_is_named=True,
            runner=mint_id(),
            last_message_id=self.tail,
        )
        lease = await self.store.claim_turn(SCOPE, given)
        assert isinstance(lease, Lease)
        self._question = given.message
        return lease

    async def settle(self, lease: Lease, text: str) -> None:
        """Ends the turn."""
        settled = await self.store.settle_turn(lease, self.outcome(lease, text))
        self.session_id, self.tail = lease.session_id, last_message_id(settled.state)

    def outcome(self, lease: Lease, text: str) -> Outcome:
        """How the turn ends, made anew at each call."""
        assert self._question is not None
        added = [self._question, _message("model", text[_QUESTION:])]
        state = lease.state.with_messages([*messages_of(lease.state), *added])
        usage = {"inputTokens": 512, "outputTokens": 512, "totalTokens": 1024}
        return Outcome(SnapshotStatus.COMPLETED, "stop", state, usage=usage, event_count=40)

    _question: Raw | None = None


def _message(role: str, text: str) -> Raw:
    return Raw.of(message(mint_id(), role, text), depth=3)


def message(message_id: str, role: str, text: str) -> dict[str, object]:
    """A message of one text."""
    return {"id": message_id, "role": role, "content": [{"text": text}]}
