"""Snapshot documents: fields ⇄ rows, and the damage that reading them notices."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from store.canonical import dump
from store.database import SERVER_TIME, Document, Kind, Path
from store.errors import DataLossError, InvalidRequestError
from store.layout.chain import Shape, plan_storage
from store.layout.codec import JSON, Stored, seal
from store.layout.rows import (
    CHAIN_FIELDS,
    METADATA_FIELDS,
    PAYLOAD_FIELDS,
    error_field,
    read_row,
    snapshot_fields,
    state_fields,
)
from store.models import Origin, Snapshot, SnapshotStatus
from store.state import State

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
SNAPSHOT = Snapshot(
    session_id="s",
    snapshot_id="row",
    parent_id="parent",
    origin=Origin.TURN,
    event_count=7,
    status=SnapshotStatus.COMPLETED,
    finish_reason="stop",
    error={"status": "INTERNAL", "details": {"n": [1, None, 1.5]}},
    usage={"inputTokens": 1},
    model="m",
    created_at=NOW,
    updated_at=NOW,
    heartbeat_at=NOW,
    message_id="q",
    message_text="Hello",
    last_message_id="a",
)
OLD, NEW = State.of({"custom": {"text": "x" * 200, "n": 1}}), State.of({"custom": {"text": "x" * 200, "n": 2}})


def document(fields: dict[str, Any], row_id: str = "row") -> Document:
    return Document(Path(Kind.SNAPSHOTS, "acme", row_id), fields, NOW)


def settled() -> dict[str, Any]:
    return snapshot_fields(SNAPSHOT, "ann", "attempt") | {"settledBy": "attempt"}


def checkpoint() -> dict[str, Any]:
    plan = plan_storage(Shape(), "row", "token", None, OLD)
    return settled() | state_fields(SNAPSHOT, plan)


def diff() -> dict[str, Any]:
    ground = plan_storage(Shape(), "parent", "token", None, OLD).ground(OLD)
    plan = plan_storage(Shape(), "row", "t", ground, NEW)
    return settled() | state_fields(SNAPSHOT, plan)


def pending() -> dict[str, Any]:
    row = Snapshot("s", "row", status=SnapshotStatus.PENDING, created_at=NOW, updated_at=NOW)
    return snapshot_fields(row, "ann", "attempt")


@pytest.mark.parametrize("fields", [checkpoint(), diff()], ids=["checkpoint", "diff"])
def test_a_row_is_read_as_it_was_written(fields: dict[str, Any]) -> None:
    row = read_row(document(fields))
    assert row.snapshot == SNAPSHOT
    assert (row.owner_id, row.attempt, row.update_time, row.name) == ("ann", "attempt", NOW, "snapshots/acme/row")
    assert row.chain is not None
    assert row.as_snapshot(SnapshotStatus.EXPIRED) == replace(SNAPSHOT, status=SnapshotStatus.EXPIRED)


def test_a_row_without_a_state_has_no_chain_and_no_absent_fields() -> None:
    fields = pending()
    assert None not in fields.values()
    row = read_row(document(fields))
    assert (row.chain, row.runner, row.settled_by, row.request_shards) == (None, None, None, ())
    assert row.snapshot == Snapshot("s", "row", status=SnapshotStatus.PENDING, created_at=NOW, updated_at=NOW)


def test_times_that_nobody_gave_are_the_databases() -> None:
    fields = snapshot_fields(Snapshot("s", "row"), "ann", "attempt")
    assert (fields["createdAt"], fields["updatedAt"]) == (SERVER_TIME, SERVER_TIME)


def test_the_mask_of_metadata_holds_everything_but_the_payloads() -> None:
    """A field that is missing there would be lost by every metadata read and by every claim."""
    written = {*checkpoint(), *diff(), *pending()}
    assert written - set(METADATA_FIELDS) - {"codec"} == {"statePatch"} <= set(PAYLOAD_FIELDS)
    assert not set(PAYLOAD_FIELDS) & set(METADATA_FIELDS)
    masked = {name: value for name, value in diff().items() if name in METADATA_FIELDS}
    assert replace(read_row(document(masked)), document=document({})) == replace(
        read_row(document(diff())), document=document({})
    )


def test_the_fields_of_a_chain_are_those_that_a_rewrite_removes() -> None:
    assert {*checkpoint(), *diff()} - set(settled()) == set(CHAIN_FIELDS)


def test_the_patch_of_a_diff_is_checked() -> None:
    fields = diff()
    assert read_row(document(fields)).patch.startswith(b"[")
    with pytest.raises(DataLossError, match="statePatch does not match its digest"):
        _ = read_row(document(fields | {"statePatch": fields["statePatch"] + b"x"})).patch
    with pytest.raises(DataLossError, match="statePatch is missing"):
        _ = read_row(document({name: value for name, value in fields.items() if name != "statePatch"})).patch


@pytest.mark.parametrize(
    "name",
    ["formatVersion", "snapshotId", "sessionId", "origin", "status", "createdAt", "updatedAt", "ownerId", "attempt"],
)
@pytest.mark.parametrize("wrong", [None, [], 1.5])
def test_a_needed_field_that_is_missing_or_of_a_wrong_type_is_damage(name: str, wrong: object) -> None:
    with pytest.raises(DataLossError, match=name) as caught:
        read_row(document(checkpoint() | {name: wrong}))
    assert caught.value.document == "snapshots/acme/row"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"formatVersion": 2}, "format version 2"),
        ({"formatVersion": True}, "formatVersion"),
        ({"snapshotId": "other"}, "another snapshot's id"),
        ({"status": "expired?"}, "status is 'expired\\?'"),
        ({"origin": "nowhere"}, "origin is 'nowhere'"),
        ({"kind": "shard"}, "kind is 'shard'"),
        ({"kind": "diff"}, "kind contradicts"),
        ({"kind": 1}, "kind"),
        ({"stateDigest": b"other"}, "chain is damaged"),
        ({"stateDigest": None}, "stateDigest is missing"),
        ({"chain": None}, "chain is missing"),
        ({"chain": b""}, "chain"),
        ({"usage": "many"}, "usage"),
        ({"error": b"x"}, "sealed|codec"),
        ({"error": seal(Stored(JSON, b"{"))}, "error is not JSON"),
        ({"error": seal(Stored(JSON, b"[1]"))}, "error is not an object"),
        ({"requestShards": ["x"]}, "names no shards"),
        ({"heartbeatAt": "now"}, "heartbeatAt"),
    ],
)
def test_fields_that_make_no_row_are_damage(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataLossError, match=reason) as caught:
        read_row(document(checkpoint() | changes))
    assert caught.value.document == "snapshots/acme/row"


def test_a_row_is_settled_exactly_when_somebody_has_settled_it() -> None:
    for fields in (
        {name: value for name, value in checkpoint().items() if name != "settledBy"},
        pending() | {"settledBy": "x"},
    ):
        with pytest.raises(DataLossError, match="settled"):
            read_row(document(fields))


@pytest.mark.parametrize("name", ["sessionId", "parentId", "stateDigest"])
def test_a_chain_of_another_place_is_damage(name: str) -> None:
    wrong = b"\0" * 16 if name == "stateDigest" else "another"
    for fields in (checkpoint(), diff()):
        with pytest.raises(DataLossError, match="another snapshot's"):
            read_row(document(fields | {name: wrong}))


def test_another_rows_document_is_noticed() -> None:
    with pytest.raises(DataLossError, match="another snapshot's id"):
        read_row(document(checkpoint(), "other"))


@pytest.mark.parametrize("size", [0, 100, 16_000])
def test_an_error_is_kept_up_to_its_limit(size: int) -> None:
    error = {"status": "INTERNAL", "message": "é" * 10, "details": {"trace": "x" * size}}
    fields = pending() | {"error": error_field(error)}
    assert read_row(document(fields)).snapshot.error == error


@pytest.mark.parametrize(
    "error",
    [
        {"status": "INTERNAL", "message": "short", "details": {"trace": "x" * 20_000}},
        {"status": "INTERNAL", "message": "\0" * 20_000},
        {"message": ["not", "text"] * 9000},
        {"status": "S" * 20_000},
    ],
    ids=["details", "message", "no text", "status"],
)
def test_an_error_beyond_it_loses_its_details_and_then_the_end_of_its_message(error: dict[str, Any]) -> None:
    kept = read_row(document(pending() | {"error": error_field(error)})).snapshot.error
    assert kept is not None
    assert kept["truncated"] is True
    assert len(dump(dict(kept))) <= 16_384
    assert str(error.get("message", "")).startswith(kept["message"])
    assert str(error.get("status", "UNKNOWN")).startswith(kept["status"])


def test_an_error_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        error_field({"message": float("nan")})
    assert error_field(None) is None
