"""Which elements of two lists are the same: as many as there can be, whichever way they are looked for."""

from collections.abc import Hashable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.layout import alignment
from store.layout.alignment import same_places
from store.layout.patches import apply, diff
from store.state import State

LETTERS = st.lists(st.sampled_from("abc"), max_size=12)


@pytest.fixture(params=[1_000_000, -1], ids=["short", "long"])
def any_length(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list is treated as a short one, or as a long one."""
    monkeypatch.setattr(alignment, "_MOST_PAIRS", request.param)


def is_sound(old: Sequence[Hashable], new: Sequence[Hashable], places: list[tuple[int, int]]) -> bool:
    """Equal elements, their places rising in both."""
    rises = all(left[0] < right[0] and left[1] < right[1] for left, right in pairwise(places))
    return rises and all(old[at] == new[place] for at, place in places)


@pytest.mark.usefixtures("any_length")
@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ("", "", []),
        ("", "ab", []),
        ("abc", "xabc", [(0, 1), (1, 2), (2, 3)]),
        ("abcde", "cdex", [(2, 0), (3, 1), (4, 2)]),
        ("abcd", "axcd", [(0, 0), (2, 2), (3, 3)]),
        ("abcd", "bcda", [(1, 0), (2, 1), (3, 2)]),
        ("aaa", "aa", [(0, 0), (1, 1)]),
    ],
)
def test_what_was_added_dropped_or_moved_is_told_from_what_stays(
    old: str, new: str, places: list[tuple[int, int]]
) -> None:
    assert same_places(old, new) == places


@pytest.mark.usefixtures("any_length")
@given(LETTERS, LETTERS)
def test_the_same_elements_are_found_in_order(old: list[str], new: list[str]) -> None:
    assert is_sound(old, new, same_places(old, new))


@given(st.permutations(range(9)), st.permutations(range(9)))
def test_of_elements_that_occur_once_as_many_stay_as_can(old: list[int], new: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "_MOST_PAIRS", -1)
        places = same_places(old, new)
    assert is_sound(old, new, places)
    assert len(places) == longest(old, new)


def longest(old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence, by the book."""
    before = [0] * (len(new) + 1)
    for element in old:
        row = [0]
        for place, other in enumerate(new):
            row.append(before[place] + 1 if element == other else max(before[place + 1], row[place]))
        before = row
    return before[-1]


def test_thousands_of_equal_messages_without_ids_are_compared_in_the_time_of_a_turn() -> None:
    """With `difflib` alone this takes minutes, in which no other turn of the instance beats."""
    same = [{"role": "user", "content": [{"text": "ok"}]}] * 20_000
    old = State.of({"messages": same})
    new = State.of({"messages": [{"text": "first"}, *same[1:-1], {"text": "last"}]})
    operations = diff(old, new)
    assert apply(old, operations) == new
    assert len(operations) == 4
