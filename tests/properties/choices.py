"""Decisions of one run: drawn from a seed or replayed, and written down so that a run can be repeated and simplified.

The first option of every decision is the boring one, so that a shorter list of smaller numbers is a simpler run.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias


class Decision(NamedTuple):
    """Which of how many options was taken."""

    taken: int
    options: int


class Choices:
    """Decisions come from `script` first, then from `seed`, or are the first option where there is none."""

    def __init__(self, seed: int | None = None, script: Sequence[int] = ()) -> None:
        self._random = None if seed is None else random.Random(seed)
        self._script = script
        self.made: list[Decision] = []

    def pick(self, weights: Sequence[float]) -> int:
        """The index of one of the options, which are as likely as their weights say."""
        if len(weights) == 1:
            return 0
        taken = self._next(weights)
        self.made.append(Decision(taken, len(weights)))
        return taken

    def _next(self, weights: Sequence[float]) -> int:
        if len(self.made) < len(self._script):
            return min(self._script[len(self.made)], len(weights) - 1)
        if self._random is None:
            return 0
        return self._random.choices(range(len(weights)), weights)[0]

    def chance(self, probability: float) -> bool:
        """True with this probability; false is the boring option, and the only one where the probability is 0."""
        return probability > 0 and self.pick((1 - probability, probability)) == 1

    @property
    def script(self) -> list[int]:
        """What repeats the run so far."""
        return [decision.taken for decision in self.made]


def shrink(script: Sequence[int], still_fails: Callable[[list[int]], bool], tries: int = 400) -> list[int]:
    """A simpler script that fails in the same way, found by leaving decisions out and making them boring."""
    best = list(script)
    while best and best[-1] == 0:
        best.pop()
    for candidate in _candidates(best):
        if tries == 0:
            break
        simplify, at, size = candidate
        shorter = simplify(best, at, size)
        if shorter is None or shorter == best:
            continue
        tries -= 1
        if still_fails(shorter):
            best = shorter
    return best


_Simplify: TypeAlias = Callable[[list[int], int, int], list[int] | None]


def _candidates(script: list[int]) -> Iterator[tuple[_Simplify, int, int]]:
    """Ways to simplify a script, the drastic ones first; each is applied to the best one found so far."""
    size = len(script)
    while size >= 1:
        for start in range(len(script) - size, -1, -size):
            yield _without, start, size
            yield _zeroed, start, size
        size //= 2


def _without(script: list[int], at: int, size: int) -> list[int] | None:
    return script[:at] + script[at + size :] if at < len(script) else None


def _zeroed(script: list[int], at: int, size: int) -> list[int] | None:
    if not any(script[at : at + size]):
        return None
    zeroed = script[:at] + [0] * len(script[at : at + size]) + script[at + size :]
    while zeroed and zeroed[-1] == 0:
        zeroed.pop()
    return zeroed


def next_script(made: Sequence[Decision]) -> list[int] | None:
    """The script of the next run of an exhaustive search, depth first; None after the last one."""
    for index in range(len(made) - 1, -1, -1):
        taken, options = made[index]
        if taken + 1 < options:
            return [decision.taken for decision in made[:index]] + [taken + 1]
    return None
