"""Finding the configured agent."""

import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from functions.agents.base import AgentEvent, Finish, Turn
from functions.agents.echo import EchoAgent
from functions.agents.load import load_agent
from functions.agents.replay import ReplayAgent
from functions.settings import Settings, SettingsError, read_settings


class OwnAgent:
    """An agent of somebody else's package."""

    name = "own"

    async def run(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        """Says nothing."""
        yield Finish("stop")


class CallableAgent(OwnAgent):
    """An agent that can also be called."""

    def __call__(self) -> None:
        """Makes no agent."""


def make(name: str = "own") -> OwnAgent:
    return OwnAgent()


def make_for(name: str) -> OwnAgent:
    return OwnAgent()


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `own_package.agents` with agents, things that make them, and things that are none."""
    module = ModuleType("own_package.agents")
    vars(module).update(
        agent=OwnAgent(), Agent=OwnAgent, make=make, make_for=make_for, callable_agent=CallableAgent(), number=5
    )
    monkeypatch.setitem(sys.modules, "own_package", ModuleType("own_package"))
    monkeypatch.setitem(sys.modules, "own_package.agents", module)


def settings_for(agent: str) -> Settings:
    return replace(read_settings({}), agent=agent)


def test_the_echo_agent_is_the_default() -> None:
    assert isinstance(load_agent(read_settings({})), EchoAgent)


def test_the_replay_agent_needs_a_file_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    settings = read_settings({"AGENT": "replay", "REPLAY_FILE": str(file)})
    with pytest.raises(SettingsError, match="REPLAY_FILE"):
        load_agent(settings)
    file.touch()
    assert isinstance(load_agent(settings), ReplayAgent)


@pytest.mark.parametrize("attribute", ["agent", "Agent", "make", "callable_agent"])
def test_an_own_agent_is_found_or_made(attribute: str) -> None:
    agent = load_agent(settings_for(f"own_package.agents:{attribute}"))
    assert isinstance(agent, OwnAgent)
    assert agent.name == "own"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("ehco", "must be echo, replay or package.module:attribute, not 'ehco'"),
        ("genkit", "must be echo, replay or package.module:attribute, not 'genkit'"),
        ("own_package.agents:", "must be echo, replay or"),
        ("../agents:agent", "must be echo, replay or"),
        ("missing_package:agent", "cannot be imported: No module named 'missing_package'"),
        ("own_package.agents:missing", "has no missing"),
        ("own_package.agents:number", "is no agent"),
        ("own_package.agents:make_for", "cannot be called without arguments"),
    ],
)
def test_a_wrong_agent_is_refused_by_the_settings_name(place: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_agent(settings_for(place))
    assert caught.value.name == "AGENT"
    assert reason in caught.value.reason
