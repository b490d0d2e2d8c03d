"""Work that outlives its request where the instance may not: a queue that calls back."""

from typing import Final, Protocol

from store.models import Scope

QUEUE_SECONDS: Final = 300.0  # how long a turn may wait in the queue before it reads as expired


class TurnQueue(Protocol):
    """Calls the function `turn` with what was enqueued, at least once, until it is answered with a success."""

    async def enqueue(self, scope: Scope, snapshot_id: str) -> None:
        """Queues the turn; the same one again is the same task. UnavailableError."""

    async def forget(self, snapshot_id: str) -> None:
        """Takes the turn out again, as far as that is still possible. Never raises."""
