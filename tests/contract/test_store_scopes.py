"""Tenants, owners, ids and options: who sees what, and what is refused before anything is asked of a database."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path as Directory
from typing import Any

import pytest

from store.database import Database, Kind
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import InvalidRequestError
from store.file.store import FileStore
from store.firestore.store import FirestoreStore
from store.memory.store import MemoryStore
from store.models import NewSession, Scope
from tests.contract.soundness import documents_of
from tests.contract.stores import Stores
from tests.contract.turns import (
    ANN,
    BOB,
    ELSEWHERE,
    always,
    claim,
    claimed,
    completed,
    converse,
    save,
    snapshot,
    state_of,
)

ECHO = NewSession("echo")
TOO_LONG = "é" * 701
WRONG_IDS: tuple[Any, ...] = (
    "", " ", "\u00a0", ".", "..", "__x__", "____", "a/b", "/", "a\0b", "a\nb", "\x7f", "\ud800",
    TOO_LONG, None, 1, b"a",
)  # fmt: skip
ODD_IDS = ("a b", "..a", "__x", "é", "日本語", "%2F", "a.json", "CON", "~", "=", "A", "a", "x" * 1400, "\u202e", "🎉")

Call = Callable[[DocumentStore, Any], Awaitable[object]]
BY_ID: dict[str, Call] = {
    "get_snapshot": lambda store, each: store.get_snapshot(ANN, each),
    "get_snapshot_metadata": lambda store, each: store.get_snapshot_metadata(ANN, each),
    "abort_turn": lambda store, each: store.abort_turn(ANN, each),
    "claim_turn": lambda store, each: store.claim_turn(ANN, replace(claim("q"), snapshot_id=each)),
    "get_latest_snapshot": lambda store, each: store.get_latest_snapshot(ANN, each),
    "get_latest_snapshot_metadata": lambda store, each: store.get_latest_snapshot_metadata(ANN, each),
    "get_session": lambda store, each: store.get_session(ANN, each),
    "get_transcript": lambda store, each: store.get_transcript(ANN, each),
    "update_session": lambda store, each: store.update_session(ANN, each, title="t"),
    "abort_session": lambda store, each: store.abort_session(ANN, each),
}
BY_OPTIONAL_ID: dict[str, Call] = {  # where None means that the store chooses, or that there is none
    "save_snapshot": lambda store, each: store.save_snapshot(ANN, each, always(snapshot())),
    "create_session": lambda store, each: store.create_session(ANN, each, ECHO),
    "create_session with a state": lambda store, each: store.create_session(ANN, each, ECHO, state_of("a")),
    "claim_turn in a session": lambda store, each: store.claim_turn(ANN, claim("q", each)),
    "claim_turn from a row": lambda store, each: store.claim_turn(ANN, claim("q", "s", snapshot_to_resume=each)),
}
BY_SCOPE: dict[str, Call] = {
    "get_snapshot": lambda store, scope: store.get_snapshot(scope, "row"),
    "get_snapshot_metadata": lambda store, scope: store.get_snapshot_metadata(scope, "row"),
    "get_latest_snapshot": lambda store, scope: store.get_latest_snapshot(scope, "s"),
    "get_latest_snapshot_metadata": lambda store, scope: store.get_latest_snapshot_metadata(scope, "s"),
    "save_snapshot": lambda store, scope: store.save_snapshot(scope, "row", always(snapshot())),
    "claim_turn": lambda store, scope: store.claim_turn(scope, claim("q")),
    "abort_turn": lambda store, scope: store.abort_turn(scope, "row"),
    "abort_session": lambda store, scope: store.abort_session(scope, "s"),
    "create_session": lambda store, scope: store.create_session(scope, "s", ECHO),
    "get_session": lambda store, scope: store.get_session(scope, "s"),
    "list_sessions": lambda store, scope: store.list_sessions(scope, 10),
    "update_session": lambda store, scope: store.update_session(scope, "s", title="t"),
    "get_transcript": lambda store, scope: store.get_transcript(scope, "s"),
}


class _Untouchable:
    """Fails the test that asks it anything."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the database was asked to {name}")


@pytest.fixture
def untouched() -> DocumentStore:
    """A store that must not reach its database."""
    database: Database = _Untouchable()  # type: ignore[assignment]  # offers nothing, on purpose
    return DocumentStore(Shelf(database, Options()))


@pytest.mark.parametrize("name", [*BY_ID, *BY_OPTIONAL_ID])
async def test_a_wrong_id_is_refused_before_any_io(untouched: DocumentStore, name: str) -> None:
    for wrong in WRONG_IDS if name in BY_ID else set(WRONG_IDS) - {None}:
        with pytest.raises(InvalidRequestError, match=r"snapshotId|sessionId"):
            await (BY_ID | BY_OPTIONAL_ID)[name](untouched, wrong)


@pytest.mark.parametrize("name", BY_SCOPE)
async def test_a_wrong_scope_is_refused_before_any_io(untouched: DocumentStore, name: str) -> None:
    for wrong in WRONG_IDS:
        for scope, named in ((Scope(wrong, "ann"), "tenant"), (Scope("acme", wrong), "user")):
            with pytest.raises(InvalidRequestError, match=named):
                await BY_SCOPE[name](untouched, scope)


@pytest.mark.parametrize("field", ["session_id", "parent_id"])
async def test_a_wrong_id_that_the_change_gives_is_refused(stores: Stores, store: DocumentStore, field: str) -> None:
    for wrong in ("", "a/b", "..", "__x__", "a\nb"):
        with pytest.raises(InvalidRequestError, match=r"sessionId|parentId"):
            await store.save_snapshot(ANN, "row", always(snapshot(**{"session_id": "s", field: wrong})))
    assert [await documents_of(stores.database, kind) for kind in Kind] == [[]] * len(Kind)


async def test_odd_ids_are_ids(store: DocumentStore) -> None:
    for odd in ODD_IDS:
        await save(store, odd, session_id=odd, state=state_of(odd[:100]))
    for odd in ODD_IDS:
        found = await store.get_latest_snapshot(ANN, odd)
        assert found is not None
        assert (found.snapshot_id, found.session_id, found.state) == (odd, odd, state_of(odd[:100]))
    assert {session.id for session in (await store.list_sessions(ANN, 100)).sessions} == set(ODD_IDS)


async def test_odd_tenants_and_users_are_kept_apart(store: DocumentStore) -> None:
    scopes = [Scope(odd, "ann") for odd in ODD_IDS] + [Scope("acme", odd) for odd in ODD_IDS]
    for n, scope in enumerate(scopes):
        await save(store, f"row-{n}", scope=scope, session_id=f"s-{n}")
    for n, scope in enumerate(scopes):
        assert [session.id for session in (await store.list_sessions(scope, 100)).sessions] == [f"s-{n}"]


async def test_another_tenant_or_user_sees_neither_rows_nor_sessions(stores: Stores, store: DocumentStore) -> None:
    settled = await converse(store, "a")
    for scope in (BOB, ELSEWHERE):
        for instance in (store, stores.open()):
            assert await instance.get_snapshot(scope, settled.snapshot_id) is None
            assert await instance.get_snapshot_metadata(scope, settled.snapshot_id) is None
            assert await instance.get_latest_snapshot(scope, settled.session_id) is None
            assert await instance.get_latest_snapshot_metadata(scope, settled.session_id) is None
            assert await instance.get_session(scope, settled.session_id) is None
            assert await instance.get_transcript(scope, settled.session_id) is None
            assert (await instance.list_sessions(scope, 10)).sessions == ()


async def test_the_same_ids_in_two_tenants_are_two_conversations(stores: Stores, store: DocumentStore) -> None:
    for scope, text in ((ANN, "here"), (ELSEWHERE, "there")):
        await store.create_session(scope, "s", ECHO)
        lease = await claimed(store, replace(claim("q", "s"), snapshot_id="row"), scope)
        await store.settle_turn(lease, completed(lease, text))
    for instance in (store, stores.open()):
        states = [(await instance.get_snapshot(scope, "row")) for scope in (ANN, ELSEWHERE)]
        texts = [row.state.value()["messages"][1]["content"][0]["text"] for row in states if row and row.state]
        assert texts == ["here", "there"]


async def test_documents_lie_under_their_tenant(stores: Stores, store: DocumentStore) -> None:
    await converse(store, "a")
    await converse(store, "b", scope=ELSEWHERE)
    for kind in (Kind.SNAPSHOTS, Kind.POINTERS, Kind.SHARDS):
        assert sorted(document.path.tenant for document in await documents_of(stores.database, kind)) == [
            "acme",
            "other",
        ]


async def test_nested_tenants_are_the_file_stores_alone(tmp_path: Directory) -> None:
    nested = Scope("a/b", "ann")
    files = FileStore(tmp_path / "sessions", poll_interval=0)
    saved = await save(files, "row", scope=nested)
    assert await files.get_snapshot(nested, "row") == saved
    assert await files.get_snapshot(Scope("a", "ann"), "row") is None
    for escaping in ("../b", "a//b", "/a", "a/", "a/..", "a/./b"):
        with pytest.raises(InvalidRequestError, match="tenant"):
            await files.get_snapshot(Scope(escaping, "ann"), "row")
    await files.close()
    with pytest.raises(InvalidRequestError, match="tenant"):
        await MemoryStore().get_snapshot(nested, "row")


WRONG_OPTIONS: dict[str, tuple[Any, ...]] = {
    "checkpoint_interval": (0, -1, 10_001, 1.5, "25", None, True),
    "shard_size": (0, -1, 1_000_001, 1.5, "1", None, False),
    "base_size": (-1, 500_001, 1.5, None, True),
    "commit_size": (0, 65_535, 10_000_001, 1.5, None),
    "max_state_size": (0, 2**40 + 1, None),
    "cache_size": (-1, 2**40 + 1, None),
    "lease_staleness": (0, -1, 86_401, float("nan"), float("inf"), "60", None, True),
}
MAKERS: dict[str, Callable[..., DocumentStore]] = {
    "memory": MemoryStore,
    "file": lambda **options: FileStore("nowhere", **options),
    "firestore": lambda **options: FirestoreStore("demo", emulator_host="127.0.0.1:1", **options),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("option", WRONG_OPTIONS)
def test_a_wrong_option_is_refused_by_name_when_the_store_is_made(maker: str, option: str) -> None:
    for wrong in WRONG_OPTIONS[option]:
        with pytest.raises(InvalidRequestError, match=option):
            MAKERS[maker](**{option: wrong})


@pytest.mark.parametrize("maker", MAKERS)
def test_an_unknown_option_is_refused_by_name(maker: str) -> None:
    with pytest.raises(TypeError, match="shard_sizes"):
        MAKERS[maker](shard_sizes=1)


@pytest.mark.parametrize("maker", ["file", "firestore"])
@pytest.mark.parametrize("wrong", ["", "a/b", "..", "__x__", " "])
def test_a_wrong_collection_is_refused_by_name(maker: str, wrong: str) -> None:
    with pytest.raises(InvalidRequestError, match="collection"):
        MAKERS[maker](collection=wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"checkpoint_interval": 1, "shard_size": 1, "base_size": 0, "commit_size": 65_536, "cache_size": 0},
        {"checkpoint_interval": 10_000, "shard_size": 1_000_000, "base_size": 500_000, "commit_size": 10_000_000},
    ],
)
async def test_the_outermost_options_work(stores: Stores, options: dict[str, Any]) -> None:
    store = stores.open(**options)
    settled = await converse(store, "a")
    second = await converse(store, "b", settled.session_id)
    assert await stores.open().get_latest_snapshot(ANN, settled.session_id) == second
