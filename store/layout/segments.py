"""The segment document: a run of a turn's event log, so that another instance can follow the turn; and the request
that asks for it.

The log is one line of JSON per event. Segments are byte runs of it, counted from 0: an event may span several, and is
complete once its line is.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from store.canonical import Json, dump, parse_stored
from store.database import Document
from store.errors import DataLossError
from store.layout.codec import decode_checked, encode
from store.layout.fields import FORMAT_VERSION, FieldReader
from store.models import Segment

SEGMENT_SIZE: Final = 524_288  # bytes of the log


def log_line(event_id: int, name: str, data: Json) -> bytes:
    """An event as a line of the log."""
    return dump([event_id, name, data], depth=-1) + b"\n"


def cut_segments(first_index: int, lines: Iterable[tuple[int, bytes]], size: int = SEGMENT_SIZE) -> list[Segment]:
    """The lines (event id, text) as segments of up to `size` bytes, numbered from `first_index`."""
    segments: list[Segment] = []
    run, first, last = bytearray(), None, None
    for event_id, line in lines:
        start = len(run)  # within the run: where this line begins
        run += line
        while len(run) > size:
            first = event_id if first is None and 0 <= start < size else first
            segments.append(Segment(first_index + len(segments), bytes(run[:size]), first, last))
            del run[:size]
            start, first, last = start - size, None, None
        first = event_id if first is None and start >= 0 else first
        last = event_id
    if run:
        segments.append(Segment(first_index + len(segments), bytes(run), first, last))
    return segments


def segment_fields(snapshot_id: str, session_id: str, segment: Segment, expires_at: datetime) -> dict[str, Any]:
    """The document's fields; the database may drop it after `expires_at`."""
    stored = encode(segment.content)
    fields: dict[str, Any] = {
        "formatVersion": FORMAT_VERSION,
        "snapshotId": snapshot_id,
        "sessionId": session_id,
        "index": segment.index,
        "chunk": stored.content,
        "codec": stored.codec,
        "digest": stored.digest,
        "firesessionExpireAt": expires_at,
    }
    if segment.first_event_id is not None:
        fields["firstEventId"] = segment.first_event_id
    if segment.last_event_id is not None:
        fields["lastEventId"] = segment.last_event_id
    return fields


def request_fields(snapshot_id: str, session_id: str, runner: str, expires_at: datetime) -> dict[str, Any]:
    """The document that asks `runner` to write a turn's log; the database may drop it after `expires_at`."""
    return {
        "formatVersion": FORMAT_VERSION,
        "snapshotId": snapshot_id,
        "sessionId": session_id,
        "runner": runner,
        "firesessionExpireAt": expires_at,
    }


def read_segment(document: Document) -> Segment:
    """The segment in a document; DataLossError where its fields do not make one."""
    reader = FieldReader.of(document)
    index = reader.get("index", int)
    if document.path.id != f"{reader.text('snapshotId')}_{index}":
        raise reader.damaged("it holds another segment's content")
    content = decode_checked(document.fields, "chunk", "digest", reader.document)
    return Segment(index, content, reader.find("firstEventId", int), reader.find("lastEventId", int))


class EventLog:
    """Puts segments together in whatever order they come, and gives each event once, in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: dict[int, Segment] = {}
        self._next = 0
        self._rest = b""
        self.last_event_id = 0

    def feed(self, segments: Iterable[Segment]) -> Iterator[tuple[int, str, Json]]:
        """Takes segments, known ones too, and gives the events that are complete now, up to the first gap."""
        for segment in segments:
            if segment.index >= self._next:
                self._waiting[segment.index] = segment
        while (segment_here := self._waiting.pop(self._next, None)) is not None:
            self._next += 1
            *lines, self._rest = (self._rest + segment_here.content).split(b"\n")
            for line in lines:
                yield self._event(line)

    def _event(self, line: bytes) -> tuple[int, str, Json]:
        try:
            event_id, name, data = parse_stored(line)
        except (ValueError, TypeError) as error:
            raise DataLossError(self._name, "its event log has a line that is no event") from error
        if event_id != self.last_event_id + 1:
            raise DataLossError(self._name, f"its event log goes from {self.last_event_id} to {event_id}")
        self.last_event_id = event_id
        return event_id, name, data
