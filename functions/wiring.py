"""The composition root: from settings to a running application. The only place that knows every part.

Everything is made at the first request of a worker, never at import: the server forks after importing, and a client,
thread or channel that was there before would not survive it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from functions.agents.base import Agent
from functions.agents.load import load_agent
from functions.cloud_tasks import CloudTasksQueue, TasksClient
from functions.engine.engine import Engine
from functions.engine.limits import EngineLimits
from functions.engine.queue import TurnQueue
from functions.engine.recording import MakeRecorder, Recorder
from functions.engine.shutdown import drain_on_termination
from functions.housekeeping import SweepLoop
from functions.identity.authentication import Authentication, authentication_of
from functions.logs import configure_logging
from functions.settings import Settings
from functions.telemetry import Telemetry, configure_telemetry
from store.adapters.own_ids import OwnIds
from store.contract import (
    QueuedTurns,
    RetentionStore,
    SessionDirectory,
    SessionStore,
    SnapshotMetadataReader,
    SnapshotSubscriber,
    TranscriptEditor,
    TurnStore,
    TurnStreams,
)
from store.documents.store import DocumentStore
from store.firestore.calls import Calls
from store.models import RetentionRules


class FullStore(
    SessionStore,
    SnapshotMetadataReader,
    SnapshotSubscriber,
    TurnStore,
    SessionDirectory,
    TranscriptEditor,
    QueuedTurns,
    TurnStreams,
    RetentionStore,
    Protocol,
):
    """A store with every capability that the functions use."""

    async def close(self) -> None:
        """Ends listeners and frees connections."""


@dataclass(frozen=True, slots=True)
class Application:
    """What handlers work with."""

    settings: Settings
    store: FullStore
    agent: Agent
    engine: Engine
    authentication: Authentication
    telemetry: Telemetry


_calls = Calls()  # of all Firestore stores of this process
_sweeping: WeakKeyDictionary[asyncio.AbstractEventLoop, SweepLoop] = WeakKeyDictionary()
_applications: WeakKeyDictionary[asyncio.AbstractEventLoop, Application] = WeakKeyDictionary()


def application(settings: Settings) -> Application:
    """The running loop's application, made at its first use."""
    loop = asyncio.get_running_loop()
    if loop not in _applications:
        configure_logging(settings)
        flush = configure_telemetry(os.environ)
        made = _applications[loop] = build(settings)
        if settings.sweep_interval is not None:
            _sweeping[loop] = SweepLoop(made.store, settings.sweep_interval)
        drain_on_termination(lambda: _end(made, flush))
    return _applications[loop]


def made_application() -> Application | None:
    """The running loop's application, None where it could not be made so far."""
    return _applications.get(asyncio.get_running_loop())


async def _end(made: Application, flush: Callable[[], Awaitable[None]]) -> None:
    """What is done before the process ends."""
    await made.engine.drain(made.settings.shutdown_grace)
    await flush()


def build(settings: Settings) -> Application:
    """A new application. Connects nothing."""
    store = OwnIds(make_store(settings))
    agent = load_agent(settings)
    limits = EngineLimits(
        heartbeat_interval=settings.heartbeat_interval,
        abort_grace=settings.abort_grace,
        turns_per_instance=settings.max_turns_per_instance,
        turns_per_user=settings.max_turns_per_user,
        compact_at_tokens=settings.compact_at_tokens,
        max_messages=settings.max_messages,
    )
    telemetry = Telemetry(_calls.snapshot)
    engine = Engine(
        store,
        agent,
        limits,
        make_recorder=_recorders(settings, store),
        queue=make_queue(settings),
        telemetry=telemetry,
    )
    return Application(settings, store, agent, engine, authentication_of(settings), telemetry)


def _recorders(settings: Settings, store: FullStore) -> MakeRecorder | None:
    if settings.stream_segments != "firestore":
        return None
    return lambda lease, broadcast: Recorder(store, lease, broadcast, settings.stream_ttl)


def make_queue(settings: Settings) -> TurnQueue | None:
    """The queue that the settings name; needs the extra `tasks`."""
    if settings.tasks_queue is None:
        return None
    from google.api_core.exceptions import AlreadyExists

    return CloudTasksQueue(
        client=_tasks_client(settings.tasks_endpoint),
        queue=settings.tasks_queue,
        url=f"{settings.oidc_audience}/turn",
        account=settings.scheduler_account,
        audience=settings.oidc_audience,
        is_known=AlreadyExists,
    )


def _tasks_client(endpoint: str | None) -> TasksClient:
    """Google's client of the service, or, without credentials, of the stand-in at `endpoint`."""
    from google.cloud import tasks_v2

    if endpoint is None:
        return tasks_v2.CloudTasksClient()
    from google.auth.credentials import AnonymousCredentials

    transport = tasks_v2.CloudTasksClient.get_transport_class("rest")
    nobody = AnonymousCredentials()  # type: ignore[no-untyped-call]  # untyped in google-auth
    return tasks_v2.CloudTasksClient(transport=transport(host=endpoint, credentials=nobody))


def make_store(settings: Settings) -> DocumentStore:
    """The store that the settings name, its sessions under their stored ids. Backends are imported where they are used:
    Firestore's takes 0.3 s."""
    options: dict[str, Any] = {
        "checkpoint_interval": settings.checkpoint_interval,
        "shard_size": settings.shard_size,
        "max_state_size": settings.max_state_bytes,
        "max_messages": settings.max_messages,
        "lease_staleness": settings.lease_staleness,
        "retention": RetentionRules(settings.retention_max_idle_days, settings.retention_max_count_per_user),
        "legacy_owner": settings.legacy_owner,
        "max_persisted_chain_length": settings.max_chain_length,
    }
    if settings.store == "firestore":
        from store.firestore.store import FirestoreStore

        assert settings.project is not None  # read_settings has refused a Firestore store without one
        return FirestoreStore(
            settings.project,
            database=settings.firestore_database,
            collection=settings.collection,
            emulator_host=settings.emulator_host,
            calls=_calls,
            **options,
        )
    if settings.store == "file":
        from store.file.store import FileStore

        return FileStore(settings.store_path, collection=settings.collection, **options)
    from store.memory.store import MemoryStore

    return MemoryStore(**options)
