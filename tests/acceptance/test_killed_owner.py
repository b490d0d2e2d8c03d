"""A server is killed in the middle of a turn: whenever that is, the turn is there whole or not at all, and the session
goes on on the other server."""

import pytest

from tests.acceptance.fated_pair import FatedPair
from tests.acceptance.kills import MOMENTS, kill_at_each

FEW = [
    moment
    for moment in MOMENTS
    if moment.name in ("after claim", "inside a tool call", "after beat", "before settle", "after settle")
]


@pytest.mark.timeout(300)  # five starts of a server
async def test_a_kill_leaves_the_turn_whole_or_nothing_of_it(mortal: FatedPair, user: str) -> None:
    assert await kill_at_each(FEW, mortal, user) == 5


@pytest.mark.slow
async def test_a_kill_at_any_moment_leaves_the_turn_whole_or_nothing_of_it(mortal: FatedPair, user: str) -> None:
    assert await kill_at_each(MOMENTS, mortal, user) == 11
