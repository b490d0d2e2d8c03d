"""Reads single settings out of the environment, strictly typed. Knows no setting by name: that is `functions.settings`.

An empty value counts as absent, because shells and deployment files cannot always leave a variable out.
"""

import math
import re
from collections.abc import Mapping
from typing import Final, TypeVar

_Choice = TypeVar("_Choice", bound=str)

_ON: Final = frozenset({"1", "true", "on", "yes"})
_OFF: Final = frozenset({"0", "false", "off", "no"})
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")  # int() would also take 1_000, Arabic digits and a leading plus
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class SettingsError(Exception):
    """A setting has a value that the server must not start with. The message is one line that names it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class Environment:
    """Typed access to environment variables; every method raises SettingsError naming the variable."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def text(self, name: str) -> str | None:
        """The trimmed value, None where absent or blank."""
        return self._variables.get(name, "").strip() or None

    def choice(self, name: str, known: tuple[_Choice, ...], default: _Choice) -> _Choice:
        """One of `known`."""
        value = self.text(name)
        if value is None:
            return default
        for candidate in known:
            if candidate == value:
                return candidate
        wanted = f"one of {', '.join(known)}" if len(known) > 1 else f"{known[0]} (no other value is known)"
        raise SettingsError(name, f"must be {wanted}, not {shown(value)}")

    def flag(self, name: str, default: bool = False) -> bool:
        """A switch: on or off, true or false, yes or no, 1 or 0."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in _ON | _OFF:
            raise SettingsError(name, f"must be on or off, not {shown(value)}")
        return value.lower() in _ON

    def integer(self, name: str, default: int, least: int, most: int | None = None) -> int:
        """A whole number in decimal digits, from `least` to `most`."""
        value = self.text(name)
        if value is None:
            return default
        if not _INTEGER.fullmatch(value):
            raise SettingsError(name, f"must be a whole number, not {shown(value)}")
        return int(_within(name, int(value), least, most))

    def optional_integer(self, name: str, least: int) -> int | None:
        """A whole number, None where absent."""
        return None if self.text(name) is None else self.integer(name, least, least)

    def number(self, name: str, default: float, least: float, most: float | None = None) -> float:
        """A decimal number from `least` to `most`."""
        value = self.text(name)
        if value is None:
            return default
        if not _NUMBER.fullmatch(value):
            raise SettingsError(name, f"must be a number, not {shown(value)}")
        return _within(name, float(value), least, most)

    def seconds(self, name: str, default: float, most: float | None = None) -> float:
        """A duration in seconds, more than 0."""
        value = self.number(name, default, 0, most)
        if value == 0:
            raise SettingsError(name, "must be more than 0 seconds")
        return value

    def optional_seconds(self, name: str) -> float | None:
        """A duration in seconds, None where absent or `off`."""
        return None if self.text(name) in (None, "off") else self.seconds(name, math.inf)


def shown(value: str) -> str:
    """A value in a message: quoted, one line, at most 40 characters of it."""
    return repr(value if len(value) <= 40 else value[:40] + "…")


def _within(name: str, value: float, least: float, most: float | None) -> float:
    if value < least:
        raise SettingsError(name, f"must be at least {_plain(least)}, not {_plain(value)}")
    if most is not None and value > most:
        raise SettingsError(name, f"must be at most {_plain(most)}, not {_plain(value)}")
    return value


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
