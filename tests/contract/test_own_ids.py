"""Sessions in name spaces of their own, beside those that are stored under their plain ids."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from store.adapters.own_ids import OwnIds, own_id, stored_id
from store.conformance.turns import ANN, BOB, changed, claim, claimed, completed, converse, save, state_of
from store.database import Delete, Kind, Path, Update
from store.documents import pruning
from store.documents.store import DocumentStore
from store.errors import (
    InvalidRequestError,
    SessionExistsError,
    SessionNotFoundError,
    SnapshotNotFoundError,
    UnavailableError,
)
from store.fsck.check import check
from store.ids import MAX_ID_BYTES, require_session_id
from store.models import Adopted, Lease, NewSession, Scope, SnapshotStatus
from store.rules.history import messages_of
from tests.contract.genkit_documents import DIALECTS, Dialect, conversation, genkit_writes
from tests.contract.stores import MemoryStores, Stores

ECHO = NewSession("echo")


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    opened = MemoryStores()
    yield opened
    await opened.close()


@pytest.fixture
def plain(stores: Stores) -> DocumentStore:
    return stores.open()


@pytest.fixture
def store(plain: DocumentStore) -> OwnIds:
    return OwnIds(plain)


async def test_a_session_is_stored_under_an_id_that_names_its_user(stores: Stores, store: OwnIds) -> None:
    await store.create_session(ANN, "s", ECHO)
    lease = await claimed(store, claim("a", "s"))
    assert lease.session_id == "s"
    await store.settle_turn(lease, completed(lease))
    stored = stored_id(ANN, "s")
    paths = (Path(Kind.POINTERS, "acme", stored), Path(Kind.SNAPSHOTS, "acme", lease.snapshot_id))
    found = (await stores.database.get(paths)).documents
    session, row = (found[path] for path in paths)
    assert session is not None
    assert row is not None
    assert (session.fields["id"], row.fields["sessionId"]) == (stored, stored)


def test_a_stored_id_tells_nothing_to_others() -> None:
    stored = stored_id(ANN, "x")
    assert own_id(ANN, stored) == "x"
    for other in (BOB, Scope("elsewhere", ANN.user)):
        assert own_id(other, stored) == stored
        assert stored_id(other, "x") != stored
    assert own_id(ANN, "plain") == "plain"


def test_every_id_of_every_user_can_be_stored() -> None:
    """Names of the form `__x__` are the database's own: a user's hash must not make one of `__x`."""
    for number in range(20_000):
        stored = stored_id(Scope("acme", f"user-{number}"), "__x")
        assert require_session_id(stored) == stored


CALLS: dict[str, Callable[[OwnIds, Scope], Awaitable[object]]] = {
    "get_session": lambda store, scope: store.get_session(scope, "s"),
    "get_transcript": lambda store, scope: store.get_transcript(scope, "s"),
    "get_latest_snapshot": lambda store, scope: store.get_latest_snapshot(scope, "s"),
    "get_latest_snapshot_metadata": lambda store, scope: store.get_latest_snapshot_metadata(scope, "s"),
    "create_session": lambda store, scope: store.create_session(scope, "s", ECHO),
    "update_session": lambda store, scope: store.update_session(scope, "s", title="t"),
    "list_snapshots": lambda store, scope: store.list_snapshots(scope, "s", 10),
    "truncate": lambda store, scope: store.truncate(scope, "s", "a-answer"),
    "restore": lambda store, scope: store.restore(scope, "s", "row"),
    "branch": lambda store, scope: store.branch(scope, "s", "a-answer"),
    "claim_turn": lambda store, scope: claimed(store, claim("b", "s", last_message_id="a-answer"), scope),
    "delete_session": lambda store, scope: store.delete_session(scope, "s"),
}
MAKES_ITS_OWN = {"create_session"}
FINDS_NOTHING = {name for name in CALLS if name.startswith("get_")}


async def nothing_to_bob(store: OwnIds, name: str) -> None:
    """As if nobody had a session of that name."""
    if name in FINDS_NOTHING:
        assert await CALLS[name](store, BOB) is None
    elif name in MAKES_ITS_OWN:
        await CALLS[name](store, BOB)
    else:
        with pytest.raises(SessionNotFoundError, match="'s'"):
            await CALLS[name](store, BOB)


@pytest.mark.parametrize("name", CALLS)
async def test_a_session_under_its_plain_id_is_found_by_its_owner_alone(
    plain: DocumentStore, store: OwnIds, name: str
) -> None:
    await plain.create_session(ANN, "s", ECHO)
    await converse(plain, "a", "s", snapshot_id="row")
    await nothing_to_bob(store, name)
    assert await plain.get_session(BOB, "s") is None
    before = await plain.get_session(ANN, "s")
    assert before is not None
    await CALLS[name](store, ANN)
    assert await plain.get_session(ANN, stored_id(ANN, "s")) is None, "it went on somewhere else"
    assert (await plain.get_session(ANN, "s") is None) is (name == "delete_session")


OUT: dict[str, Callable[[Stores], Awaitable[object]]] = {
    "expired": lambda stores: stores.wait(stores.moment),
    "being deleted": lambda stores: stores.database.commit(
        [Update(Path(Kind.POINTERS, "acme", "s"), {"deleting": True})]
    ),
}


@pytest.mark.parametrize("out", OUT)
@pytest.mark.parametrize("name", CALLS)
async def test_a_session_on_its_way_out_is_nothing_to_others(
    stores: Stores, plain: DocumentStore, store: OwnIds, name: str, out: str
) -> None:
    await plain.create_session(ANN, "s", NewSession("echo", lifetime=stores.moment))
    await converse(plain, "a", "s", snapshot_id="row")
    await OUT[out](stores)
    await nothing_to_bob(store, name)
    assert await store.get_snapshot(BOB, "row") is None
    with pytest.raises(SnapshotNotFoundError):
        await store.claim_turn(BOB, claim("b", snapshot_to_resume="row"))


async def test_a_stored_id_is_no_name(store: OwnIds) -> None:
    stored = stored_id(ANN, "s")
    await store.create_session(ANN, "s", ECHO)
    assert await store.get_session(ANN, stored) is None
    other = await store.create_session(ANN, stored, ECHO)
    assert other.id == stored
    await store.delete_session(ANN, stored)
    with pytest.raises(SessionNotFoundError):
        await store.delete_session(ANN, stored)
    assert await store.get_session(ANN, "s") is not None


async def test_a_turn_is_aborted_in_a_session_under_its_plain_id(plain: DocumentStore, store: OwnIds) -> None:
    lease = await claimed(plain, claim("a", new_session_id="s"))
    with pytest.raises(SessionNotFoundError, match="'s'"):
        await store.abort_session(BOB, "s")
    aborted = await store.abort_session(ANN, "s")
    assert (aborted.session_id, aborted.snapshot_id) == ("s", lease.snapshot_id)


async def test_an_abort_of_a_session_without_a_turn_stops_no_other_of_that_name(
    plain: DocumentStore, store: OwnIds
) -> None:
    await store.create_session(ANN, "s", ECHO)
    running = await claimed(plain, claim("a", new_session_id="s"))
    with pytest.raises(SessionNotFoundError, match="'s'"):
        await store.abort_session(ANN, "s")
    row = await plain.get_snapshot_metadata(ANN, running.snapshot_id)
    assert row is not None
    assert row.status is SnapshotStatus.PENDING


async def test_a_save_goes_on_where_the_session_is(plain: DocumentStore, store: OwnIds) -> None:
    await save(plain, "first", session_id="s")
    saved = await save(store, "second", session_id="s", parent_id="first", state=state_of("a", "b"))
    assert saved.session_id == "s"
    assert [row.snapshot_id for row in (await plain.list_snapshots(ANN, "s", 10)).snapshots] == ["first", "second"]
    again = await store.save_snapshot(ANN, "second", changed(finish_reason="length"))
    assert again is not None
    assert (again.session_id, again.finish_reason) == ("s", "length")


async def test_of_two_of_the_same_name_the_users_own_is_meant(plain: DocumentStore, store: OwnIds) -> None:
    own = await store.create_session(ANN, "s", NewSession("echo", title="own"))
    await plain.create_session(ANN, "s", NewSession("echo", title="plain"))
    assert await store.get_session(ANN, "s") == own
    assert await store.create_session(ANN, "s", ECHO) == own
    await store.delete_session(ANN, "s")
    found = await store.get_session(ANN, "s")
    assert found is not None
    assert found.title == "plain"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_session_of_genkits_is_continued_in_place(stores: Stores, dialect: Dialect) -> None:
    await stores.database.commit(genkit_writes(dialect, conversation(2)))
    store = OwnIds(stores.open(legacy_owner="tenant"))
    settled = await converse(store, "m", "s")
    assert settled.session_id == "s"
    assert len(messages_of(settled.state)) == 6
    assert settled.snapshot_id in [row.snapshot_id for row in (await store.list_snapshots(ANN, "s", 10)).snapshots]
    assert await store.get_session(BOB, "s") is None
    await converse(store, "bobs", scope=BOB, new_session_id="s")
    assert len((await store.list_snapshots(BOB, "s", 10)).snapshots) == 1


async def test_a_users_own_ids_are_as_long_as_ids_may_be(store: OwnIds) -> None:
    longest = "x" * MAX_ID_BYTES
    made = await store.create_session(ANN, longest, ECHO)
    assert made.id == longest
    assert await store.get_session(ANN, longest) == made
    for call in (store.create_session(ANN, longest + "x", ECHO), store.get_session(ANN, longest + "x")):
        with pytest.raises(InvalidRequestError, match="sessionId"):
            await call


@pytest.mark.parametrize("letter", ["x", "é"])
async def test_a_check_finds_the_longest_ids_to_be_sound_and_rebuilds_their_sessions(
    stores: Stores, store: OwnIds, letter: str
) -> None:
    longest = letter * (MAX_ID_BYTES // len(letter.encode()))
    await converse(store, "a", new_session_id=longest)
    await store.branch(ANN, longest, "a-answer", "branch")
    assert (await check(stores.database)).findings == []
    await stores.database.commit([Delete(Path(Kind.POINTERS, "acme", stored_id(ANN, longest)))])
    assert (await check(stores.database, repair=True)).unrepaired == []
    rebuilt = await store.get_session(ANN, longest)
    assert rebuilt is not None
    assert rebuilt.id == longest


async def test_what_is_told_of_a_branch_is_in_the_users_own_ids(store: OwnIds) -> None:
    await converse(store, "a", new_session_id="source")
    made = await store.branch(ANN, "source", "a-answer", "branch")
    assert made.branched_from is not None
    assert (made.id, made.branched_from["sessionId"]) == ("branch", "source")
    assert await store.branch(ANN, "source", "a-answer", "branch") == made
    assert await store.get_session(ANN, "branch") == made
    with pytest.raises(SessionExistsError) as refused:
        await store.branch(ANN, "source", "a-answer", "source")
    assert refused.value.details == {"sessionId": "source"}


async def test_the_same_branch_of_a_session_under_its_plain_id_is_the_same_one(
    plain: DocumentStore, store: OwnIds
) -> None:
    await converse(plain, "a", new_session_id="source")
    made = await store.branch(ANN, "source", "a-answer", "branch")
    assert await store.branch(ANN, "source", "a-answer", "branch") == made
    with pytest.raises(SessionExistsError, match="'branch'"):
        await store.branch(ANN, "source", "a-message", "branch")


OVER: dict[str, Callable[[OwnIds, Lease], Awaitable[object]]] = {
    "create_session": lambda store, lease: store.create_session(ANN, "s", ECHO),
    "create_session with a state": lambda store, lease: store.create_session(ANN, "s", ECHO, state_of("a")),
    "save_snapshot": lambda store, lease: save(store, "row", session_id="s"),
    "claim_turn": lambda store, lease: claimed(store, claim("b", new_session_id="s")),
    "settle_turn": lambda store, lease: store.settle_turn(lease, completed(lease)),
    "branch": lambda store, lease: store.branch(ANN, "source", "b-answer", "s"),
}


@pytest.mark.parametrize("name", OVER)
async def test_what_is_told_of_a_session_that_is_over_is_the_users_own_id(
    stores: Stores, store: OwnIds, name: str
) -> None:
    await converse(store, "b", new_session_id="source")
    await store.create_session(ANN, "s", NewSession("echo", lifetime=stores.moment))
    lease = await claimed(store, claim("a", "s"))
    await stores.wait(stores.moment)
    with pytest.raises(SessionNotFoundError) as refused:
        await OVER[name](store, lease)
    assert (refused.value.message, refused.value.session_id) == ("There is no session 's'.", "s")


async def test_a_snapshot_of_a_session_that_is_being_deleted_is_refused_with_the_users_own_id(
    stores: Stores, store: OwnIds
) -> None:
    settled = await converse(store, "a", new_session_id="s")
    session = Path(Kind.POINTERS, "acme", stored_id(ANN, "s"))
    await stores.database.commit([Update(session, {"deleting": True})])
    with pytest.raises(SessionNotFoundError, match="'s'"):
        await store.claim_turn(ANN, claim("b", snapshot_to_resume=settled.snapshot_id))


async def test_what_is_logged_of_a_turn_names_no_stored_session(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def unavailable(*_: object) -> None:
        raise UnavailableError("The database did not answer in time.")

    monkeypatch.setattr(pruning, "_prune", unavailable)
    settled = await converse(OwnIds(stores.open(max_persisted_chain_length=1)), "a", new_session_id="s")
    assert [record.getMessage() for record in caplog.records] == [
        f"The chain behind snapshot {settled.snapshot_id!r} was not pruned: The database did not answer in time."
    ]


async def test_a_queued_turn_is_adopted_under_the_users_own_id(store: OwnIds) -> None:
    queued = await claimed(store, claim("a", new_session_id="s", runner=None, queue_seconds=60.0))
    adopted = await store.adopt_turn(ANN, queued.snapshot_id, "runner", "attempt")
    assert isinstance(adopted, Adopted)
    assert adopted.lease.session_id == "s"
    settled = await store.settle_turn(adopted.lease, completed(adopted.lease))
    assert settled.session_id == "s"
    assert (await store.get_session(ANN, "s")) is not None
