"""From an agent's events to messages, state, and the turn's events. Pure: no I/O, no clock.

A model message collects text, reasoning and tool requests; tool responses go to a tool message behind it; what the
model says next starts a new model message.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jsonpatch

from functions.agents.base import (
    AddArtifact,
    AgentEvent,
    Finish,
    ModelMessage,
    ReasoningDelta,
    SetCustom,
    TextDelta,
    ToolRequest,
    ToolResponse,
    Usage,
)
from functions.dialects.native import ARTIFACT, REASONING_DELTA, STATE_PATCH, TEXT_DELTA, TOOL_REQUEST, TOOL_RESPONSE
from store.canonical import Json
from store.rules.fields import require_texts, require_usage
from store.rules.history import messages_of
from store.rules.transcripts import with_calls_closed
from store.state import Raw, State

_MESSAGE_DEPTH = 3


class Event(NamedTuple):
    """One event of a turn, before it has an id."""

    name: str
    data: Json


class Assembly:
    """What one turn has produced so far, on top of `state`."""

    def __init__(
        self, state: State, given: Sequence[dict[str, Json]], message_id: str, mint: Callable[[], str]
    ) -> None:
        self._state = state
        self._messages = list(given)  # what the turn adds to the transcript; `given` is the caller's part
        self._given = len(given)
        self._next_id: str | None = message_id  # announced at the turn's start, for the first message of the model
        self._mint = mint
        self._half = ""  # a high surrogate that waits for its other half in the next delta
        self._custom_is_sent = False
        self._custom: Json = state.get("custom")
        self._artifacts: list[dict[str, Json]] | None = None
        self.usage: dict[str, int] | None = None
        self.finish_reason: str | None = None
        self.interrupts = False

    def insert_compaction(self, message: dict[str, Json]) -> None:
        """Puts a compaction that was made for the turn right before the user's message, the last one that was given:
        what closes earlier calls belongs to the part that is summed up."""
        self._messages.insert(self._given - 1, message)
        self._given += 1

    def add(self, event: AgentEvent) -> Iterator[Event]:
        """Takes the agent's next event and gives those that the turn's readers see. TypeError for anything else."""
        match event:
            case TextDelta(text):
                yield from self._add_text("text", TEXT_DELTA, text)
            case ReasoningDelta(text):
                yield from self._add_text("reasoning", REASONING_DELTA, text)
            case ModelMessage(content):
                self._add_whole(content)
            case ToolRequest():
                yield self._add_request(event)
            case ToolResponse(name, ref, output):
                message = self._message("tool")
                response = {"name": name, "ref": ref, "output": output}
                message["content"].append({"toolResponse": response})
                yield Event(TOOL_RESPONSE, {"messageId": message["id"], **response})
            case SetCustom(value):
                yield self._set_custom(value)
            case AddArtifact():
                yield self._add_artifact(event)
            case Usage():
                self.usage = _usage(event)
                require_usage(self.usage)
            case Finish(reason):
                require_texts(finish_reason=reason)
                self.finish_reason = reason
            case _:
                raise TypeError(f"An agent cannot yield {type(event).__name__}.")

    def _message(self, role: str) -> dict[str, Json]:
        """The message that a part of this role goes to; a new one where another role spoke last."""
        if len(self._messages) == self._given or self._messages[-1]["role"] != role:
            message_id = self._next_id if role == "model" and self._next_id else self._mint()
            if role == "model":
                self._next_id = None
            self._messages.append({"id": message_id, "role": role, "content": []})
        return self._messages[-1]

    def _add_text(self, kind: str, name: str, text: str) -> Iterator[Event]:
        text, self._half = _split_surrogate(self._half + text)
        if not text:
            return
        message = self._message("model")
        content = message["content"]
        if content and kind in content[-1]:
            content[-1][kind] += text
        else:
            content.append({kind: text})
        yield Event(name, {"messageId": message["id"], "text": text})

    def _add_whole(self, content: Sequence[dict[str, Json]]) -> None:
        message_id, self._next_id = self._next_id or self._mint(), None
        self._messages.append({"id": message_id, "role": "model", "content": list(content)})
        metadata = [part.get("metadata") for part in content if "toolRequest" in part]
        self.interrupts = self.interrupts or any(isinstance(of, dict) and of.get("interrupt") for of in metadata)

    def _add_request(self, event: ToolRequest) -> Event:
        message = self._message("model")
        request = {"name": event.name, "ref": event.ref, "input": event.input}
        part: dict[str, Json] = {"toolRequest": request}
        if event.interrupt:
            self.interrupts = True
            part["metadata"] = {"interrupt": True}
        message["content"].append(part)
        return Event(TOOL_REQUEST, {"messageId": message["id"], **request})

    def _set_custom(self, value: Json) -> Event:
        """The first patch of a turn replaces the whole, so that a reader needs nothing from before the turn."""
        if self._custom_is_sent:
            patch = list(jsonpatch.make_patch(self._custom, value).patch)
        else:
            patch = [{"op": "replace", "path": "", "value": value}]
        self._custom, self._custom_is_sent = value, True
        return Event(STATE_PATCH, patch)

    def _add_artifact(self, event: AddArtifact) -> Event:
        artifact: dict[str, Json] = {"name": event.name, "parts": event.parts}
        if event.metadata is not None:
            artifact["metadata"] = event.metadata
        artifacts = self._artifacts if self._artifacts is not None else list(self._state.get("artifacts") or [])
        names = [known.get("name") for known in artifacts]
        if event.name in names:
            artifacts[names.index(event.name)] = artifact
        else:
            artifacts.append(artifact)
        self._artifacts = artifacts
        return Event(ARTIFACT, artifact)

    def finished(self) -> State:
        """The state after the turn as it stands."""
        if self._half:
            self._message("model")["content"].append({"text": self._half})  # refused below: half a character
        return self._with(self._messages)

    def interrupted(self) -> State:
        """The state after a turn that was stopped: what was produced is kept and marked, open calls are closed."""
        messages = [dict(message) for message in self._messages]
        produced = messages[self._given :]
        marked = next((message for message in reversed(produced) if message["role"] == "model"), None)
        if marked is None:
            marked = {"id": self._next_id or self._mint(), "role": "model", "content": []}
            messages.append(marked)
        marked["metadata"] = {**marked.get("metadata", {}), "interrupted": True}
        state = self._with(messages)
        # Of the whole history: a call that was to be run again belongs to an earlier turn.
        return state.with_messages(with_calls_closed(messages_of(state), self._mint))

    def _with(self, messages: Sequence[dict[str, Json]]) -> State:
        added = [Raw.of(message, _MESSAGE_DEPTH) for message in messages]
        state = self._state.with_messages([*(self._state.messages or ()), *added])
        if self._custom_is_sent:
            state = state.with_member("custom", Raw.of(self._custom))
        if self._artifacts is not None:
            state = state.with_member("artifacts", Raw.of(self._artifacts))
        return state


def _usage(event: Usage) -> dict[str, int]:
    counts = {
        "inputTokens": event.input_tokens,
        "outputTokens": event.output_tokens,
        "totalTokens": event.total_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _split_surrogate(text: str) -> tuple[str, str]:
    """`text` with the surrogate pairs in it joined, and a high surrogate at its end held back."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text, ""
    held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    body = text[: len(text) - len(held)]
    return body.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"), held
