"""Instances whose clocks are two minutes apart.

On Firestore the database's times decide, so that nothing is lost and nobody is blocked. Files are stamped by whoever
writes them: there nothing is lost either, but a turn may be taken for dead, or for alive, by as much as the clocks
differ. (Processes of one machine have one clock. A memory store is one process.)"""

import ast
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from store.database import Update
from store.documents.shelf import row_path
from store.errors import LeaseLostError, TurnBusyError
from store.file.store import FileStore
from store.firestore.database import FirestoreDatabase
from store.firestore.store import FirestoreStore
from store.models import Beat, SnapshotStatus
from store.rules.history import messages_of
from tests.properties.backends import FileBackend
from tests.properties.explorer import Explorer
from tests.properties.plain_turns import ADA, claim, claimed, completed
from tests.properties.wrong_clock import clock_off_by

STORE = Path(__file__).resolve().parents[2] / "store"
OWN_CLOCK = {"now", "utcnow", "today", "time", "time_ns"}
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def stores(emulator_host: str, project_id: str) -> AsyncIterator[tuple[FirestoreStore, FirestoreStore]]:
    """Two instances: one whose clock a test may set wrong, and one whose clock is right."""
    first = FirestoreStore(project_id, emulator_host=emulator_host)
    second = FirestoreStore(project_id, emulator_host=emulator_host)
    yield first, second
    await first.close()
    await second.close()


@pytest.fixture
async def raw(emulator_host: str, project_id: str) -> AsyncIterator[FirestoreDatabase]:
    database = FirestoreDatabase(project_id, emulator_host=emulator_host)
    yield database
    await database.close()


@pytest.mark.parametrize("seconds", [120, -120])
async def test_on_firestore_a_turn_of_an_instance_with_a_wrong_clock_lives_and_ends_like_any_other(
    stores: tuple[FirestoreStore, FirestoreStore], seconds: float
) -> None:
    wrong, right = stores
    with clock_off_by(seconds):
        lease = await claimed(wrong, claim("m1"))
    with pytest.raises(TurnBusyError):
        await right.claim_turn(ADA, claim("m2", lease.session_id))
    with clock_off_by(seconds):
        assert await wrong.heartbeat([lease]) == [Beat.ALIVE]
    session = await right.get_session(ADA, lease.session_id)
    assert session is not None
    assert session.is_turn_active
    with clock_off_by(seconds):
        await wrong.settle_turn(lease, completed(lease))
    following = await claimed(right, claim("m2", lease.session_id, after="m1-answer"))
    assert following.created_at > lease.created_at


@pytest.mark.parametrize("seconds", [120, -120])
async def test_on_firestore_an_instance_with_a_wrong_clock_waits_for_the_living_and_takes_over_from_the_dead(
    stores: tuple[FirestoreStore, FirestoreStore], raw: FirestoreDatabase, seconds: float
) -> None:
    wrong, right = stores
    lease = await claimed(right, claim("m1"))
    with clock_off_by(seconds):
        with pytest.raises(TurnBusyError):
            await wrong.claim_turn(ADA, claim("m2", lease.session_id))
        row = await wrong.get_snapshot_metadata(ADA, lease.snapshot_id)
        assert row is not None
        assert row.status is SnapshotStatus.PENDING
    await _age(raw, lease.snapshot_id, 61)
    with clock_off_by(seconds):
        successor = await claimed(wrong, claim("m2", lease.session_id))
        await wrong.settle_turn(successor, completed(successor))
    with pytest.raises(LeaseLostError):
        await right.settle_turn(lease, completed(lease))
    transcript = await right.get_transcript(ADA, lease.session_id)
    assert transcript is not None
    assert [message.key for message in messages_of(transcript.state)] == ["m2", "m2-answer"]


async def _age(raw: FirestoreDatabase, snapshot_id: str, seconds: float) -> None:
    """Makes a heartbeat older, by the server's clock, than it is: nobody can make the emulator's clock run."""
    path = row_path(ADA, snapshot_id)
    now = (await raw.get([path])).time
    await raw.commit([Update(path, {"heartbeatAt": now - timedelta(seconds=seconds)})])


def test_nothing_but_the_local_backends_reads_a_clock_of_its_own() -> None:
    assert _readers_of_clocks() == {"local/values.py"}  # which memory and file stores take when they are given none


def _readers_of_clocks() -> set[str]:
    """Files of the store that ask Python for the time of day. (`loop.time()` and `monotonic()` measure pauses.) The kit
    is no part of a store: it compares a database's time with its own."""
    return {
        str(path.relative_to(STORE))
        for path in STORE.rglob("*.py")
        if not path.is_relative_to(STORE / "conformance")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in OWN_CLOCK and _is_clock(node.value)
    }


def _is_clock(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("datetime", "date", "time")


def test_in_files_clocks_two_minutes_apart_break_no_promise(tmp_path: Path) -> None:
    numbers = count()
    explorer = Explorer(lambda: FileBackend(tmp_path / str(next(numbers)), skews=(0.0, 120.0, -120.0)))
    done, failure = explorer.first_failure(range(15))
    assert failure is None, str(failure)
    assert done == 15


async def test_in_files_a_turn_of_a_slow_clock_is_taken_for_dead_and_told_so(tmp_path: Path) -> None:
    slow = FileStore(tmp_path, clock=lambda: START, poll_interval=0)
    fast = FileStore(tmp_path, clock=lambda: START + timedelta(seconds=120), poll_interval=0)
    lease = await claimed(slow, claim("m1"))
    successor = await claimed(fast, claim("m2", lease.session_id))
    with pytest.raises(LeaseLostError):
        await slow.settle_turn(lease, completed(lease))
    await fast.settle_turn(successor, completed(successor))
    await slow.close()
    await fast.close()


async def test_in_files_a_dead_turn_of_a_fast_clock_blocks_for_as_long_as_the_clocks_differ_and_no_longer(
    tmp_path: Path,
) -> None:
    now = START
    fast = FileStore(tmp_path, clock=lambda: START + timedelta(seconds=120), poll_interval=0)
    slow = FileStore(tmp_path, clock=lambda: now, poll_interval=0)
    lease = await claimed(fast, claim("m1"))
    now = START + timedelta(seconds=120 + 60)
    with pytest.raises(TurnBusyError):
        await slow.claim_turn(ADA, claim("m2", lease.session_id))
    now += timedelta(seconds=1)
    await claimed(slow, claim("m2", lease.session_id))
    await slow.close()
    await fast.close()
