"""The composition root: from settings to a running application. The only place that knows every part.

Everything is made at the first request of a worker, never at import: the server forks after importing, and a client,
thread or channel that was there before would not survive it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from functions.agents.base import Agent
from functions.agents.load import load_agent
from functions.engine.engine import Engine
from functions.engine.limits import EngineLimits
from functions.settings import Settings
from store.contract import (
    SessionDirectory,
    SessionStore,
    SnapshotMetadataReader,
    SnapshotSubscriber,
    TranscriptEditor,
    TurnStore,
)


class FullStore(
    SessionStore, SnapshotMetadataReader, SnapshotSubscriber, TurnStore, SessionDirectory, TranscriptEditor, Protocol
):
    """A store with every capability that the functions use."""


@dataclass(frozen=True, slots=True)
class Application:
    """What handlers work with."""

    settings: Settings
    store: FullStore
    agent: Agent
    engine: Engine


_applications: WeakKeyDictionary[asyncio.AbstractEventLoop, Application] = WeakKeyDictionary()


def application(settings: Settings) -> Application:
    """The running loop's application, made at its first use."""
    loop = asyncio.get_running_loop()
    if loop not in _applications:
        _applications[loop] = build(settings)
    return _applications[loop]


def build(settings: Settings) -> Application:
    """A new application. Connects nothing."""
    store = make_store(settings)
    agent = load_agent(settings)
    limits = EngineLimits(
        heartbeat_interval=settings.heartbeat_interval,
        abort_grace=settings.abort_grace,
        turns_per_instance=settings.max_turns_per_instance,
        turns_per_user=settings.max_turns_per_user,
        compact_at_tokens=settings.compact_at_tokens,
    )
    return Application(settings, store, agent, Engine(store, agent, limits))


def make_store(settings: Settings) -> FullStore:
    """The store that the settings name. Backends are imported where they are used: Firestore's takes 0.3 s."""
    options: dict[str, Any] = {
        "checkpoint_interval": settings.checkpoint_interval,
        "shard_size": settings.shard_size,
        "max_state_size": settings.max_state_bytes,
        "lease_staleness": settings.lease_staleness,
    }
    if settings.store == "firestore":
        from store.firestore.store import FirestoreStore

        assert settings.project is not None  # read_settings has refused a Firestore store without one
        return FirestoreStore(
            settings.project,
            database=settings.firestore_database,
            collection=settings.collection,
            emulator_host=settings.emulator_host,
            **options,
        )
    if settings.store == "file":
        from store.file.store import FileStore

        return FileStore(settings.store_path, collection=settings.collection, **options)
    from store.memory.store import MemoryStore

    return MemoryStore(**options)
