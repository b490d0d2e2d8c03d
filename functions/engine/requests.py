"""What a caller asks of a turn, and the part of the transcript that it brings along."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from functions.agents.base import Agent
from store.canonical import Json
from store.errors import InvalidRequestError, MessageIdConflictError
from store.models import Claim, NewSession, Scope
from store.rules.history import has_message, interrupted_responses, messages_of, open_requests, without_answered
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
    check_tail: bool = True
    new_session_id: str | None = None  # under which a session is opened where `session_id` is None
    agent: Agent | None = None  # another one than the engine's

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
            check_tail=self.check_tail,
            new_session_id=self.new_session_id,
            snapshot_to_resume=self.snapshot_id,
            model=self.model,
            runner=runner,
            models=models,
            message_is_named=self.message_is_named,
            accept=self.accept,
        )

    def accept(self, state: State) -> None:
        """InvalidRequestError, MessageIdConflictError where the request does not fit the state it would go on with."""
        if self.message is not None and has_message(state, self.message["id"]):
            raise MessageIdConflictError(self.message["id"])  # of a message that was named the store knows already
        if self.resume is not None:
            require_answers(open_requests(messages_of(state)), self.resume)

    def given(self, state: State, mint: Callable[[], str]) -> list[dict[str, Json]]:
        """The messages that the caller's part adds to the transcript: answers to open tool requests, or what closes
        them, and the user's message."""
        answers = list((self.resume or {}).get("respond", []))
        restarted = [{"toolResponse": part["toolRequest"]} for part in (self.resume or {}).get("restart", [])]
        closing = interrupted_responses(
            without_answered(open_requests(messages_of(state)), [*answers, *restarted])  # the agent answers the latter
        )
        messages: list[dict[str, Json]] = []
        if answers or closing:
            messages.append({"id": mint(), "role": "tool", "content": [*answers, *closing]})
        if self.message is not None:
            messages.append(self.message)
        return messages


def require_answers(requests: Sequence[Json], resume: dict[str, Json]) -> None:
    """InvalidRequestError where `resume` answers what was not asked, twice, or asks to restart something else."""
    known = {request["ref"]: request for request in reversed(requests) if isinstance(request.get("ref"), str)}
    seen: set[Any] = set()
    for kind, member in (("respond", "toolResponse"), ("restart", "toolRequest")):
        for part in resume.get(kind, []):
            call = part[member]
            request = known.get(call["ref"])
            if request is None or request.get("name") != call["name"]:
                where = "was not found in session history, or is answered"
                raise InvalidRequestError(f"resume.{kind} names a call that {where}: {call['ref']!r}.")
            if call["ref"] in seen:
                raise InvalidRequestError(f"resume names the call {call['ref']!r} twice.")
            if kind == "restart" and Raw.of(call["input"]).text != Raw.of(request.get("input")).text:
                raise InvalidRequestError("resume.restart has modified inputs: it must repeat the call's own.")
            seen.add(call["ref"])
