"""Prints the tables of docs/scale.md: `python -m tools.scale`; with `--write` they are put into the page."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tools.scale_model import (
    ABORT,
    ABORT_HEARD,
    CHECKPOINT,
    DAY,
    EMPTY_SWEEP,
    EXPIRED_SEGMENT,
    FIRST_TURN,
    GIB,
    HEARTBEAT,
    LOG,
    MONTH,
    MULTI_REGION,
    PEER,
    PEER_FIRST_TURN,
    PEER_HEARTBEAT,
    PEER_TURN,
    POLL,
    POLL_DURING_TURN,
    REFUSAL,
    REGION,
    REQUEST,
    REQUEST_DONE,
    REQUEST_HEARD,
    SEGMENT,
    STORED,
    TURN,
    WITHOUT_EXEMPTIONS,
    Counts,
    Limits,
    Load,
    Prices,
    beats_cost,
    cap_check,
    day,
    deletion,
    ends,
    followed_cost,
    following,
    listing,
    log_cost,
    look,
    ramp_minutes,
    total,
)

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
BEGIN: Final = "<!-- tables: made by python -m tools.scale --write -->"
END: Final = "<!-- end of tables -->"
THOUSAND: Final = 1000
DURATIONS: Final = (0.5, 12.0, 60.0, 300.0)  # seconds of a turn


def tables(load: Load, limits: Limits) -> str:
    """All of them, as the page has them."""
    parts = (_operations, _thousand_turns, _day, _documents, _peak, _ends)
    return "\n\n".join("\n".join(part(load, limits)) for part in parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _operations(load: Load, limits: Limits) -> Iterator[str]:
    yield "### What an operation asks for\n"
    count = load.turns_per_session
    named = {
        "first turn of a new session": FIRST_TURN,
        "a turn, of any other": TURN,
        "– where it makes a checkpoint, besides": CHECKPOINT,
        "a heartbeat of one turn, each 15 seconds; all of an instance go in one request": HEARTBEAT,
        "the events of a turn of a second or more, with its end": LOG,
        "a request for the events of a running turn, by a follower's instance": REQUEST,
        "– heard by the instance that runs the turn": REQUEST_HEARD,
        "– taken away with the turn's end": REQUEST_DONE,
        "a segment of a followed turn, each second": SEGMENT,
        "– each segment, dropped by the TTL policy an hour later": EXPIRED_SEGMENT,
        "a busy or stale refusal, or the same send again": REFUSAL,
        "an abort": ABORT,
        "– heard by the listener of the instance that runs the turn": ABORT_HEARD,
        "a poll of an idle session, or its transcript": POLL,
        "– of one with a running turn": POLL_DURING_TURN,
        f"a list of {load.listed} sessions": listing(load.listed),
        "a reader on another instance, of a turn with 13 segments, at most": following(13),
        f"the cap's check, where a user with {load.kept} sessions makes one": cap_check(load.kept),
        "a sweep that finds nothing due": EMPTY_SWEEP,
        f"– for each session that is due and stays, of a user with {load.kept}": look(load.kept),
        f"deleting a session of {count} turns": deletion(count, 1),
    }
    rows = [(name, *map(_plain, (c.requests, c.reads, c.writes, c.deletes))) for name, c in named.items()]
    yield from _table(("operation", "requests", "read", "written", "deleted"), rows)


def _thousand_turns(load: Load, limits: Limits) -> Iterator[str]:
    yield "### A thousand turns, in dollars\n"
    yield (
        f"Multi-region prices. {PEER} as counted after 300 turns, shortly before its next checkpoint: a turn reads "
        f"{PEER_TURN.reads:g} documents there, behind a checkpoint {PEER_FIRST_TURN.reads:g}.\n"
    )
    rows = []
    for seconds in DURATIONS:
        bare = (TURN + beats_cost(seconds)) * THOUSAND
        kept = bare + log_cost(seconds) * THOUSAND
        followed = followed_cost(seconds) * THOUSAND
        peer = (PEER_TURN + beats_cost(seconds, PEER_HEARTBEAT)) * THOUSAND
        share = MULTI_REGION.of(followed) / MULTI_REGION.of(kept + followed)
        figures = [_dollars(MULTI_REGION.of(each)) for each in (bare, kept, kept + followed, peer)]
        rows.append((f"{seconds:g} s", *figures[:3], _percent(share), figures[3]))
    first = (FIRST_TURN * THOUSAND, PEER_FIRST_TURN * THOUSAND)
    ours, theirs = (_dollars(MULTI_REGION.of(each)) for each in first)
    rows.append(("0.5 s, the first of a new session", ours, ours, ours, "–", theirs))
    off, kept_by = "`STREAM_SEGMENTS=off` or `memory`", "`firestore`"
    head = ("a turn of", off, kept_by, f"{kept_by}, followed from elsewhere", "the follower's share of that", PEER)
    yield from _table(head, rows)


def _day(load: Load, limits: Limits) -> Iterator[str]:
    yield f"### A day with {load.users:,} users\n"
    asked = day(load)
    whole = total(asked)
    cost = MULTI_REGION.of(whole)
    rows = [(name, *_figures(counts), _percent(MULTI_REGION.of(counts) / cost)) for name, counts in asked.items()]
    without = total(day(replace(load, has_segments=False)))
    yield from _table(
        ("for", "read", "written", "deleted", "multi-region", "region", "share"),
        [
            *rows,
            ("**together**", *_figures(whole), ""),
            (
                "**with `STREAM_SEGMENTS=off` or `memory`**",
                *_figures(without),
                _percent(MULTI_REGION.of(without) / cost),
            ),
        ],
    )
    yield ""
    yield from _month(load, whole, without)


def _month(load: Load, whole: Counts, without: Counts) -> Iterator[str]:
    """What is stored, and the bill."""
    stored = load.stored / GIB
    rows = [
        (f"{stored:,.0f} GiB, once each user has {load.kept} sessions", *_both(lambda at: stored * at.storage)),
        ("documents", *_both(lambda at: at.of(whole) * MONTH)),
        ("documents, with `STREAM_SEGMENTS=off` or `memory`", *_both(lambda at: at.of(without) * MONTH)),
    ]
    yield from _table((f"a month of {MONTH} days", "multi-region", "region"), rows)


def _both(price: Callable[[Prices], float]) -> tuple[str, str]:
    return f"${price(MULTI_REGION):,.0f}", f"${price(REGION):,.0f}"


def _documents(load: Load, limits: Limits) -> Iterator[str]:
    turns = load.turns_per_session
    yield f"### Documents and their index entries\n\nIn a session of {turns} turns of 2 KiB of prose.\n"
    rows = [
        (name, f"{one.size:,}", str(one.entries), f"{one.entries_size:,}", *_by_default(name))
        for name, one in STORED.items()
    ]
    head = ("document", "bytes", "index entries", "their bytes", "entries without exemptions", "their bytes")
    yield from _table(head, rows)


def _by_default(name: str) -> tuple[str, str]:
    if name not in WITHOUT_EXEMPTIONS:
        return "–", "–"
    entries, size = WITHOUT_EXEMPTIONS[name]
    return str(entries), f"{size:,}"


def _peak(load: Load, limits: Limits) -> Iterator[str]:
    yield f"### At the peak, {load.peak:g} times the day's average\n"
    bare, whole = total(day(replace(load, has_segments=False))), total(day(load))
    rows = [
        ("turns that begin each second", f"{load.turns_per_second:,.0f}"),
        ("turns that run", f"{load.running:,.0f}"),
        (
            f"instances with {load.turns_per_instance} turns, each with one Listen stream of two queries",
            str(load.instances),
        ),
        ("requests of Firestore each second", f"{whole.requests / DAY * load.peak:,.0f}"),
        ("documents written each second", f"{whole.writes / DAY * load.peak:,.0f}"),
        ("– with `STREAM_SEGMENTS=off` or `memory`", f"{bare.writes / DAY * load.peak:,.0f}"),
        ("minutes in which a new database has to be led up to that", f"{ramp_minutes(load, limits):.0f}"),
    ]
    yield from _table(("", ""), rows)


def _ends(load: Load, limits: Limits) -> Iterator[str]:
    yield "### What ends first\n"
    rows = [(end.what, f"{end.users:,.0f}", end.then or "no setting does") for end in ends(load, limits)]
    yield from _table(("limit", "daily users with whom it is reached", "what moves it"), rows)


def _plain(value: float) -> str:
    return f"{value:g}"


def _figures(counts: Counts) -> tuple[str, ...]:
    millions = (f"{value / 1_000_000:,.1f} M" for value in (counts.reads, counts.writes, counts.deletes))
    return (*millions, f"${MULTI_REGION.of(counts):,.0f}", f"${REGION.of(counts):,.0f}")


def _dollars(value: float) -> str:
    return f"{value:.4f}"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def with_tables(page: str, made: str) -> str:
    """The page with these tables in place of its own."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> None:
    """Prints, or writes."""
    made = tables(Load(), Limits())
    if "--write" in arguments:
        PAGE.write_text(with_tables(PAGE.read_text("utf-8"), made), "utf-8")
    else:
        print(made)


if __name__ == "__main__":
    main(sys.argv[1:])
