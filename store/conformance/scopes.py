"""Tenants, owners, ids and options: who sees what, and what is refused before anything is asked of a database."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from store.conformance.capabilities import Capability
from store.conformance.harness import Store, Stores
from store.conformance.soundness import documents_of
from store.conformance.turns import (
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
from store.database import Kind
from store.errors import InvalidRequestError
from store.models import NewSession, Scope

ECHO = NewSession("echo")
TOO_LONG = "é" * 711
WRONG_IDS: tuple[Any, ...] = (
    "", " ", "\u00a0", ".", "..", "__x__", "____", "a/b", "/", "a\0b", "a\nb", "\x7f", "\ud800",
    TOO_LONG, None, 1, b"a",
)  # fmt: skip
ODD_IDS = ("a b", "..a", "__x", "é", "日本語", "%2F", "a.json", "CON", "~", "=", "A", "a", "x" * 1400, "\u202e", "🎉")

Call = Callable[[Store, Any], Awaitable[object]]
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


class ScopeCases:
    """Tenants, owners and ids."""

    @pytest.mark.parametrize("name", [*BY_ID, *BY_OPTIONAL_ID])
    async def test_a_wrong_id_is_refused(self, store: Store, name: str) -> None:
        for wrong in WRONG_IDS if name in BY_ID else set(WRONG_IDS) - {None}:
            with pytest.raises(InvalidRequestError, match=r"snapshotId|sessionId"):
                await (BY_ID | BY_OPTIONAL_ID)[name](store, wrong)

    @pytest.mark.parametrize("name", BY_SCOPE)
    async def test_a_wrong_scope_is_refused(self, store: Store, name: str) -> None:
        for wrong in WRONG_IDS:
            if wrong == "a/b":
                continue  # as a tenant: some stores have nested ones, see below
            for scope, named in ((Scope(wrong, "ann"), "tenant"), (Scope("acme", wrong), "user")):
                with pytest.raises(InvalidRequestError, match=named):
                    await BY_SCOPE[name](store, scope)

    @pytest.mark.parametrize("field", ["session_id", "parent_id"])
    async def test_a_wrong_id_that_the_change_gives_is_refused(self, stores: Stores, store: Store, field: str) -> None:
        for wrong in ("", "a/b", "..", "__x__", "a\nb"):
            with pytest.raises(InvalidRequestError, match=r"sessionId|parentId"):
                await store.save_snapshot(ANN, "row", always(snapshot(**{"session_id": "s", field: wrong})))
        assert [await documents_of(stores.database, kind) for kind in Kind] == [[]] * len(Kind)

    async def test_odd_ids_are_ids(self, store: Store) -> None:
        for odd in ODD_IDS:
            await save(store, odd, session_id=odd, state=state_of(odd[:100]))
        for odd in ODD_IDS:
            found = await store.get_latest_snapshot(ANN, odd)
            assert found is not None
            assert (found.snapshot_id, found.session_id, found.state) == (odd, odd, state_of(odd[:100]))
        assert {session.id for session in (await store.list_sessions(ANN, 100)).sessions} == set(ODD_IDS)

    async def test_odd_tenants_and_users_are_kept_apart(self, store: Store) -> None:
        scopes = [Scope(odd, "ann") for odd in ODD_IDS] + [Scope("acme", odd) for odd in ODD_IDS]
        for n, scope in enumerate(scopes):
            await save(store, f"row-{n}", scope=scope, session_id=f"s-{n}")
        for n, scope in enumerate(scopes):
            assert [session.id for session in (await store.list_sessions(scope, 100)).sessions] == [f"s-{n}"]

    async def test_another_tenant_or_user_sees_neither_rows_nor_sessions(self, stores: Stores, store: Store) -> None:
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

    async def test_the_same_ids_in_two_tenants_are_two_conversations(self, stores: Stores, store: Store) -> None:
        for scope, text in ((ANN, "here"), (ELSEWHERE, "there")):
            await store.create_session(scope, "s", ECHO)
            lease = await claimed(store, replace(claim("q", "s"), snapshot_id="row"), scope)
            await store.settle_turn(lease, completed(lease, text))
        for instance in (store, stores.open()):
            states = [(await instance.get_snapshot(scope, "row")) for scope in (ANN, ELSEWHERE)]
            texts = [row.state.value()["messages"][1]["content"][0]["text"] for row in states if row and row.state]
            assert texts == ["here", "there"]

    async def test_documents_lie_under_their_tenant(self, stores: Stores, store: Store) -> None:
        await converse(store, "a")
        await converse(store, "b", scope=ELSEWHERE)
        for kind in (Kind.SNAPSHOTS, Kind.POINTERS, Kind.SHARDS):
            assert sorted(document.path.tenant for document in await documents_of(stores.database, kind)) == [
                "acme",
                "other",
            ]

    @pytest.mark.parametrize(
        "options",
        [
            {"checkpoint_interval": 1, "shard_size": 1, "base_size": 0, "commit_size": 65_536, "cache_size": 0},
            {"checkpoint_interval": 10_000, "shard_size": 1_000_000, "base_size": 500_000, "commit_size": 10_000_000},
        ],
    )
    async def test_the_outermost_options_work(self, stores: Stores, options: dict[str, Any]) -> None:
        store = stores.open(**options)
        settled = await converse(store, "a")
        second = await converse(store, "b", settled.session_id)
        assert await stores.open().get_latest_snapshot(ANN, settled.session_id) == second

    async def test_a_nested_tenant_is_a_tenant_exactly_where_that_is_declared(
        self, store: Store, stores: Stores
    ) -> None:
        nested = Scope("a/b", "ann")
        if Capability.NESTED_TENANTS not in stores.capabilities:
            with pytest.raises(InvalidRequestError, match="tenant"):
                await save(store, "row", scope=nested)
            return
        saved = await save(store, "row", scope=nested)
        assert await stores.open().get_snapshot(nested, "row") == saved
        for other in ("a", "b", "a/b/c", "acme"):
            assert await store.get_snapshot(Scope(other, "ann"), "row") is None
        assert await store.get_latest_snapshot(Scope("a", "ann"), "s") is None

    @pytest.mark.parametrize("escaping", ["../b", "a//b", "/a", "a/", "a/..", "a/./b", "a/../../b", "/", "a/ /b"])
    async def test_a_tenant_that_escapes_is_refused(self, store: Store, escaping: str) -> None:
        with pytest.raises(InvalidRequestError, match="tenant"):
            await save(store, "row", scope=Scope(escaping, "ann"))
        with pytest.raises(InvalidRequestError, match="tenant"):
            await store.get_snapshot(Scope(escaping, "ann"), "row")
