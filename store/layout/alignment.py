"""Which elements of two lists are the same ones, in order. Pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

# Of elements compared with each other. `difflib` takes time by their product where many are equal, or equal ones lie
# apart: 0.3 seconds for so many, 100 for lists twenty times as long.
_MOST_PAIRS = 1_000_000


class _Link(NamedTuple):
    at: int
    place: int
    before: "_Link | None"


def same_places(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Places in `old` and in `new`, both rising, at which the same element stands."""
    if len(old) * len(new) > _MOST_PAIRS:
        return _longest_rise(old, new)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return [(block.a + offset, block.b + offset) for block in blocks for offset in range(block.size)]


def _longest_rise(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """As many places as there can be, of equal elements the first being the first and so on: for lists of any length,
    whatever is in them."""
    places = {element: place for place, element in enumerate(_numbered(new))}
    ends: list[int] = []  # where in `new` the best chain of each length ends
    links: list[_Link] = []  # and the chain itself, backwards
    for at, element in enumerate(_numbered(old)):
        place = places.get(element)
        if place is not None:
            length = bisect_left(ends, place)
            ends[length : length + 1] = [place]
            links[length : length + 1] = [_Link(at, place, links[length - 1] if length else None)]
    return list(_unlinked(links[-1] if links else None))[::-1]


def _numbered(elements: Sequence[Hashable]) -> Iterator[tuple[Hashable, int]]:
    """Each element with how many equal ones came before."""
    seen: Counter[Hashable] = Counter()
    for element in elements:
        yield element, seen[element]
        seen[element] += 1


def _unlinked(link: _Link | None) -> Iterator[tuple[int, int]]:
    while link is not None:
        yield link.at, link.place
        link = link.before
