"""docs/scale.md shows what its model says, and the model adds up."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tools.scale import BEGIN, PAGE, tables, with_tables
from tools.scale_model import (
    EXPIRED_SEGMENT,
    FIRST_TURN,
    MULTI_REGION,
    PEER_FIRST_TURN,
    PEER_HEARTBEAT,
    PEER_TURN,
    SEGMENT,
    TURN,
    Counts,
    Limits,
    Load,
    beats_cost,
    day,
    ends,
    followed_cost,
    log_cost,
    segments_of,
    total,
)

TEXT = PAGE.read_text("utf-8")
README = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")


def test_the_pages_tables_are_what_the_model_prints() -> None:
    assert TEXT.count(BEGIN) == 1
    assert with_tables(TEXT, tables(Load(), Limits())) == TEXT


MINUTELY = ("the sweep's requests", "deletions by the sweep, each minute")
"""What ends first where the sweep is called each minute."""


def test_the_pages_prices_and_loads_are_the_models() -> None:
    load, limits = Load(), Limits()
    assert f"{load.users:,} users" in TEXT
    for number, what in ((load.turns_per_session, "turns of"), (load.kept, "sessions are kept")):
        assert f"{number} {what}" in TEXT
    assert "$0.06 / 0.18 / 0.02 / 0.18" in TEXT
    assert (MULTI_REGION.reads, MULTI_REGION.writes, MULTI_REGION.deletes) == (0.06, 0.18, 0.02)
    swept = {end.what: f"{end.users:,.0f}" for end in ends(load, limits)}
    assert f"sessions of {swept['deletions by the sweep, as it is called by default']} users a day" in TEXT
    minutely = min(end.users for end in ends(load, limits) if end.what.startswith(MINUTELY))
    assert f"of {minutely:,.0f}: its requests, one after another" in TEXT


@pytest.mark.parametrize("counts", [PEER_TURN, PEER_FIRST_TURN, PEER_HEARTBEAT])
def test_the_peers_counts_are_those_that_the_readme_compares_with(counts: Counts) -> None:
    figures = f"{counts.requests:g} / {counts.reads:g} / {counts.writes:g}"
    assert re.search(rf"\| {re.escape(figures)}\b", README)


def test_the_prose_says_what_the_model_says() -> None:
    price = MULTI_REGION.of
    turn, stored = price(TURN), price(TURN + log_cost(12))
    behind = replace(PEER_TURN, reads=3)
    between = replace(PEER_TURN, reads=(3 + PEER_TURN.reads) / 2)
    each_second = price((SEGMENT + EXPIRED_SEGMENT) * segments_of(12))
    said = {
        "two fifths of what the peer's does shortly before a checkpoint": (turn / price(PEER_TURN), 2 / 5),
        "1.4 times what it does behind one": (turn / price(behind), 1.4),
        "three fifths on the average between": (turn / price(between), 3 / 5),
        "a first turn costs a quarter more": (price(FIRST_TURN) / price(PEER_FIRST_TURN), 5 / 4),
        "saves that, a fifth of such a turn": (1 - turn / stored, 1 / 5),
        "of a turn of 12 seconds costs eight times as much as the turn": (price(followed_cost(12)) / stored, 8),
        "two and a half times the rest of the bill": (
            each_second * Load().turns / price(total(day(replace(Load(), has_segments=False)))),
            5 / 2,
        ),
    }
    prose = " ".join(TEXT.split())
    assert [words for words in said if words not in prose] == []
    for words, (modelled, written) in said.items():
        assert modelled == pytest.approx(written, rel=0.06), words
    assert f"${price(total(day(Load()))):.0f} a day" in README


def test_a_thousand_turns_cost_what_their_documents_cost() -> None:
    """By hand: 1,000 reads and 4,000 writes."""
    assert MULTI_REGION.of(TURN * 1000) == pytest.approx(1000 * 0.06 / 100_000 + 4000 * 0.18 / 100_000)


def test_a_turn_of_a_minute_beats_four_times_and_stores_its_events_once() -> None:
    assert beats_cost(60).writes == 4
    assert log_cost(60) == Counts(writes=1, deletes=1)
    assert log_cost(0.9) == followed_cost(0.9) == Counts()


def test_a_follower_from_elsewhere_makes_a_turn_store_a_segment_a_second() -> None:
    """Two writes each, and two for the request, which goes with the turn's end."""
    besides = followed_cost(60)
    assert (besides.writes, besides.deletes) == (2 * 60 + 2, 60 + 1)


def test_twice_the_users_ask_for_twice_as_much() -> None:
    one, two = (total(day(replace(Load(), users=users))) for users in (1000, 2000))
    assert two == one * 2


def test_limits_do_not_move_with_the_load_they_are_reached_with() -> None:
    """They are stated in users, so the number of users of today does not matter."""
    small, large = (ends(replace(Load(), users=users), Limits()) for users in (1000, 1_000_000))
    assert [end.what for end in small] == [end.what for end in large]
    assert [end.users for end in small] == pytest.approx([end.users for end in large])
    assert [end.users for end in small] == sorted(end.users for end in small)


def test_without_logs_nothing_but_these_and_their_readers_is_saved() -> None:
    with_them, without = day(Load()), day(replace(Load(), has_segments=False))
    changed = {name for name in with_them if with_them[name] != without[name]}
    assert changed == {"events, with the turns' ends", "turns that are followed from elsewhere"}
