"""What a caller asks of a turn, and the part of the transcript that it brings along."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from store.canonical import Json
from store.errors import InvalidRequestError
from store.models import Claim, NewSession, Scope
from store.rules.history import interrupted_responses, messages_of, open_requests, without_answered
from store.state import Raw, State

_MESSAGE_DEPTH = 3


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One turn as it was asked for. Either `message` (with its id) or `resume` is given."""

    scope: Scope
    message: dict[str, Json] | None = None
    resume: dict[str, Json] | None = None
    message_is_named: bool = False
    session_id: str | None = None
    last_message_id: str | None = None
    snapshot_id: str | None = None
    model: str | None = None
    new_session: NewSession = field(default_factory=lambda: NewSession(agent=""))
    cancels_on_disconnect: bool = False

    def claim(self, snapshot_id: str, attempt: str, runner: str | None, models: frozenset[str] | None) -> Claim:
        """The claim of this turn under ids that were minted for it. InvalidRequestError where the message or resume is
        outside of what JSON can hold."""
        return Claim(
            snapshot_id=snapshot_id,
            attempt=attempt,
            session=self.new_session,
            session_id=self.session_id,
            message=None if self.message is None else Raw.of(self.message, _MESSAGE_DEPTH),
            resume=None if self.resume is None else Raw.of(self.resume, _MESSAGE_DEPTH),
            last_message_id=self.last_message_id,
            snapshot_to_resume=self.snapshot_id,
            model=self.model,
            runner=runner,
            models=models,
            message_is_named=self.message_is_named,
            accept=self._accept,
        )

    def _accept(self, state: State) -> None:
        if self.resume is not None:
            require_answers(open_requests(messages_of(state)), self.resume)

    def given(self, state: State, mint: Callable[[], str]) -> list[dict[str, Json]]:
        """The messages that the caller's part adds to the transcript: answers to open tool requests, or what closes
        them, and the user's message."""
        answers = list((self.resume or {}).get("respond", []))
        restarted = [part["toolRequest"]["ref"] for part in (self.resume or {}).get("restart", [])]
        waiting = without_answered(open_requests(messages_of(state)), answers)
        closing = interrupted_responses([request for request in waiting if request.get("ref") not in restarted])
        messages: list[dict[str, Json]] = []
        if answers or closing:
            messages.append({"id": mint(), "role": "tool", "content": [*answers, *closing]})
        if self.message is not None:
            messages.append(self.message)
        return messages


def require_answers(requests: Sequence[Json], resume: dict[str, Json]) -> None:
    """InvalidRequestError where `resume` answers what was not asked, twice, or asks to restart something else."""
    known = {request["ref"]: request for request in requests if isinstance(request.get("ref"), str)}
    seen: set[Any] = set()
    for kind, member in (("respond", "toolResponse"), ("restart", "toolRequest")):
        for part in resume.get(kind, []):
            call = part[member]
            request = known.get(call["ref"])
            if request is None or request.get("name") != call["name"]:
                raise InvalidRequestError(f"resume.{kind} names a call that is not open: {call['ref']!r}.")
            if call["ref"] in seen:
                raise InvalidRequestError(f"resume names the call {call['ref']!r} twice.")
            if kind == "restart" and Raw.of(call["input"]).text != Raw.of(request.get("input")).text:
                raise InvalidRequestError("resume.restart must repeat the call's own input.")
            seen.add(call["ref"])
