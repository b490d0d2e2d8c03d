"""Names for sessions that nobody has named: the agent's, made beside the reply, else the message's first words."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from functions.agents.base import Agent, Turn
from store.canonical import Json
from store.models import Lease, Outcome
from store.rules.history import text_of

_LOG = logging.getLogger("firesession.titling")
PATIENCE = 2.0  # seconds that a turn's end waits for its title
_LONGEST = 100  # characters
_FIRST_WORDS = 60  # characters

Hook = Callable[[Turn], Awaitable[str | None]]


class Titling:
    """The title that one turn gives its session: none where the session has one, or where the turn has no message."""

    def __init__(self, agent: Agent, lease: Lease, message: Json | None, make_turn: Callable[[], Turn]) -> None:
        """Asks the agent, beside the reply. `make_turn` makes the copy of the turn that the agent's hook is given."""
        self._message = message
        self._is_wanted = lease.is_untitled and message is not None
        own: Hook | None = getattr(agent, "title", None)
        self._asking: asyncio.Task[object] | None = None
        if own is not None and self._is_wanted:
            self._asking = asyncio.create_task(_asked(own, make_turn()))
            self._asking.add_done_callback(_note)

    async def applied_to(self, outcome: Outcome, aborted: asyncio.Event) -> Outcome:
        """The outcome with the title, waited for at most two seconds, and not at all once the turn is aborted."""
        if not self._is_wanted or outcome.state is None:
            return outcome
        await self._wait(aborted)
        return _titled(outcome, self._own() or first_words(self._message))

    async def _wait(self, aborted: asyncio.Event) -> None:
        """Not `wait_for`, which would also wait for a hook that ignores its cancellation."""
        if self._asking is None:
            return
        stopping = asyncio.create_task(aborted.wait())
        await asyncio.wait((self._asking, stopping), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    def _own(self) -> str | None:
        """The agent's title on one line, where there is one by now. Half characters, which no database keeps, go."""
        if self._asking is None or not self._asking.done() or self._asking.cancelled():
            return None
        title = None if self._asking.exception() else self._asking.result()
        if not isinstance(title, str):
            return None
        return " ".join(title.encode(errors="ignore").decode().split())[:_LONGEST].rstrip() or None

    def stop(self) -> None:
        """The turn is over; a hook that still thinks is cancelled, and what it says is not heard."""
        if self._asking is not None and not self._asking.done():
            self._asking.cancel()


def _note(asking: "asyncio.Task[object]") -> None:
    """A title is not worth a turn: a hook that fails is told of in the log only."""
    failure = None if asking.cancelled() else asking.exception()
    if failure is not None:
        _LOG.error("no title was made", exc_info=failure)


async def _asked(own: Hook, turn: Turn) -> object:
    return await own(turn)


def _titled(outcome: Outcome, title: str | None) -> Outcome:
    """The outcome with the title, also for the case that an abort turns it into another one that is kept."""
    other = outcome.interrupted
    return replace(
        outcome,
        auto_title=None if outcome.state is None else title,
        interrupted=None if other is None else lambda: _titled(other(), title),
    )


def first_words(message: object) -> str | None:
    """The beginning of a message's text, cut between words; None where it has none."""
    words = " ".join(text_of(message).split())
    if len(words) <= _FIRST_WORDS:
        return words or None
    cut = words[: _FIRST_WORDS - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"
