"""The agents of one server by name. One is configured; it may bring others, for protocols that name the agent."""

from collections.abc import Mapping, Sequence

from functions.agents.base import Agent
from store.errors import ModelUnavailableError


def catalogue(agent: Agent) -> Mapping[str, Agent]:
    """The configured agent, and those in its optional attribute `others`."""
    others: Sequence[Agent] = getattr(agent, "others", ())
    return {known.name: known for known in (*others, agent)}


def keeps_state(agent: Agent) -> bool:
    """Whether the agent's sessions are stored here; with an attribute `keeps_state` of False its clients keep their
    state themselves, and nothing is stored."""
    kept: bool = getattr(agent, "keeps_state", True)
    return kept


def require_known_model(agent: Agent, model: str | None) -> None:
    """ModelUnavailableError where the configured agent, and those that it brings, say which models they can use, and
    none says this one: a session with it could have no turn."""
    known = [getattr(one, "models", None) for one in catalogue(agent).values()]
    if model is not None and all(models is not None and model not in models for models in known):
        raise ModelUnavailableError(model)
