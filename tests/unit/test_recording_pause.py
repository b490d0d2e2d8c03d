"""How often a running turn's log is written: once a second, and more rarely where the database is slow to take it."""

import pytest

from functions.engine.recording import pause_after


@pytest.mark.parametrize(
    ("took", "pause"),
    [(0.0, 1.0), (0.25, 1.0), (0.5, 2.0), (2.5, 10.0), (5.0, 10.0)],
)
def test_a_slow_write_is_followed_by_a_longer_pause(took: float, pause: float) -> None:
    assert pause_after(took) == pause
