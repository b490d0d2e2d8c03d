"""Finds the agent that the settings name. The only place that knows the ready-made ones."""

import importlib
import inspect
import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, cast

from functions.agents.base import Agent
from functions.agents.echo import EchoAgent
from functions.agents.replay import ReplayAgent
from functions.environment import shown
from functions.settings import Settings, SettingsError

_PLACE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def load_agent(settings: Settings) -> Agent:
    """The agent of `AGENT`: a ready-made one, or `package.module:attribute`, which is an agent or makes one when called
    without arguments. SettingsError names AGENT, or REPLAY_FILE; errors inside the named module come through."""
    make = READY_MADE.get(settings.agent)
    if make is not None:
        return make(settings)
    if not _PLACE.fullmatch(settings.agent):
        known = ", ".join(READY_MADE)
        raise SettingsError("AGENT", f"must be {known} or package.module:attribute, not {shown(settings.agent)}")
    return _agent_at(settings.agent)


def _echo(settings: Settings) -> Agent:
    return EchoAgent(settings.echo_delay_ms / 1000)


def _replay(settings: Settings) -> Agent:
    if settings.replay_file is None or not settings.replay_file.is_file():
        raise SettingsError("REPLAY_FILE", f"must name a file of recorded sessions; {settings.replay_file} is none")
    return ReplayAgent(settings.replay_file, settings.echo_delay_ms / 1000)


READY_MADE: Final[dict[str, Callable[[Settings], Agent]]] = {"echo": _echo, "replay": _replay}


def _agent_at(place: str) -> Agent:
    found = _found_at(place)
    # A class has the attributes of its instances, so it would pass for an agent; it makes one.
    if isinstance(found, type) or (callable(found) and not _is_agent(found)):
        found = _made_by(found, place)
    if not _is_agent(found):
        raise SettingsError("AGENT", f"{place} is no agent: it needs a name and a method run(turn)")
    return cast(Agent, found)


def _found_at(place: str) -> Any:
    name, _, attribute = place.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SettingsError("AGENT", f"{place} cannot be imported: {error}") from error
    try:
        return attrgetter(attribute)(module)
    except AttributeError as error:
        raise SettingsError("AGENT", f"the module {name} has no {attribute}") from error


def _made_by(make: Callable[[], Any], place: str) -> Any:
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise SettingsError("AGENT", f"{place} cannot be called without arguments: {error}") from error
    return make()


def _is_agent(found: object) -> bool:
    return isinstance(getattr(found, "name", None), str) and callable(getattr(found, "run", None))
