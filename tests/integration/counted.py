"""Conversations on instances that count what they ask of Firestore. Holds no test."""

import random
import string
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

from store.adapters.own_ids import OwnIds
from store.canonical import Json
from store.database import Kind, Path, Query
from store.firestore.calls import Calls
from store.firestore.database import FirestoreDatabase
from store.firestore.store import FirestoreStore
from store.ids import mint_id
from store.layout.chain import Chain
from store.layout.rows import read_row
from store.models import Claim, Lease, NewSession, Outcome, Scope, Snapshot, SnapshotStatus
from store.rules.history import messages_of
from store.state import Raw, State

ANN = Scope("acme", "ann")


class Cost(NamedTuple):
    """Round trips, documents read, documents written."""

    rpcs: int
    read: int
    written: int


class Instance:
    """A store as the functions open it, with a cold cache and its own count."""

    def __init__(self, project: str, host: str, options: dict[str, Any]) -> None:
        self.calls = Calls()
        self.store = OwnIds(FirestoreStore(project, emulator_host=host, calls=self.calls, **options))

    async def cost(self, operation: Awaitable[object]) -> Cost:
        """What one operation takes."""
        before = self.calls.snapshot()
        await operation
        spent = self.calls.since(before)
        return Cost(spent.sent, spent.read, spent.written)


Open: TypeAlias = Callable[..., Instance]
"""Opens an instance with the given options of its store."""


@asynccontextmanager
async def opening(project: str, host: str) -> AsyncIterator[Open]:
    """Opens instances on one project, and closes them all at the end."""
    instances: list[Instance] = []

    def open_one(**options: Any) -> Instance:
        instances.append(Instance(project, host, options))
        return instances[-1]

    yield open_one
    for instance in instances:
        await instance.store.close()


def noise(seed: int, size: int) -> str:
    """Text that hardly compresses."""
    return "".join(random.Random(seed).choices(string.ascii_letters, k=size))


def message(message_id: str, role: str, text: str) -> Raw:
    value: Json = {"id": message_id, "role": role, "content": [{"text": text}]}
    return Raw.of(value, depth=3)


def claim_of(n: int, session_id: str | None = "s", **fields: Any) -> Claim:
    """The claim of a conversation's `n`th turn, from 1."""
    given: dict[str, Any] = {
        "message": message(f"q{n}", "user", f"question {n}"),
        "message_is_named": True,
        "last_message_id": f"a{n - 1}" if n > 1 else None,
        "runner": "instance-1",
        **fields,
    }
    return Claim(mint_id(), mint_id(), NewSession("echo"), session_id, **given)


async def claimed(instance: Instance, claim: Claim) -> Lease:
    lease = await instance.store.claim_turn(ANN, claim)
    assert isinstance(lease, Lease)
    return lease


async def settle(instance: Instance, lease: Lease, n: int, size: int = 20) -> Snapshot:
    added = [message(f"q{n}", "user", f"question {n}"), message(f"a{n}", "model", noise(n, size))]
    state = lease.state.with_messages([*messages_of(lease.state), *added])
    return await instance.store.settle_turn(lease, Outcome(SnapshotStatus.COMPLETED, "stop", state))


async def turn(instance: Instance, n: int, session_id: str | None = "s", size: int = 20) -> Snapshot:
    """One whole turn."""
    return await settle(instance, await claimed(instance, claim_of(n, session_id)), n, size)


async def talk(instance: Instance, turns: int, size: int = 20) -> list[Snapshot]:
    """A conversation of so many turns, with answers of `size` characters."""
    await instance.store.create_session(ANN, "s", NewSession("echo"))
    return [await turn(instance, n, size=size) for n in range(1, turns + 1)]


async def chain_of(raw: FirestoreDatabase, row_id: str) -> Chain:
    path = Path(Kind.SNAPSHOTS, "acme", row_id)
    document = (await raw.get([path])).documents[path]
    assert document is not None
    chain = read_row(document).chain
    assert chain is not None
    return chain


async def shard_count(raw: FirestoreDatabase) -> int:
    return len((await raw.query(Query(Kind.SHARDS, "acme", ()))).documents)


def large_state() -> State:
    """A state of some 300 KiB in several runs, which no base holds."""
    return State.of({"custom": {"a": 1}, "messages": [], "artifacts": [noise(n, 60_000) for n in range(5)]})


async def latest(instance: Instance) -> Snapshot:
    found = await instance.store.get_latest_snapshot(ANN, "s")
    assert found is not None
    return found
