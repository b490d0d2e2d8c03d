"""A state machine: any order of saves, turns, aborts and rewinds on one session, held against a plain model of it.

Hypothesis chooses the steps in a thread of its own, so that a shorter sequence can be found for a failure; each step
runs on the case's event loop. Every run has a session of its own in the same store.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import booleans, integers, sampled_from

from store.conformance.harness import Store, Stores
from store.conformance.turns import (
    ABORTED,
    ABORTING,
    ANN,
    COMPLETED,
    FAILED,
    PENDING,
    aborted,
    always,
    claim,
    claimed,
    completed,
    failed,
    message,
    snapshot,
)
from store.errors import LeaseLostError, SnapshotNotFoundError, TurnBusyError
from store.ids import mint_id
from store.models import Lease, Outcome, SnapshotStatus
from store.rules.history import messages_of
from store.state import State

_T = TypeVar("_T")
_STEP_SECONDS = 30.0


ENDS: list[Callable[[Lease], Outcome]] = [completed, aborted, lambda _: failed()]


class SessionMachine(RuleBasedStateMachine):
    """`rows` is what the model knows of each row: status and message ids, None where it has no state."""

    def __init__(self, stores: Stores, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._stores = stores
        self._loop = loop
        self._session_id = mint_id()
        self._rows: dict[str, tuple[SnapshotStatus, list[str] | None]] = {}
        self._head: list[str] = []
        self._head_id: str | None = None
        self._latest: str | None = None
        self._lease: Lease | None = None
        self._count = 0
        self._store = self._run(self._opened())
        self.save(has_state=True)

    def _run(self, step: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(_STEP_SECONDS)

    async def _opened(self) -> Store:
        return self._stores.open()

    def _next(self) -> str:
        self._count += 1
        return f"m{self._count}"

    @rule(has_state=booleans())
    @precondition(lambda self: self._lease is None)
    def save(self, has_state: bool) -> None:
        """A row outside of turns: on the head, completed with a state, or failed without one."""
        row_id, ids = mint_id(), [*self._head, self._next()]
        state = State.of({"messages": [message(each) for each in ids]}) if has_state else None
        status = COMPLETED if has_state else FAILED
        row = snapshot(self._session_id, parent_id=self._head_id, status=status, state=state)
        self._run(self._store.save_snapshot(ANN, row_id, always(row)))
        self._settled(row_id, status, ids if has_state else None)

    @rule()
    @precondition(lambda self: self._lease is None)
    def claim(self) -> None:
        """A turn begins."""
        tail = self._head[-1] if self._head else None
        given = claim(self._next(), self._session_id, last_message_id=tail)
        self._lease = self._run(claimed(self._store, given))
        self._rows[self._lease.snapshot_id] = (PENDING, None)
        self._latest = self._lease.snapshot_id

    @rule()
    @precondition(lambda self: self._lease is not None)
    def claim_again(self) -> None:
        """Nobody else gets the session meanwhile."""
        tail = self._head[-1] if self._head else None
        given = claim(self._next(), self._session_id, last_message_id=tail)
        try:
            self._run(self._store.claim_turn(ANN, given))
        except TurnBusyError:
            return
        raise AssertionError("two turns have the session")

    @rule()
    @precondition(lambda self: self._lease is not None)
    def abort(self) -> None:
        """Somebody asks the turn to stop."""
        assert self._lease is not None
        self._run(self._store.abort_turn(ANN, self._lease.snapshot_id))
        self._rows[self._lease.snapshot_id] = (ABORTING, None)

    @rule(how=sampled_from(ENDS))
    @precondition(lambda self: self._lease is not None)
    def settle(self, how: Callable[[Lease], Outcome]) -> None:
        """The turn ends; once it was asked to stop it ends as aborted, whatever its outcome."""
        lease = self._lease
        assert lease is not None
        outcome = how(lease)
        settled = self._run(self._store.settle_turn(lease, outcome))
        was_asked = self._rows[lease.snapshot_id][0] is ABORTING
        expected = ABORTED if was_asked else outcome.status
        assert settled.status is expected
        ids = None if settled.state is None else [str(raw.key) for raw in messages_of(settled.state)]
        assert (ids is None) is (outcome.state is None)
        self._settled(lease.snapshot_id, expected, ids)
        self._lease = None
        self._spent = lease

    _spent: Lease | None = None

    @rule()
    @precondition(lambda self: self._spent is not None)
    def settle_too_late(self) -> None:
        """A turn that is settled again, otherwise, changes nothing: it is told of its own result, or refused."""
        assert self._spent is not None
        with suppress(LeaseLostError):
            self._run(self._store.settle_turn(self._spent, failed()))
        self._spent = None

    @rule(back=integers(0, 3))
    @precondition(lambda self: self._lease is None and len(self._head) > 1)
    def truncate(self, back: int) -> None:
        """The user's message goes, with all after it."""
        questions = [each for each in self._head if not each.endswith("-answer")]
        target = questions[max(0, len(questions) - 1 - back)]
        session = self._run(self._store.truncate(ANN, self._session_id, target))
        assert session.head_snapshot_id is not None
        self._settled(session.head_snapshot_id, COMPLETED, self._head[: self._head.index(target)])

    @rule(number=integers(0, 50))
    @precondition(lambda self: self._lease is None)
    def restore(self, number: int) -> None:
        """An earlier state is the head's again."""
        known = [row_id for row_id, (status, ids) in self._rows.items() if ids is not None and status is COMPLETED]
        row_id = known[number % len(known)]
        session = self._run(self._store.restore(ANN, self._session_id, row_id))
        assert session.head_snapshot_id is not None
        if session.head_snapshot_id != self._head_id:
            self._settled(session.head_snapshot_id, COMPLETED, self._rows[row_id][1])

    @rule()
    def restart(self) -> None:
        """Another instance goes on, with nothing cached."""
        self._store = self._run(self._opened())

    @rule(number=integers(0, 50))
    def read_a_row(self, number: int) -> None:
        """Any row reads as the model says."""
        row_id = list(self._rows)[number % len(self._rows)]
        status, ids = self._rows[row_id]
        row = self._run(self._store.get_snapshot(ANN, row_id))
        assert row is not None
        assert row.status is status
        assert (None if row.state is None else [raw.key for raw in messages_of(row.state)]) == ids

    @rule()
    def read_a_row_that_is_not_there(self) -> None:
        """Missing is missing, and cannot be aborted."""
        assert self._run(self._store.get_snapshot(ANN, mint_id())) is None
        try:
            self._run(self._store.abort_turn(ANN, mint_id()))
        except SnapshotNotFoundError:
            return
        raise AssertionError("a row was aborted that is not there")

    @invariant()
    def session_and_transcript_agree(self) -> None:
        """Head, latest row, lease and transcript are the model's."""
        transcript = self._run(self._store.get_transcript(ANN, self._session_id))
        latest = self._run(self._store.get_latest_snapshot(ANN, self._session_id))
        assert transcript is not None
        assert latest is not None
        assert [raw.key for raw in messages_of(transcript.state)] == self._head
        assert latest.snapshot_id == self._latest
        assert transcript.session.head_snapshot_id == self._head_id
        assert transcript.session.active_snapshot_id == (self._lease.snapshot_id if self._lease else None)

    def _settled(self, row_id: str, status: SnapshotStatus, ids: list[str] | None) -> None:
        self._rows[row_id] = (status, ids)
        if self._lease is None or self._lease.snapshot_id != row_id:
            self._latest = row_id
        if ids is not None:
            self._head, self._head_id = ids, row_id


class MachineCases:
    """Random sequences of operations."""

    machine_runs = 12
    """How many sequences are tried; a slow backend's subclass may set fewer."""

    async def test_any_sequence_of_operations_agrees_with_a_plain_model(self, stores: Stores) -> None:
        """Needs a store that has turns, session records and transcript editing."""
        loop = asyncio.get_running_loop()
        store = stores.open()
        for name in ("claim_turn", "get_transcript", "truncate"):
            getattr(store, name)  # skips the case where it is not declared
        chosen = settings(
            max_examples=self.machine_runs,
            stateful_step_count=25,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )

        class Machine(SessionMachine):
            def __init__(self) -> None:
                super().__init__(stores, loop)

        await asyncio.to_thread(run_state_machine_as_test, Machine, settings=chosen)
