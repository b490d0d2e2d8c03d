"""Frames of the native stream."""

import json
import re

import pytest

from functions.dialects.native import COMMENT, EVENTS, TEXT_DELTA, frame

BREAKS = "\n \r \r\n \v \f \x1c \x85 \u2028 \u2029 \0 \ud83d \U0001f98a"


def test_a_frame_has_three_lines_and_an_end() -> None:
    assert frame(1, TEXT_DELTA, {"text": "ä"}) == b'id: 1\nevent: text-delta\ndata: {"text":"\\u00e4"}\n\n'


def test_no_text_can_break_a_frames_line_and_it_comes_back_whole() -> None:
    lines = frame(7, TEXT_DELTA, {"text": BREAKS}).decode("ascii").splitlines()
    assert [line.partition(":")[0] for line in lines] == ["id", "event", "data", ""]
    assert json.loads(lines[2].removeprefix("data: ")) == {"text": BREAKS}


def test_what_is_outside_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        frame(1, TEXT_DELTA, {"text": float("nan")})


def test_a_comment_is_a_frame_that_readers_ignore() -> None:
    assert re.fullmatch(rb":[^\n]*\n\n", COMMENT)


def test_every_event_name_fits_on_its_line() -> None:
    assert all(re.fullmatch("[a-z-]+", name) for name in EVENTS)
    assert len(set(EVENTS)) == len(EVENTS)
