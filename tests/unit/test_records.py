"""Session documents: fields ⇄ records, the copy of the head's state, and the damage that reading them notices."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from store.canonical import dump
from store.database import Document, Kind, Path
from store.errors import DataLossError
from store.layout.chain import Shape, plan_storage
from store.layout.codec import Stored, encode
from store.layout.patches import diff
from store.layout.records import (
    COPY_FIELDS,
    LEASE_FIELDS,
    METADATA_FIELDS,
    copy_entry,
    head_field,
    read_copy,
    read_record,
    read_tail,
)
from store.models import Origin, Session, Snapshot, SnapshotStatus
from store.state import State

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
STATES = [State.of({"messages": [{"id": f"m{n}"} for n in range(count)]}) for count in range(1, 4)]
HEAD = Snapshot(
    session_id="s",
    snapshot_id="row",
    origin=Origin.TURN,
    status=SnapshotStatus.ABORTED,
    finish_reason="aborted",
    error={"status": "ABORTED"},
    usage={"totalTokens": 3},
    model="m",
    created_at=NOW,
    updated_at=NOW + timedelta(seconds=1),
    heartbeat_at=NOW,
    message_id="q",
    message_text="Hello",
    last_message_id="m2",
    event_count=7,
)


def entry(number: int) -> bytes:
    """An element of the tail: what leads from one of the states to the next."""
    return copy_entry(f"row{number}", encode(dump(diff(STATES[number - 1], STATES[number]))))


def fields(**changes: Any) -> dict[str, Any]:
    """A session whose head is the last of the states, by a base and a tail; None takes a field away."""
    plan = plan_storage(Shape(), "row", "token", None, STATES[-1])
    made: dict[str, Any] = {
        "formatVersion": 1,
        "id": "s",
        "ownerId": "ann",
        "agent": "echo",
        "createdAt": NOW,
        "updatedAt": NOW,
        "currentSnapshotId": "row",
        "currentCreatedAt": NOW,
        "latestCreatedAt": NOW,
        "headSnapshotId": "row",
        "head": head_field(HEAD, plan.chain, plan.runs),
        "headUpdatedAt": HEAD.updated_at,
        "lastMessageId": "m2",
        "messageCount": 3,
        "base": copy_entry("row0", encode(STATES[0].text)),
        "tail": [entry(1), entry(2)],
        "hasBase": True,
        **changes,
    }
    tail = made["tail"]
    made.setdefault("tailBytes", sum(map(len, tail)) if isinstance(tail, list) else 0)
    return {name: value for name, value in made.items() if value is not None}


def document(given: dict[str, Any], session_id: str = "s") -> Document:
    return Document(Path(Kind.POINTERS, "acme", session_id), given, NOW)


def test_a_session_is_read_as_it_was_written() -> None:
    record = read_record(document(fields(title="t", model="m", activeSnapshotId="next", activeMessageId="r")))
    assert record.session == Session(
        id="s",
        owner_id="ann",
        agent="echo",
        title="t",
        created_at=NOW,
        updated_at=NOW,
        model="m",
        active_snapshot_id="next",
        head_snapshot_id="row",
        last_message_id="m2",
        message_count=3,
    )
    assert record.head is not None
    assert record.head.snapshot == HEAD
    assert record.head.chain == plan_storage(Shape(), "row", "token", None, STATES[-1]).chain
    tail_bytes = len(entry(1)) + len(entry(2))
    told = (record.active_message_id, record.tail_bytes, record.has_base, record.is_deleting)
    assert told == ("r", tail_bytes, True, False)


def test_a_session_without_a_head_or_a_turn_is_read() -> None:
    least = {name: fields()[name] for name in ("formatVersion", "id", "ownerId", "agent", "createdAt", "updatedAt")}
    record = read_record(document(least))
    assert (record.head, record.current_snapshot_id, record.tail_bytes, record.has_base) == (None, None, 0, False)
    assert record.session == Session("s", "ann", "echo", "", NOW, NOW)


@pytest.mark.parametrize(
    ("title", "auto", "read"),
    [("given", "made", "given"), ("", "made", "made"), (None, "made", "made"), ("", None, "")],
)
def test_the_given_title_goes_before_the_made_one(title: str | None, auto: str | None, read: str) -> None:
    assert read_record(document(fields(title=title, autoTitle=auto))).session.title == read


def test_the_mask_of_metadata_holds_everything_but_the_copy() -> None:
    given = fields(**dict.fromkeys(LEASE_FIELDS[:2], "x"))
    assert set(given) - set(METADATA_FIELDS) == set(COPY_FIELDS)
    assert set(LEASE_FIELDS) <= set(METADATA_FIELDS)
    masked = {name: value for name, value in given.items() if name in METADATA_FIELDS}
    whole, part = read_record(document(given)), read_record(document(masked))
    assert replace(whole, document=document({})) == replace(part, document=document({}))


def test_the_copy_of_the_heads_state_is_its_base_and_the_patches_since() -> None:
    assert read_copy(read_record(document(fields()))) == STATES[-1]
    whole = copy_entry("row", encode(STATES[-1].text))
    assert read_copy(read_record(document(fields(base=whole, tail=[])))) == STATES[-1]
    assert [row_id for row_id, _ in read_tail(read_record(document(fields())))] == ["row1", "row2"]


def test_a_session_may_keep_no_base() -> None:
    assert read_copy(read_record(document(fields(base=None, hasBase=False)))) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"base": None}, "base is missing"),
        ({"base": b"no entry"}, "names no snapshot"),
        ({"base": "text"}, "names no snapshot"),
        ({"base": copy_entry("row", encode(b"[1]"))}, "not the text of a state"),
        ({"base": copy_entry("row", encode(STATES[1].text))}, "do not add up|does not fit"),
        ({"tail": None}, "do not add up"),
        ({"tail": "x"}, "tail is not a list"),
        ({"tailBytes": 3}, "not as long as it says"),
        ({"tail": [entry(1)]}, "do not add up"),
        ({"tail": [entry(2), entry(1)]}, "do not add up|does not fit"),
        ({"tail": [entry(1), b"x"]}, "names no snapshot"),
        ({"tail": [entry(1), b"\xff\0json:[]"]}, "damaged id"),
        ({"tail": [entry(1), entry(2)[:-1]]}, "does not match its check"),
        ({"tail": [entry(1), copy_entry("row", Stored("zstd", b"x"))]}, "cannot be decompressed"),
        ({"tail": [entry(1), copy_entry("row", Stored("json", b'[{"op":"remove","path":"/gone"}]'))]}, "does not fit"),
    ],
)
def test_a_copy_that_does_not_add_up_is_damage(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataLossError, match=reason) as caught:
        read_copy(read_record(document(fields(**changes))))
    assert caught.value.document == "pointers/acme/s"


@pytest.mark.parametrize("name", ["formatVersion", "id", "ownerId", "agent", "createdAt", "updatedAt"])
@pytest.mark.parametrize("wrong", [None, [], 1.5])
def test_a_needed_field_that_is_missing_or_of_a_wrong_type_is_damage(name: str, wrong: object) -> None:
    with pytest.raises(DataLossError, match=name) as caught:
        read_record(document(fields() | {name: wrong}))
    assert caught.value.document == "pointers/acme/s"


@pytest.mark.parametrize(
    "changes",
    [
        {"formatVersion": 2},
        {"head": None},
        {"head": {}},
        {"head": "row"},
        {"headUpdatedAt": None},
        {"headSnapshotId": "another"},
        {"tailBytes": "many"},
        {"messageCount": True},
        {"deleting": "yes"},
        {"latestCreatedAt": "now"},
    ],
    ids=str,
)
def test_fields_that_make_no_session_are_damage(changes: dict[str, Any]) -> None:
    with pytest.raises(DataLossError) as caught:
        read_record(document(fields(**changes)))
    assert caught.value.document == "pointers/acme/s"


def test_another_sessions_document_is_noticed() -> None:
    with pytest.raises(DataLossError, match="another session's id"):
        read_record(document(fields(), "t"))


@pytest.mark.parametrize(
    ("latest", "read_at", "expected"),
    [
        (None, NOW, NOW),
        (NOW, NOW + timedelta(seconds=1), NOW + timedelta(seconds=1)),
        (NOW, NOW, NOW + timedelta(microseconds=1)),
        (NOW + timedelta(days=1), NOW, NOW + timedelta(days=1, microseconds=1)),
    ],
)
def test_a_new_row_is_created_after_every_other_one(
    latest: datetime | None, read_at: datetime, expected: datetime
) -> None:
    assert read_record(document(fields(latestCreatedAt=latest))).next_created_at(read_at) == expected
