"""The turn protocol with one of its rules taken out: what the explorer must find, to be worth believing elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from store.database import CommitRefusedError, Update, Write
from store.documents import aborts, claims, heartbeats, save_writes, settles
from store.documents.loading import read_one_record, read_one_row
from store.documents.shelf import Shelf
from store.errors import LeaseLostError, TurnBusyError
from store.layout.rows import Row
from store.models import Claim, Lease, Scope

Mutant = Callable[[pytest.MonkeyPatch], None]


def takeover_leaves_the_stale_row(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: who accepts a stale lease settles the stale row."""
    for module in (claims, save_writes):
        patch.setattr(module, "plan_stale_settlement", lambda *_: [])


def abort_releases_the_lease_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: a lease is cleared only by a commit that also writes its row."""

    async def plan_end(shelf: Shelf, scope: Scope, row: Row) -> list[Write]:
        return [write for write in await original(shelf, scope, row) if write.path != row.document.path]

    original = aborts._plan_end
    patch.setattr(aborts, "_plan_end", plan_end)


def abort_settles_the_row_only(patch: pytest.MonkeyPatch) -> None:
    """Rule 2, the other way round: a row that ends gives its lease back."""

    async def plan_end(shelf: Shelf, scope: Scope, row: Row) -> list[Write]:
        return [write for write in await original(shelf, scope, row) if write.path.kind == row.document.path.kind]

    original = aborts._plan_end
    patch.setattr(aborts, "_plan_end", plan_end)


def settle_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: a row is written only as it was read; its update time is the fencing token."""

    def settle_writes(*given: Any) -> list[Write]:
        writes = original(*given)
        return [replace(write, update_time=None) if isinstance(write, Update) else write for write in writes]

    original = settles._settle_writes
    patch.setattr(settles, "_settle_writes", settle_writes)


def refused_settle_counts_as_lost(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: a refused commit is a question, which the own row answers."""

    async def question(shelf: Shelf, lease: Lease, doubt: Exception, *rest: Any) -> Row:
        if isinstance(doubt, CommitRefusedError):
            raise LeaseLostError(lease.snapshot_id)
        return await original(shelf, lease, doubt, *rest)

    original = settles._question
    patch.setattr(settles, "_question", question)


def settle_is_judged_by_the_session(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: never judge by the session document."""

    async def question(shelf: Shelf, lease: Lease, *rest: Any) -> Row:
        read = await read_one_record(shelf, lease.scope, lease.session_id, with_copy=False)
        if read.record is None or read.record.session.active_snapshot_id != lease.snapshot_id:
            raise LeaseLostError(lease.snapshot_id)
        return await original(shelf, lease, *rest)

    original = settles._question
    patch.setattr(settles, "_question", question)


def settle_believes_any_settled_row(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: a settled row is a success only where its own attempt has settled it."""

    async def question(shelf: Shelf, lease: Lease, *_: Any) -> Row:
        row = (await read_one_row(shelf, lease.scope, lease.snapshot_id)).row
        assert row is not None
        return row

    patch.setattr(settles, "_question", question)


def refused_claim_counts_as_busy(patch: pytest.MonkeyPatch) -> None:
    """Rule 3, for claims: a row of the own attempt is the lease, whatever the commit's answer was."""

    async def own_row(_shelf: Shelf, _scope: Scope, claim: Claim) -> Row | None:
        raise TurnBusyError(claim.snapshot_id, 3)

    patch.setattr(claims, "own_row", own_row)


def first_message_opens_any_session(patch: pytest.MonkeyPatch) -> None:
    """The same send: the message that opens a session names it, so that its resend finds it."""

    def new_session_id(_scope: Scope, claim: Claim) -> str:
        return f"session of {claim.snapshot_id}"

    patch.setattr(claims, "new_session_id", new_session_id)


def refused_beat_counts_as_lost(patch: pytest.MonkeyPatch) -> None:
    """Rule 3, for heartbeats."""

    async def question(_shelf: Shelf, refused: Sequence[Lease]) -> set[str]:
        return {lease.snapshot_id for lease in refused}

    patch.setattr(heartbeats, "_question", question)


def settle_forgets_the_abort(patch: pytest.MonkeyPatch) -> None:
    """A turn that was asked to stop ends aborted."""
    patch.setattr(settles, "as_aborted", lambda outcome: outcome)
