"""Checkpoints and diffs behind a conversation: every turn is read back exactly, by an instance with a cold cache."""

import random
import string
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from store.canonical import Json
from store.conformance.harness import Store, Stores
from store.conformance.soundness import documents_of, raw
from store.conformance.turns import (
    ANN,
    COMPLETED,
    FAILED,
    PENDING,
    always,
    answered,
    changed,
    claim,
    claimed,
    converse,
    failed,
    message,
    require,
    save,
    snapshot,
    state_of,
)
from store.database import Document, Kind, Path
from store.layout.records import COPY_FIELDS
from store.layout.rows import CHAIN_FIELDS, RowKind
from store.models import NewSession, Outcome, Snapshot
from store.state import Raw, State


def noise(seed: int, size: int) -> str:
    """Text that hardly compresses."""
    return "".join(random.Random(seed).choices(string.ascii_letters, k=size))


async def talk(store: Store, turns: int, size: int = 20) -> list[Snapshot]:
    """A conversation of so many turns, with answers of `size` characters."""
    await store.create_session(ANN, "s", NewSession("echo"))
    settled: list[Snapshot] = []
    for n in range(turns):
        tail = settled[-1].last_message_id if settled else None
        lease = await claimed(store, claim(f"q{n}", "s", last_message_id=tail))
        outcome = Outcome(COMPLETED, "stop", answered(lease, noise(n, size), custom={"turn": n}))
        settled.append(await store.settle_turn(lease, outcome))
    return settled


async def state_documents(stores: Stores) -> list[object]:
    """All shards with their versions, and what rows and sessions hold of states."""
    documents = [document for kind in Kind for document in await documents_of(stores.database, kind)]
    held = {*CHAIN_FIELDS, *COPY_FIELDS, "tailBytes", "hasBase"}
    return [
        (each.path, each.update_time)
        if each.path.kind is Kind.SHARDS
        else (each.path, {name: value for name, value in each.fields.items() if name in held})
        for each in documents
    ]


async def assert_exact(stores: Stores, settled: Sequence[Snapshot], **options: Any) -> None:
    """Every turn is read by an instance that keeps nothing as it was settled; the newest also as the latest row."""
    cold = stores.open(cache_size=0, **options)
    for each in settled:
        found = await require(cold, each.snapshot_id)
        assert found == each
        assert found.state is not None
        assert each.state is not None
        assert found.state.text == each.state.text
    assert await cold.get_latest_snapshot(ANN, settled[-1].session_id) == settled[-1]


async def kinds(stores: Stores) -> list[str]:
    """How the rows lie there, oldest first."""
    rows: list[Document] = list(await documents_of(stores.database, Kind.SNAPSHOTS))
    return [row.fields["kind"] for row in sorted(rows, key=lambda row: row.fields["createdAt"])]


EDITS: list[Json] = [
    {"messages": [message("a"), message("b")], "custom": {"x": [1, [2, None]], "y": "é"}},
    {"messages": [message("a"), message("b"), message("c")], "custom": {"x": [1, [2, None]], "y": "é"}},
    {"messages": [message("b"), message("c")], "custom": {"x": [1, [2, None]], "y": "é"}},
    {"messages": [message("b", "edited"), message("c")], "custom": {"y": "é", "x": [1, [2, None]]}},
    {"messages": [message("sum"), message("c")], "artifacts": [{"name": "a", "parts": []}]},
    {"custom": {"x": 1.0}, "messages": [message("sum"), message("sum"), message("c")]},
    {"custom": {"x": True}, "messages": "not a list"},
    {"custom": {"x": 1}, "messages": []},
    {},
    {"messages": [None, 1, [], {"id": 5}, message("a")], "": {"~/": "a/b"}},
]


class ChainCases:
    """States over checkpoints, diffs and shards."""

    @pytest.mark.parametrize(("interval", "turns"), [(1, 4), (2, 5), (3, 10), (5, 12), (25, 27)])
    async def test_every_turn_is_exact_over_checkpoint_boundaries(
        self, stores: Stores, interval: int, turns: int
    ) -> None:
        settled = await talk(stores.open(checkpoint_interval=interval), turns)
        assert await kinds(stores) == [RowKind.DIFF if n % interval else RowKind.CHECKPOINT for n in range(turns)]
        await assert_exact(stores, settled)

    @pytest.mark.parametrize("base_size", [0, 1000])
    @pytest.mark.parametrize("interval", [1, 3, 25])
    async def test_every_turn_is_exact_where_the_session_keeps_no_base(
        self, stores: Stores, interval: int, base_size: int
    ) -> None:
        options = {"base_size": base_size, "checkpoint_interval": interval}
        settled = await talk(stores.open(**options), 7, size=300)
        await assert_exact(stores, settled, **options)
        assert (await converse(stores.open(**options), "next", "s")).parent_id == settled[-1].snapshot_id

    async def test_turns_may_alternate_between_instances(self, stores: Stores) -> None:
        instances = [stores.open(checkpoint_interval=3), stores.open(checkpoint_interval=3)]
        settled = [await converse(instances[0], "q0")]
        for n in range(1, 8):
            settled.append(await converse(instances[n % 2], f"q{n}", settled[0].session_id))
        await assert_exact(stores, settled)

    async def test_instances_with_other_options_read_each_others_rows(self, stores: Stores) -> None:
        options: list[dict[str, Any]] = [
            {"checkpoint_interval": 2, "shard_size": 400, "base_size": 0},
            {"checkpoint_interval": 25},
            {"checkpoint_interval": 1, "shard_size": 97},
        ]
        settled = [await converse(stores.open(**options[0]), "q0")]
        for n in range(1, 9):
            settled.append(await converse(stores.open(**options[n % 3]), f"q{n}", settled[0].session_id))
        await assert_exact(stores, settled)

    @pytest.mark.parametrize("shard_size", [1000, 65_536])
    async def test_a_large_state_lies_in_several_shards(self, stores: Stores, shard_size: int) -> None:
        """Also where a cut falls into a character of several bytes."""
        text = "é🎉日" * 20 + noise(1, 150_000 if shard_size > 1000 else 5000)
        store = stores.open(shard_size=shard_size)
        saved = await save(store, "row", state=State.of({"custom": text, "messages": [message("a", "🎉" * 999)]}))
        shards = await documents_of(stores.database, Kind.SHARDS)
        assert len(shards) > 2
        assert all(len(shard.fields["chunk"]) <= shard_size for shard in shards)
        assert await require(stores.open(), "row") == saved

    async def test_shards_beyond_a_commit_are_written_before_it(self, stores: Stores) -> None:
        store = stores.open(commit_size=65_536, shard_size=30_000, base_size=0)
        state = State.of({"messages": [message(f"m{n}", noise(n, 40_000)) for n in range(6)]})
        saved = await save(store, "row", session_id="s", state=state)
        lease = await claimed(store, claim("q", "s", last_message_id="m5"))
        assert lease.state == state
        bigger = answered(lease, "ok", custom=noise(9, 200_000))
        settled = await store.settle_turn(lease, Outcome(COMPLETED, "stop", bigger))
        assert await require(stores.open(), "row") == saved
        assert await require(stores.open(), lease.snapshot_id) == settled
        assert len(await documents_of(stores.database, Kind.SHARDS)) > 10

    async def test_a_diff_over_the_shard_size_becomes_a_checkpoint(self, stores: Stores) -> None:
        store = stores.open(shard_size=5000)
        settled = await talk(store, 2, size=9000)
        assert await kinds(stores) == [RowKind.CHECKPOINT, RowKind.CHECKPOINT]
        await assert_exact(stores, settled)

    async def test_a_rewritten_running_row_may_grow_into_a_checkpoint_and_shrink_again(self, stores: Stores) -> None:
        """The shards that it needs no more are gone each time; the check after every test would find them."""
        store = stores.open(shard_size=5000)
        await save(store, "root", state=state_of("a", text=noise(0, 4000)))
        running = snapshot(parent_id="root", status=PENDING, state=None)
        await store.save_snapshot(ANN, "row", always(running))
        for extra in (10, 30_000, 20, 20_000):
            state = state_of("a", text=noise(0, 4000), extra=noise(1, extra))
            await store.save_snapshot(ANN, "row", changed(state=state))
            assert (await require(stores.open(), "row")).state == state
            expected = RowKind.DIFF if extra < 100 else RowKind.CHECKPOINT
            assert (await raw(stores.database, Path(Kind.SNAPSHOTS, "acme", "row")))["kind"] == expected

    @pytest.mark.parametrize("row_id", ["a", "b", "c"])  # a checkpoint, a diff, and a diff that is the head
    @pytest.mark.parametrize("is_copied", [False, True])
    async def test_a_change_of_metadata_touches_no_state_document(
        self, stores: Stores, store: Store, row_id: str, is_copied: bool
    ) -> None:
        """Also where the change hands back the state as another object."""
        parent = None
        for each in "abc":
            await save(store, each, parent_id=parent, state=state_of("a", each, text=noise(0, 3000)))
            parent = each
        before = await state_documents(stores)

        def noted(row: Snapshot | None) -> Snapshot | None:
            assert row is not None
            assert row.state is not None
            return replace(row, error={"noted": True}, state=State.of(row.state.value()) if is_copied else row.state)

        for instance in (store, stores.open()):
            assert await instance.save_snapshot(ANN, row_id, noted) == await require(stores.open(), row_id)
        assert await state_documents(stores) == before

    async def test_an_orphan_is_a_checkpoint(self, stores: Stores, store: Store) -> None:
        saved = await save(store, "row", parent_id="nowhere", state=state_of("a"))
        assert await kinds(stores) == [RowKind.CHECKPOINT]
        assert await require(stores.open(), "row") == saved
        assert saved.parent_id == "nowhere"

    async def test_a_row_on_a_failed_parent_is_a_checkpoint(self, stores: Stores, store: Store) -> None:
        await save(store, "broken", status=FAILED, state=None)
        saved = await save(store, "row", parent_id="broken", state=state_of("a", "b"))
        assert await require(stores.open(), "row") == saved

    async def test_branches_rebuild_independently(self, stores: Stores) -> None:
        store = stores.open(checkpoint_interval=3)
        await save(store, "root", state=state_of("a", custom={"n": 0}))
        expected = {"root": state_of("a", custom={"n": 0})}
        for branch in ("left", "right", "middle"):
            parent, ids = "root", ["a"]
            for n in range(4):
                ids = [*ids, f"{branch}-{n}"]
                state = state_of(*ids, custom={"n": n, "branch": branch})
                await save(store, f"{branch}-{n}", parent_id=parent, state=state)
                parent, expected[f"{branch}-{n}"] = f"{branch}-{n}", state
        for row_id, state in expected.items():
            assert (await require(stores.open(), row_id)).state == state

    @pytest.mark.parametrize("interval", [1, 4, 25])
    async def test_edits_of_every_kind_are_exact(self, stores: Stores, interval: int) -> None:
        """Appending, dropping the head, editing in the middle, replacing, renaming, reordering, 1, 1.0 and true."""
        options = {"checkpoint_interval": interval}
        store = stores.open(**options)
        await store.create_session(ANN, "s", NewSession("echo"))
        settled: list[Snapshot] = []
        for n, value in enumerate(EDITS):
            lease = await claimed(store, claim(f"q{n}", "s", check_tail=False))
            settled.append(await store.settle_turn(lease, Outcome(COMPLETED, "stop", State.of(value))))
        await assert_exact(stores, settled, **options)

    async def test_what_was_read_is_the_callers_own(self, store: Store) -> None:
        settled = (await talk(store, 2))[-1]
        assert settled.state is not None
        before = settled.state.text
        settled.state.value()["messages"].clear()
        found = await require(store, settled.snapshot_id)
        assert found.state is not None
        assert found.state.text == before

    async def test_failed_turns_in_between_do_not_break_the_chain(self, stores: Stores) -> None:
        store = stores.open(checkpoint_interval=4)
        settled = await talk(store, 3)
        for n in range(3):
            broken = await claimed(store, claim(f"x{n}", "s", last_message_id=settled[-1].last_message_id))
            await store.settle_turn(broken, failed())
            settled.append(await converse(store, f"y{n}", "s"))
        await assert_exact(stores, settled)

    async def test_raw_messages_keep_their_text(self, stores: Stores, store: Store) -> None:
        """A number's or a key's form is the form that was given, however often it is rewritten."""
        lease = await claimed(store, claim("q"))
        value = {"id": "q", "n": [1e22, -0.0, 10**30, 1.0, "\u2028\0"]}
        state = lease.state.with_messages([Raw.of(value, depth=3)])
        settled = await store.settle_turn(lease, Outcome(COMPLETED, "stop", state))
        await converse(store, "r", settled.session_id)
        found = await require(stores.open(), lease.snapshot_id)
        assert found.state is not None
        assert (
            found.state.text
            == state.text
            == b'{"messages":[{"id":"q","n":[1e+22,-0.0,1' + b"0" * 30 + (b',1.0,"\xe2\x80\xa8\\u0000"]}]}')
        )
