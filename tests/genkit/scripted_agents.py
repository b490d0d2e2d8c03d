"""The agents that Genkit's specification speaks of, for a server: `AGENT=tests.genkit.scripted_agents:Agents`.

What the model says is scripted: a JSON file, which MODEL_RESPONSES names, holds `{"responses": [...], "chunks": [...]}`
for the next turn. Each response is a model's message with its finish reason; tools are run as the specification says.
"""

import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from functions.agents.base import (
    AddArtifact,
    AgentError,
    AgentEvent,
    Finish,
    ModelMessage,
    SetCustom,
    TextDelta,
    ToolResponse,
    Turn,
)
from store.canonical import Json


class Scripted:
    """Says what the script says; calls `testTool` by itself, and stops at the tools that a person has to answer."""

    def __init__(self, name: str, *, keeps_state: bool) -> None:
        self.name = name
        self.keeps_state = keeps_state

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        script = _script()
        responses, chunks = list(script["responses"]), list(script.get("chunks") or [])
        for part in (turn.resume or {}).get("restart", []):
            yield _confirmed(part["toolRequest"])
        while responses:
            response = responses.pop(0)
            content: list[Any] = response["message"]["content"]
            calls = [part["toolRequest"] for part in content if "toolRequest" in part]
            waiting = [call for call in calls if call["name"] != "testTool"]
            if chunks:
                for chunk in chunks.pop(0):
                    for part in chunk["content"]:
                        yield TextDelta(part["text"])
            else:
                yield ModelMessage([_marked(part) if waiting else part for part in content])
            if waiting:
                return
            for call in calls:
                yield ToolResponse(call["name"], call["ref"], "tool called")
            if not calls:
                yield Finish(response.get("finishReason", "stop"))
                return


def _script() -> dict[str, Any]:
    script: dict[str, Any] = json.loads(Path(os.environ["MODEL_RESPONSES"]).read_text(encoding="utf-8"))
    return script


def _marked(part: Json) -> Json:
    return {**part, "metadata": {"interrupt": True}} if "toolRequest" in part else part


def _confirmed(call: Json) -> ToolResponse:
    return ToolResponse(call["name"], call["ref"], {"result": f"confirmed: {call['input']['action']}"})


class Custom:
    """Does what its function does, and says `done`."""

    def __init__(self, name: str, does: Callable[[Turn], list[AgentEvent]], *, keeps_state: bool) -> None:
        self.name = name
        self.keeps_state = keeps_state
        self._does = does

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        for event in self._does(turn):
            yield event
        yield ModelMessage([{"text": "done"}])


class Blocking:
    """Waits until it is aborted."""

    name = "customAgentBlocking"

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        await turn.aborted.wait()
        yield TextDelta("unblocked")


class Failing:
    """Fails."""

    name = "customAgentFailing"

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        for _ in (turn,):
            raise AgentError("UNAVAILABLE", "intentional failure")
        yield TextDelta("")


def _count(turn: Turn) -> list[AgentEvent]:
    return [SetCustom({"counter": ((turn.custom or {}).get("counter") or 0) + 1})]


def _count_twice(_turn: Turn) -> list[AgentEvent]:
    steps = ({"counter": 1, "status": "working"}, {"counter": 2, "status": "working"}, {"counter": 2, "status": "done"})
    return [SetCustom(step) for step in steps]


def _write_artifacts(_turn: Turn) -> list[AgentEvent]:
    return [AddArtifact(name, [{"text": text}]) for name, text in (("doc1", "v1"), ("doc1", "v2"), ("doc2", "other"))]


def _write_next_artifact(turn: Turn) -> list[AgentEvent]:
    number = len(turn.artifacts) + 1
    return [AddArtifact(f"doc{number}", [{"text": f"content{number}"}])]


class Agents(Scripted):
    """One of them, with all others."""

    def __init__(self) -> None:
        super().__init__("promptAgentWithStore", keeps_state=True)
        self.others = (
            Scripted("promptAgent", keeps_state=False),
            Scripted("promptAgentWithTools", keeps_state=False),
            Scripted("promptAgentWithInterrupt", keeps_state=True),
            Scripted("promptAgentWithRestartTool", keeps_state=True),
            Blocking(),
            Failing(),
            Custom("customAgentWithArtifacts", _write_artifacts, keeps_state=False),
            Custom("customAgentWithCustomState", _count, keeps_state=False),
            Custom("customAgentWithMultiCustomState", _count_twice, keeps_state=False),
            Custom("customAgentWithArtifactsStore", _write_next_artifact, keeps_state=True),
            Custom("customAgentWithCustomStateStore", _count, keeps_state=True),
        )
