"""The agents of one server by name. One is configured; it may bring others, for protocols that name the agent."""

from collections.abc import Mapping, Sequence

from functions.agents.base import Agent


def catalogue(agent: Agent) -> Mapping[str, Agent]:
    """The configured agent, and those in its optional attribute `others`."""
    others: Sequence[Agent] = getattr(agent, "others", ())
    return {known.name: known for known in (*others, agent)}


def keeps_state(agent: Agent) -> bool:
    """Whether the agent's sessions are stored here; with an attribute `keeps_state` of False its clients keep their
    state themselves, and nothing is stored."""
    kept: bool = getattr(agent, "keeps_state", True)
    return kept
