"""How a turn may end, and how one ends that was asked to stop."""

from dataclasses import replace

import pytest

from store.errors import InvalidRequestError
from store.models import Outcome, SnapshotStatus
from store.rules.settle import as_aborted, require_outcome
from store.state import EMPTY, State

STATE = State.of({"messages": [{"id": "a"}]})
COMPLETED = Outcome(SnapshotStatus.COMPLETED, "stop", STATE, usage={"totalTokens": 1}, auto_title="t", event_count=3)
FAILED = Outcome(SnapshotStatus.FAILED, "failed", error={"status": "INTERNAL"})
ABORTED = Outcome(SnapshotStatus.ABORTED, "aborted", STATE)


@pytest.mark.parametrize(
    "outcome", [COMPLETED, FAILED, ABORTED, replace(ABORTED, state=None), replace(COMPLETED, state=EMPTY)]
)
def test_a_turn_ends_completed_failed_or_aborted(outcome: Outcome) -> None:
    assert require_outcome(outcome) is outcome


@pytest.mark.parametrize(
    "outcome",
    [
        replace(COMPLETED, state=None),
        replace(FAILED, state=STATE),
        replace(COMPLETED, status=SnapshotStatus.PENDING),
        replace(COMPLETED, status=SnapshotStatus.ABORTING),
        replace(COMPLETED, status=SnapshotStatus.EXPIRED),
    ],
)
def test_another_end_is_refused(outcome: Outcome) -> None:
    with pytest.raises(InvalidRequestError):
        require_outcome(outcome)


def test_a_completed_turn_that_was_asked_to_stop_keeps_what_it_produced() -> None:
    stopped = as_aborted(COMPLETED)
    assert (stopped.status, stopped.finish_reason, stopped.state, stopped.error) == (
        SnapshotStatus.ABORTED,
        "aborted",
        STATE,
        None,
    )
    assert (stopped.usage, stopped.auto_title, stopped.event_count) == ({"totalTokens": 1}, "t", 3)


def test_a_failed_turn_that_was_asked_to_stop_has_nothing_to_keep() -> None:
    stopped = as_aborted(FAILED)
    assert (stopped.status, stopped.finish_reason, stopped.state, stopped.error) == (
        SnapshotStatus.ABORTED,
        "aborted",
        None,
        None,
    )


def test_an_aborted_turn_stays_as_it_is() -> None:
    assert as_aborted(replace(ABORTED, finish_reason="other")) == replace(ABORTED, finish_reason="other")


def test_the_owner_says_what_is_stored_instead() -> None:
    marked = replace(ABORTED, state=EMPTY)
    assert as_aborted(replace(COMPLETED, interrupted=lambda: marked)) is marked
    assert as_aborted(as_aborted(replace(COMPLETED, interrupted=lambda: marked))) is marked
    with pytest.raises(InvalidRequestError):
        as_aborted(replace(COMPLETED, interrupted=lambda: replace(COMPLETED, state=None)))
