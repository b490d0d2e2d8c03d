"""A server is killed in the middle of a turn: whenever that is, the turn is there whole or not at all, and the session
goes on on the other server."""

import asyncio

from tests.acceptance.fated_pair import FatedPair
from tests.acceptance.kills import MOMENTS, kill_at_every_moment


async def test_a_kill_at_any_moment_leaves_the_turn_whole_or_nothing_of_it(mortal: FatedPair, user: str) -> None:
    assert len(MOMENTS) >= 10
    async with asyncio.timeout(100):
        assert await kill_at_every_moment(mortal, user) == len(MOMENTS)
