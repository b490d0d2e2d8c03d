"""What a save may change, what counts as a heartbeat, and which of two rows is newer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from store.errors import InvalidRequestError, SnapshotSettledError
from store.models import Origin, Snapshot, SnapshotStatus
from store.rules.saves import is_heartbeat, is_newer, require_saved
from store.state import State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)
ONE, TRUE = State.of({"n": 1}), State.of({"n": True})
P, G, C, F, A = (
    SnapshotStatus.PENDING,
    SnapshotStatus.ABORTING,
    SnapshotStatus.COMPLETED,
    SnapshotStatus.FAILED,
    SnapshotStatus.ABORTED,
)
ALLOWED = {(P, P), (P, G), (P, C), (P, F), (P, A), (G, G), (G, A), (C, C), (F, F), (A, A)}
ROW = Snapshot("s", "row", "parent", Origin.TURN, C, ONE, "stop", {"n": 1}, {"totalTokens": 1}, "m", NOW, NOW, NOW)


@pytest.mark.parametrize("before", [P, G, C, F, A])
@pytest.mark.parametrize("after", [P, G, C, F, A])
def test_a_status_only_goes_on(before: SnapshotStatus, after: SnapshotStatus) -> None:
    existing, given = replace(ROW, status=before), replace(ROW, status=after)
    if (before, after) in ALLOWED:
        assert require_saved(existing, given, "row") == given
    else:
        with pytest.raises(SnapshotSettledError, match=f"is {before} cannot become {after}"):
            require_saved(existing, given, "row")


@pytest.mark.parametrize("state", [TRUE, None, State.of({}), State.of({"n": 1.0})])
@pytest.mark.parametrize("status", [C, F, A])
def test_a_settled_state_is_compared_by_its_bytes(status: SnapshotStatus, state: State | None) -> None:
    with pytest.raises(SnapshotSettledError, match="state"):
        require_saved(replace(ROW, status=status), replace(ROW, status=status, state=state), "row")
    running = replace(ROW, status=P)
    assert require_saved(running, replace(running, state=state), "row").state == state


def test_the_store_owns_identity_creation_and_origin() -> None:
    given = replace(ROW, snapshot_id="other", created_at=LATER, origin=Origin.SAVE, error=None)
    saved = require_saved(ROW, given, "row")
    assert (saved.snapshot_id, saved.created_at, saved.origin, saved.error) == ("row", NOW, Origin.TURN, None)
    fresh = require_saved(None, given, "row")
    assert (fresh.snapshot_id, fresh.created_at, fresh.origin) == ("row", LATER, Origin.SAVE)


@pytest.mark.parametrize("change", [{"session_id": "t"}, {"parent_id": "other"}, {"parent_id": None}])
def test_a_rows_session_and_parent_stay(change: dict[str, Any]) -> None:
    with pytest.raises(SnapshotSettledError):
        require_saved(ROW, replace(ROW, **change), "row")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"session_id": ""}, "sessionId"),
        ({"session_id": "a/b"}, "sessionId"),
        ({"parent_id": ".."}, "parentId"),
        ({"status": SnapshotStatus.EXPIRED}, "expired"),
        ({"created_at": datetime(2026, 1, 1)}, "created_at"),
        ({"updated_at": datetime(2026, 1, 1)}, "updated_at"),
        ({"heartbeat_at": datetime(2026, 1, 1)}, "heartbeat_at"),
    ],
)
def test_what_no_row_may_hold_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    for existing in (None, ROW):
        with pytest.raises(InvalidRequestError, match=named):
            require_saved(existing, replace(ROW, **change), "row")


@pytest.mark.parametrize("more", [{}, {"updated_at": LATER}])
def test_a_new_beat_and_nothing_else_is_a_heartbeat(more: dict[str, Any]) -> None:
    assert is_heartbeat(ROW, replace(ROW, heartbeat_at=LATER, **more))
    assert is_heartbeat(replace(ROW, heartbeat_at=None), ROW)
    assert not is_heartbeat(ROW, replace(ROW, **more))


@pytest.mark.parametrize(
    "change",
    [
        {"status": F},
        {"finish_reason": "length"},
        {"error": {"n": True}},
        {"error": {"n": 1.0}},
        {"error": None},
        {"usage": None},
        {"model": None},
        {"message_id": "q"},
        {"last_message_id": "a"},
        {"state": TRUE},
    ],
    ids=str,
)
def test_a_beat_with_anything_else_is_a_change(change: dict[str, Any]) -> None:
    assert not is_heartbeat(ROW, replace(ROW, heartbeat_at=LATER, **change))


@pytest.mark.parametrize(
    ("created_at", "row_id", "newer"),
    [(LATER, "a", True), (NOW, "z", True), (NOW, "m", False), (NOW, "a", False), (NOW - timedelta(1), "z", False)],
)
def test_recency_is_by_creation_and_then_by_id(created_at: datetime, row_id: str, newer: bool) -> None:
    assert is_newer(Snapshot("s", row_id, created_at=created_at), NOW, "m") is newer


def test_anything_is_newer_than_nothing() -> None:
    assert is_newer(Snapshot("s", "a", created_at=NOW), None, None)
