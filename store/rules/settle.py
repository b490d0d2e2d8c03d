"""How a turn may end."""

from dataclasses import replace

from store.errors import InvalidRequestError
from store.models import FinishReason, Outcome, SnapshotStatus
from store.rules.fields import require_row_fields

LEASE_LOST = {
    "status": "ABORTED",
    "message": "The turn's instance stopped answering.",
    "details": {"code": "lease_lost"},
}


def require_outcome(outcome: Outcome) -> Outcome:
    """`outcome`, refused where its status and state do not belong together, or a field is not what it has to be."""
    require_row_fields(outcome)
    if outcome.status not in (SnapshotStatus.COMPLETED, SnapshotStatus.FAILED, SnapshotStatus.ABORTED):
        raise InvalidRequestError(f"A turn cannot end as {outcome.status}.")
    if outcome.status is SnapshotStatus.COMPLETED and outcome.state is None:
        raise InvalidRequestError("A completed turn has a state.")
    if outcome.status is SnapshotStatus.FAILED and outcome.state is not None:
        raise InvalidRequestError("A failed turn has no state.")
    return outcome


def as_aborted(outcome: Outcome) -> Outcome:
    """What to store instead of `outcome` once the turn was asked to stop: it always ends as aborted, and what it had
    produced is kept. A turn that failed by itself while stopping has produced nothing that could be kept."""
    if outcome.status is SnapshotStatus.ABORTED:
        return outcome
    if outcome.interrupted is not None:
        return require_outcome(outcome.interrupted())
    return replace(outcome, status=SnapshotStatus.ABORTED, finish_reason=FinishReason.ABORTED.value, error=None)
