"""Sessions that Genkit's own stores wrote are read in place and continued, in each of their three dialects."""

from datetime import UTC, datetime

import pytest

from store.canonical import Json
from store.database import Kind, Path
from store.documents.store import DocumentStore
from store.errors import (
    SessionNotFoundError,
    SnapshotNotFoundError,
    SnapshotSettledError,
    TranscriptStaleError,
    TurnBusyError,
)
from store.fsck.check import check
from store.models import Scope, SnapshotStatus
from store.rules.history import messages_of
from store.state import State
from tests.contract.genkit_documents import (
    BEGAN,
    DIALECTS,
    TENANT,
    Dialect,
    GenkitRow,
    conversation,
    genkit_row,
    genkit_writes,
)
from tests.contract.soundness import documents_of, raw
from tests.contract.stores import Stores
from tests.contract.turns import ANN, BOB, ELSEWHERE, always, claim, claimed, completed, converse, failed, snapshot

POINTER = Path(Kind.POINTERS, TENANT, "s")
LOST: Json = {"status": "INTERNAL", "message": "broke", "details": {"n": [1, None]}}


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Whose documents they are."""
    found: Dialect = request.param
    return found


def value_of(state: State | None) -> Json:
    """The state's value, to compare without regard to the order of keys: a map of Firestore's has none."""
    return None if state is None else state.value()


async def written(stores: Stores, dialect: Dialect, rows: list[GenkitRow]) -> DocumentStore:
    """A store on the documents of one conversation, open to the tenant's users."""
    stores.is_damaged = True  # the check afterwards knows documents of ours only
    for write in genkit_writes(dialect, rows):
        await stores.database.commit([write])
    return stores.open(legacy_owner="tenant")


async def everything(stores: Stores) -> dict[Path, object]:
    """All raw documents."""
    found = [
        document
        for kind in (Kind.SNAPSHOTS, Kind.SHARDS, Kind.POINTERS)
        for document in await documents_of(stores.database, kind)
    ]
    return {document.path: dict(document.fields) for document in found}


async def test_every_row_reads_with_the_state_that_was_written(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(9)
    store = await written(stores, dialect, rows)
    for row in rows:
        found = await store.get_snapshot(ANN, row["snapshotId"])
        assert found is not None
        assert value_of(found.state) == row["state"]
        assert (found.session_id, found.parent_id) == ("s", row.get("parentId"))
        assert found.created_at == row["createdAt"]
        assert (found.status, found.finish_reason) == (SnapshotStatus.COMPLETED, "stop")


async def test_latest_and_transcript_are_the_newest_row_s(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(6)
    store = await written(stores, dialect, rows)
    latest = await store.get_latest_snapshot(ANN, "s")
    metadata = await store.get_latest_snapshot_metadata(ANN, "s")
    transcript = await store.get_transcript(ANN, "s")
    assert latest is not None
    assert value_of(latest.state) == rows[-1]["state"]
    assert metadata is not None
    assert (metadata.snapshot_id, metadata.state) == ("row-5", None)
    assert transcript is not None
    assert transcript.state == latest.state
    assert (transcript.session.head_snapshot_id, transcript.session.message_count) == ("row-5", 12)


async def test_reading_writes_nothing(stores: Stores, dialect: Dialect) -> None:
    store = await written(stores, dialect, conversation(3))
    before = await everything(stores)
    await store.get_snapshot(ANN, "row-2")
    await store.get_transcript(ANN, "s")
    with pytest.raises(TranscriptStaleError):
        await store.claim_turn(ANN, claim("m", "s", last_message_id="another"))
    assert await everything(stores) == before


async def test_a_failed_row_keeps_its_error_and_the_head_is_before_it(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(2)
    broken = genkit_row(2, rows[-1]["state"], status="failed", finishReason="failed", error=LOST)
    store = await written(stores, dialect, [*rows, broken])
    latest = await store.get_latest_snapshot(ANN, "s")
    transcript = await store.get_transcript(ANN, "s")
    assert latest is not None
    assert (latest.status, latest.error) == (SnapshotStatus.FAILED, LOST)
    assert transcript is not None
    assert transcript.session.head_snapshot_id == "row-1"


async def test_a_row_without_a_status_is_completed(stores: Stores, dialect: Dialect) -> None:
    row = genkit_row(0, {"messages": []})
    del row["status"], row["finishReason"]
    store = await written(stores, dialect, [row])
    found = await store.get_snapshot(ANN, "row-0")
    assert found is not None
    assert (found.status, found.finish_reason) == (SnapshotStatus.COMPLETED, None)


async def test_a_row_without_a_session_id_belongs_to_the_one_in_its_state(stores: Stores, dialect: Dialect) -> None:
    store = await written(stores, dialect, [genkit_row(0, {"sessionId": "s"})])
    path = Path(Kind.SNAPSHOTS, TENANT, "row-0")
    fields = {name: value for name, value in (await raw(stores.database, path)).items() if name != "sessionId"}
    [put, *_] = [write for write in genkit_writes(dialect, [genkit_row(0, {"sessionId": "s"})]) if write.path == path]
    await stores.database.commit([type(put)(path, fields)])
    found = await store.get_snapshot_metadata(ANN, "row-0")
    assert found is not None
    assert found.session_id == "s"


async def test_what_the_go_store_kept_of_no_state_is_an_empty_one(stores: Stores) -> None:
    store = await written(stores, "go", [genkit_row(0, None)])
    found = await store.get_snapshot(ANN, "row-0")
    assert found is not None
    assert found.state == State.of({})


async def test_a_running_row_has_no_state_and_expires_by_its_heartbeat(stores: Stores, dialect: Dialect) -> None:
    running = genkit_row(1, {}, status="pending", finishReason=None, heartbeatAt=BEGAN)
    store = await written(stores, dialect, [*conversation(1), running])
    found = await store.get_snapshot(ANN, "row-1")
    assert found is not None
    assert (found.status, found.state) == (SnapshotStatus.EXPIRED, None)


async def test_a_turn_continues_the_session_and_makes_it_ours(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(5)
    store = await written(stores, dialect, rows)
    lease = await claimed(store, claim("m", "s"))
    assert value_of(lease.state) == rows[-1]["state"]
    settled = await store.settle_turn(lease, completed(lease))
    cold = stores.open(legacy_owner="off", cache_size=0)
    transcript = await cold.get_transcript(ANN, "s")
    assert transcript is not None
    assert transcript.state == settled.state
    assert len(messages_of(settled.state)) == len(rows[-1]["state"]["messages"]) + 2
    pointer = await raw(stores.database, POINTER)
    assert (pointer["formatVersion"], pointer["ownerId"], pointer["agent"]) == (1, "ann", "echo")
    assert "segmentPath" not in pointer


async def test_the_converted_head_follows_the_row_that_it_was(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(3)
    store = await written(stores, dialect, rows)
    lease = await claimed(store, claim("m", "s"))
    assert lease.parent_id is not None
    head = await store.get_snapshot(ANN, lease.parent_id)
    assert head is not None
    assert (head.parent_id, value_of(head.state)) == ("row-2", rows[-1]["state"])


async def test_a_turn_that_fails_leaves_the_transcript_as_genkit_wrote_it(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(2)
    store = await written(stores, dialect, rows)
    await store.settle_turn(await claimed(store, claim("m", "s")), failed())
    transcript = await stores.open(cache_size=0).get_transcript(ANN, "s")
    assert transcript is not None
    assert value_of(transcript.state) == rows[-1]["state"]


async def test_genkit_s_rows_stay_readable_for_the_owner_alone(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(3)
    store = await written(stores, dialect, rows)
    assert await store.get_snapshot(BOB, "row-1") is not None
    await converse(store, "m", "s")
    found = await store.get_snapshot(ANN, "row-1")
    assert found is not None
    assert value_of(found.state) == rows[1]["state"]
    assert await store.get_snapshot(BOB, "row-1") is None
    assert await store.get_session(BOB, "s") is None


async def test_a_turn_may_continue_an_earlier_row(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(3)
    store = await written(stores, dialect, rows)
    lease = await claimed(store, claim("m", "s", snapshot_to_resume="row-0"))
    assert (lease.parent_id, value_of(lease.state)) == ("row-0", rows[0]["state"])
    settled = await store.settle_turn(lease, completed(lease))
    found = await stores.open(cache_size=0).get_snapshot(ANN, settled.snapshot_id)
    assert found is not None
    assert found.state == settled.state


async def test_the_first_save_converts_the_session_by_itself(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(3)
    store = await written(stores, dialect, rows)
    state = State.of(rows[-1]["state"] | {"custom": 1})
    await store.save_snapshot(ANN, "new", always(snapshot(parent_id="row-2", state=state)))
    transcript = await stores.open(cache_size=0).get_transcript(ANN, "s")
    assert transcript is not None
    assert (transcript.session.head_snapshot_id, transcript.state) == ("new", state)


async def test_a_save_that_is_not_the_newest_leaves_the_head(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(3)
    store = await written(stores, dialect, rows)
    old = snapshot(parent_id="row-0", created_at=datetime(2020, 1, 1, tzinfo=UTC))
    await store.save_snapshot(ANN, "old", always(old))
    transcript = await stores.open(cache_size=0).get_transcript(ANN, "s")
    assert transcript is not None
    assert value_of(transcript.state) == rows[-1]["state"]


async def test_a_row_of_genkit_s_is_not_rewritten(stores: Stores, dialect: Dialect) -> None:
    store = await written(stores, dialect, conversation(2))
    before = await everything(stores)
    with pytest.raises(SnapshotSettledError):
        await store.save_snapshot(ANN, "row-1", always(snapshot(parent_id="row-0", finish_reason="other")))
    assert await everything(stores) == before


async def test_a_stale_turn_of_genkit_s_is_taken_over(stores: Stores, dialect: Dialect) -> None:
    running = genkit_row(2, {}, status="pending", finishReason=None, heartbeatAt=BEGAN)
    store = await written(stores, dialect, [*conversation(2), running])
    await converse(store, "m", "s")
    found = await store.get_snapshot(ANN, "row-2")
    assert found is not None
    assert (found.status, found.finish_reason) == (SnapshotStatus.FAILED, "failed")
    assert found.error is not None
    assert found.error["status"] == "ABORTED"


async def test_a_first_turn_of_genkit_s_that_crashed_leaves_an_empty_session(stores: Stores, dialect: Dialect) -> None:
    running = genkit_row(0, {}, status="pending", finishReason=None, heartbeatAt=BEGAN)
    store = await written(stores, dialect, [running])
    settled = await converse(store, "m", "s")
    assert (settled.parent_id, len(messages_of(settled.state))) == (None, 2)


async def test_a_live_turn_of_genkit_s_is_busy(stores: Stores, dialect: Dialect) -> None:
    now = (await stores.database.get([POINTER])).time
    running = genkit_row(1, {}, status="pending", finishReason=None, heartbeatAt=now)
    store = await written(stores, dialect, [*conversation(1), running])
    before = await everything(stores)
    session = await store.get_session(ANN, "s")
    assert session is not None
    assert session.is_turn_active
    with pytest.raises(TurnBusyError):
        await store.claim_turn(ANN, claim("m", "s"))
    assert await everything(stores) == before


async def test_an_abort_ends_a_turn_of_genkit_s_in_its_own_words(stores: Stores, dialect: Dialect) -> None:
    running = genkit_row(1, {}, status="pending", finishReason=None, heartbeatAt=BEGAN)
    store = await written(stores, dialect, [*conversation(1), running])
    pointer = await raw(stores.database, POINTER)
    assert (await store.abort_turn(ANN, "row-1")).status is SnapshotStatus.ABORTED
    row = await raw(stores.database, Path(Kind.SNAPSHOTS, TENANT, "row-1"))
    assert (row["status"], "formatVersion" in row) == ("aborted", False)
    assert await raw(stores.database, POINTER) == pointer


async def test_without_an_owner_policy_they_read_as_missing(stores: Stores, dialect: Dialect) -> None:
    await written(stores, dialect, conversation(2))
    store = stores.open()
    before = await everything(stores)
    assert await store.get_snapshot(ANN, "row-0") is None
    assert await store.get_latest_snapshot(ANN, "s") is None
    assert await store.get_transcript(ANN, "s") is None
    with pytest.raises(SessionNotFoundError):
        await store.claim_turn(ANN, claim("m", "s"))
    with pytest.raises(SessionNotFoundError):
        await store.save_snapshot(ANN, "new", always(snapshot()))
    with pytest.raises(SnapshotNotFoundError):
        await store.save_snapshot(ANN, "row-0", always(snapshot()))
    with pytest.raises(SessionNotFoundError):
        await store.delete_session(ANN, "s")
    assert await everything(stores) == before


async def test_another_tenant_sees_nothing_of_them(stores: Stores, dialect: Dialect) -> None:
    store = await written(stores, dialect, conversation(1))
    assert await store.get_snapshot(ELSEWHERE, "row-0") is None
    assert await store.get_session(Scope("other", "bob"), "s") is None


async def test_the_tree_holds_them_page_by_page(stores: Stores, dialect: Dialect) -> None:
    store = await written(stores, dialect, conversation(5))
    await converse(store, "m", "s")
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.list_snapshots(ANN, "s", 2, cursor)
        seen += [row.snapshot_id for row in page.snapshots]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 7
    assert {f"row-{number}" for number in range(5)} < set(seen)


async def test_a_deleted_session_leaves_no_document(stores: Stores, dialect: Dialect) -> None:
    store = await written(stores, dialect, conversation(5))
    await store.delete_session(ANN, "s")
    assert await everything(stores) == {}


async def test_a_renamed_session_is_ours(stores: Stores, dialect: Dialect) -> None:
    rows = conversation(2)
    store = await written(stores, dialect, rows)
    assert (await store.update_session(ANN, "s", title="Ours")).title == "Ours"
    [listed] = (await store.list_sessions(ANN, 10)).sessions
    assert (listed.id, listed.title, listed.owner_id) == ("s", "Ours", "ann")
    transcript = await stores.open(cache_size=0).get_transcript(ANN, "s")
    assert transcript is not None
    assert value_of(transcript.state) == rows[-1]["state"]


async def test_of_two_users_the_first_to_write_owns_the_session(stores: Stores, dialect: Dialect) -> None:
    store = await written(stores, dialect, conversation(2))
    await converse(store, "m", "s", scope=BOB)
    with pytest.raises(SessionNotFoundError):
        await store.claim_turn(ANN, claim("m", "s"))


async def test_a_check_finds_a_converted_session_to_be_sound(stores: Stores, dialect: Dialect) -> None:
    running = genkit_row(3, {}, status="pending", finishReason=None, heartbeatAt=BEGAN)
    store = await written(stores, dialect, [*conversation(3), running])
    await store.abort_turn(ANN, "row-3")
    assert (await check(stores.database)).findings == []
    await converse(store, "m", "s")
    assert (await check(stores.database)).findings == []
