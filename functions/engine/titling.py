"""Names for sessions that nobody has named: the agent's, made beside the reply, else the message's first words."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from functions.agents.base import Agent, Turn
from store.models import Lease, Outcome
from store.rules.history import text_of

_LOG = logging.getLogger("firesession.titling")
PATIENCE = 2.0  # seconds that a turn's end waits for its title
_LONGEST = 100  # characters
_FIRST_WORDS = 60  # characters


class Titling:
    """The title of one turn's session; makes none where the session has had a turn already."""

    def __init__(self, agent: Agent, turn: Turn, lease: Lease) -> None:
        self._message = turn.message
        self._is_first = lease.parent_id is None and turn.message is not None
        own: Callable[[Turn], Awaitable[str | None]] | None = getattr(agent, "title", None)
        self._asking = asyncio.ensure_future(own(turn)) if own is not None and self._is_first else None

    async def applied_to(self, outcome: Outcome) -> Outcome:
        """The outcome with the title, waited for at most two seconds."""
        if not self._is_first or outcome.state is None:
            self._stop()
            return outcome
        return replace(outcome, auto_title=await self._own() or first_words(self._message))

    async def _own(self) -> str | None:
        if self._asking is None:
            return None
        try:
            title = await asyncio.wait_for(self._asking, PATIENCE)
        except TimeoutError:
            return None
        except Exception:  # a title is not worth a turn
            _LOG.exception("no title was made")
            return None
        return " ".join(title.split())[:_LONGEST].rstrip() or None if isinstance(title, str) else None

    def _stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()


def first_words(message: object) -> str | None:
    """The beginning of a message's text, cut between words; None where it has none."""
    words = " ".join(text_of(message).split())
    if len(words) <= _FIRST_WORDS:
        return words or None
    cut = words[: _FIRST_WORDS - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"
