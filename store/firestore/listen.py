"""Watching: one Listen stream for all watches of a database.

The stream opens with the first watch and closes a while after the last. When it breaks, or is silent for suspiciously
long, it opens again and every watch is told its present state anew: nothing is resumed, so nothing can be missed, and
whoever watches treats a delivery as state. Targets come and go on the open stream.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

from google.api_core.exceptions import GoogleAPICallError, from_grpc_error
from google.cloud.firestore_v1.types import ListenRequest, ListenResponse, TargetChange
from grpc import RpcError

from store.database import Document, Path, Query
from store.errors import UnavailableError
from store.firestore import failures, reads
from store.firestore.attempts import pause_before
from store.firestore.calls import Calls
from store.firestore.connection import Connection, is_own_task_cancelled
from store.firestore.names import Names
from store.firestore.watches import Watch

SILENCE_SECONDS = 120.0  # the service says something at least that often, also where nothing changes
LINGER_SECONDS = 10.0  # how long the stream is kept without a watch
STEADY_SECONDS = 10.0  # a stream that lived as long was a good one: the next failure is the first again

_LAST_TARGET = 2**31 - 1
# Canonical codes after which the same target would be removed again: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED,
# FAILED_PRECONDITION (an index is missing), UNIMPLEMENTED.
_PERMANENT = frozenset({3, 5, 7, 9, 12})

_log = logging.getLogger(__name__)


class _StreamLostError(Exception):
    """The stream ended, or is of no more use; a new one may be."""


class Listener:
    """The watches of one database. Used from one event loop."""

    def __init__(
        self,
        connection: Connection,
        names: Names,
        calls: Calls,
        *,
        silence: float = SILENCE_SECONDS,
        linger: float = LINGER_SECONDS,
    ) -> None:
        self._connection = connection
        self._names = names
        self._calls = calls
        self._silence = silence
        self._linger = linger
        self._watches: dict[int, Watch] = {}
        self._last_target = 0
        self._outgoing: asyncio.Queue[ListenRequest | None] | None = None  # of the open stream; None ends it
        self._following: asyncio.Task[None] | None = None
        self._stopping: asyncio.TimerHandle | None = None
        self._is_closed = False

    @asynccontextmanager
    async def watch(self, target: Path | Query) -> AsyncIterator[AsyncIterator[list[Document | None]]]:
        """Deliveries of the target's state. A query's documents that match no more are not told. `limit` counts
        documents of other applications too where the query is over all tenants. UnavailableError is raised to the
        reader where the database refuses the target for good."""
        if self._is_closed:
            raise UnavailableError("The database was closed.")
        watch = Watch(target)
        target_id = self._add(watch)
        try:
            yield watch
        finally:
            watch.end()
            self._remove(target_id)

    async def close(self) -> None:
        """Ends the watches and the stream. May be called twice."""
        self._is_closed = True
        for watch in self._watches.values():
            watch.end()
        self._keep_stream()
        task, self._following = self._following, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _add(self, watch: Watch) -> int:
        target_id = self._mint_target()
        request = reads.add_target(self._names, watch.target, target_id)
        self._watches[target_id] = watch
        self._keep_stream()
        if self._outgoing is not None:
            self._outgoing.put_nowait(request)
        if self._following is None:
            # A context of its own: the stream is no part of what the first watcher does or costs.
            self._following = asyncio.create_task(self._follow_for_ever(), name="firestore-listen", context=Context())
            self._following.add_done_callback(self._stopped)
        return target_id

    def _remove(self, target_id: int) -> None:
        del self._watches[target_id]
        if self._outgoing is not None:
            self._outgoing.put_nowait(reads.remove_target(self._names, target_id))
        if not self._watches and self._following is not None:
            self._stopping = asyncio.get_running_loop().call_later(self._linger, self._following.cancel)

    def _mint_target(self) -> int:
        while True:
            self._last_target = self._last_target % _LAST_TARGET + 1
            if self._last_target not in self._watches:
                return self._last_target

    def _keep_stream(self) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
            self._stopping = None

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """The following task ended: on purpose, or by a fault of ours that no watch may sleep through."""
        if self._following is task:
            self._following = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("The Listen stream's task failed.", exc_info=error)
            for watch in self._watches.values():
                watch.fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    async def _follow_for_ever(self) -> None:
        now = asyncio.get_running_loop().time
        failed = 0
        while True:
            opened = now()
            try:
                await self._follow()
            except (GoogleAPICallError, UnavailableError, TimeoutError, _StreamLostError) as error:
                failed = 1 if now() - opened > STEADY_SECONDS else failed + 1
                # An outage is to be over for us within seconds of its end; what is not an outage may take longer.
                longest = 15.0 if isinstance(error, GoogleAPICallError) and not failures.is_transient(error) else 1.0
                _log.log(logging.WARNING if failed == 1 else logging.DEBUG, "The Listen stream broke: %s", error)
            await asyncio.sleep(pause_before(failed, first=0.1, longest=longest))

    async def _follow(self) -> None:
        """Opens a stream and distributes what it says, until it breaks (always by an exception)."""
        client = await self._connection.client()
        outgoing = self._open()
        self._calls.count("Listen")
        # The transport's own call: the client's gives no handle to cancel before the server has answered.
        # Its annotation says unary, but it is a stream in both directions.
        listen: Any = client.transport.listen
        call = listen(_requests(outgoing), metadata=self._connection.metadata)
        try:
            await self._distribute(call)
        except RpcError as error:
            raise from_grpc_error(error) from error  # type: ignore[no-untyped-call]  # untyped in google-api-core
        except asyncio.CancelledError:
            if is_own_task_cancelled():
                raise
        finally:
            self._outgoing = None
            outgoing.put_nowait(None)  # the library's task that reads the requests outlives a broken call otherwise
            call.cancel()
        raise _StreamLostError("The server ended the stream.")

    def _open(self) -> asyncio.Queue[ListenRequest | None]:
        self._outgoing = asyncio.Queue()
        for target_id, watch in self._watches.items():
            watch.restart()
            self._outgoing.put_nowait(reads.add_target(self._names, watch.target, target_id))
        return self._outgoing

    async def _distribute(self, call: Any) -> None:
        now = asyncio.get_running_loop().time
        async with asyncio.timeout(self._silence) as watchdog:
            async for response in call:
                watchdog.reschedule(now() + self._silence)
                if response is None:  # what grpc makes of a message that cannot be parsed; the emulator sends some
                    raise _StreamLostError("The server sent a damaged message.")
                self._receive(ListenResponse.pb(response))

    def _receive(self, message: Any) -> None:
        kind = message.WhichOneof("response_type")
        if kind == "target_change":
            self._change_targets(message.target_change)
        elif kind == "document_change":
            self._calls.count(read=1)
            self._change_document(message.document_change)
        elif kind == "document_delete":
            self._drop(message.document_delete.document, message.document_delete.removed_target_ids)
        elif kind == "document_remove":
            self._drop(message.document_remove.document, message.document_remove.removed_target_ids)
        elif kind == "filter":
            self._check_count(message.filter)

    def _change_document(self, change: Any) -> None:
        self._drop(change.document.name, change.removed_target_ids)
        path = self._names.parse(change.document.name)
        if path is not None:
            for watch in self._named(change.target_ids):
                watch.changed(path, change.document)

    def _drop(self, name: str, target_ids: Iterable[int]) -> None:
        path = self._names.parse(name)
        if path is not None:
            for watch in self._named(target_ids):
                watch.vanished(path)

    def _check_count(self, count: Any) -> None:
        """The server has lost track of what it told; only for a single document that says what became of it."""
        watch = self._watches.get(count.target_id)
        if watch is not None and isinstance(watch.target, Path) and count.count == 0:
            watch.vanished(watch.target)

    def _change_targets(self, change: Any) -> None:
        watches = self._named(change.target_ids or tuple(self._watches))
        if change.target_change_type == TargetChange.TargetChangeType.CURRENT:
            for watch in watches:
                watch.completed()
        elif change.target_change_type == TargetChange.TargetChangeType.RESET:
            for watch in watches:
                watch.restart()
        elif change.target_change_type == TargetChange.TargetChangeType.REMOVE and watches:
            self._lose(watches, change.cause)

    def _lose(self, watches: list[Watch], cause: Any) -> None:
        """The server dropped targets that we still watch."""
        if cause.code not in _PERMANENT:
            raise _StreamLostError(f"The server dropped a target: {cause.code} {cause.message}")
        for watch in watches:
            watch.fail(UnavailableError(f"The database cannot be watched: {cause.message}"))

    def _named(self, target_ids: Iterable[int]) -> list[Watch]:
        """The watches of these targets; one that was just closed has none."""
        return [self._watches[target_id] for target_id in target_ids if target_id in self._watches]


async def _requests(outgoing: asyncio.Queue[ListenRequest | None]) -> AsyncIterator[ListenRequest]:
    while (request := await outgoing.get()) is not None:
        yield request
