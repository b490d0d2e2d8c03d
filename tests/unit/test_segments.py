"""Event logs: cut into segments, and put together again in whatever order those come."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from store.canonical import Json
from store.database import Document, Kind, Path
from store.errors import DataLossError
from store.layout.segments import SEGMENT_SIZE, EventLog, cut_segments, log_line, read_segment, segment_fields
from store.models import Segment

TIME = datetime(2026, 1, 1, tzinfo=UTC)
Told = tuple[int, str, Json]


def events(count: int, first: int = 1, size: int = 20) -> list[Told]:
    """Numbered events, of different sizes, with what separates lines inside of them."""
    return [
        (number, "text-delta", {"text": f"{number}\n" + "é" * (number % size)})
        for number in range(first, first + count)
    ]


def lines(told: list[Told]) -> list[tuple[int, bytes]]:
    return [(number, log_line(number, name, data)) for number, name, data in told]


def log(*segments: Segment) -> list[Told]:
    return list(EventLog("t").feed(segments))


@pytest.mark.parametrize("size", [1, 7, 64, 1000, SEGMENT_SIZE])
def test_a_log_comes_back_whatever_its_segments_size(size: int) -> None:
    told = events(50)
    segments = cut_segments(0, lines(told), size)
    assert [segment.index for segment in segments] == list(range(len(segments)))
    assert all(0 < len(segment.content) <= size for segment in segments)
    assert b"".join(segment.content for segment in segments) == b"".join(text for _, text in lines(told))
    assert log(*segments) == told


@pytest.mark.parametrize("size", [10, 30, 31, 32, 33, 64, 100])
def test_a_segment_names_the_events_that_begin_first_and_end_last_in_it(size: int) -> None:
    told = lines(events(40))
    starts = {}
    position = 0
    for number, text in told:
        starts[number] = (position, position + len(text))
        position += len(text)
    for place, segment in enumerate(cut_segments(0, told, size)):
        here = range(place * size, place * size + len(segment.content))
        begun = [number for number, (start, _) in starts.items() if start in here]
        ended = [number for number, (_, end) in starts.items() if end - 1 in here]
        assert segment.first_event_id == (begun[0] if begun else None)
        assert segment.last_event_id == (ended[-1] if ended else None)


def test_a_line_that_fills_a_segment_exactly_begins_none_behind_it() -> None:
    told = lines(events(3, size=1))
    size = len(told[0][1])
    assert [(s.first_event_id, s.last_event_id) for s in cut_segments(0, told, size)] == [(1, 1), (2, 2), (3, 3)]


def test_nothing_is_no_segment() -> None:
    assert cut_segments(3, []) == []


def test_segments_in_any_order_and_repeated_give_each_event_once_in_order() -> None:
    told = events(60)
    for seed in range(30):
        draw = random.Random(seed)
        segments = cut_segments(0, lines(told), draw.randrange(5, 200))
        deliveries = segments + draw.choices(segments, k=len(segments))
        draw.shuffle(deliveries)
        together = EventLog("t")
        seen: list[Told] = []
        while deliveries:
            step = draw.randrange(1, 4)
            seen += together.feed(deliveries[:step])
            del deliveries[:step]
        assert seen == told, seed
        assert together.last_event_id == 60


def test_events_behind_a_gap_wait() -> None:
    first, second, third = (cut_segments(index, lines(events(2, first=1 + 2 * index)))[0] for index in range(3))
    together = EventLog("t")
    assert list(together.feed([first, third])) == events(2)
    assert list(together.feed([third])) == []
    assert list(together.feed([second])) == events(4, first=3)


def test_an_event_that_spans_segments_is_told_once_its_last_byte_is_there() -> None:
    told: list[Told] = [(1, "text-delta", {"text": "x" * 100})]
    segments = cut_segments(0, lines(told), 30)
    together = EventLog("t")
    for segment in segments[:-1]:
        assert list(together.feed([segment])) == []
    assert list(together.feed(segments[-1:])) == told


@pytest.mark.parametrize(
    "content",
    [
        b"{}\n",
        b"[1]\n",
        b"[1,2\n",
        b"\n",
        b"null\n",
        b'[2,"text-delta",{}]\n',
        b'["1","text-delta",{}]\n',
        b'[1,"text-delta",{}]\n[1,"text-delta",{}]\n',
        b'[1,"text-delta",{}]\n[3,"text-delta",{}]\n',
        b'\xff[1,"text-delta",{}]\n',
        b'[1,"text-delta",{},1]\n',
    ],
)
def test_a_log_that_is_damaged_is_said_to_be(content: bytes) -> None:
    with pytest.raises(DataLossError, match="event log"):
        log(Segment(0, content, 1, 1))


def document(name: str = "t_3", **changes: Any) -> Document:
    fields = segment_fields("t", "s", Segment(3, b"content" * 100, 4, None), TIME)
    fields = {name: value for name, value in {**fields, **changes}.items() if value is not ...}
    return Document(Path(Kind.STREAMS, "acme", name), fields, TIME)


def test_a_segment_comes_back_from_its_document() -> None:
    assert read_segment(document()) == Segment(3, b"content" * 100, 4, None)
    assert document().fields["firesessionExpireAt"] == TIME


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk": b"something else"},
        {"chunk": ...},
        {"digest": "0" * 64},
        {"codec": "none"},
        {"index": "3"},
        {"index": ...},
        {"index": 4},
        {"snapshotId": "u"},
        {"formatVersion": 99},
        {"firstEventId": "4"},
    ],
)
def test_a_document_that_is_damaged_is_said_to_be(changes: dict[str, Any]) -> None:
    with pytest.raises(DataLossError, match="t_3"):
        read_segment(document(**changes))
