"""The gRPC channel: made at the first call, in the loop of that call, and closed once.

Nothing happens at import or construction, because functions are imported before their process forks, and a channel
does not survive a fork. Owns how the channel reconnects; knows no request.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import google.auth
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import GoogleAuthError
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcAsyncIOTransport
from grpc import aio

from store.errors import UnavailableError

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # gRPC backs off to two minutes by default; a server that is back would be called unavailable for as long.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # despite its name: how long one attempt to connect may take
    # Channels to one address otherwise share connections and back-off, also across event loops.
    ("grpc.use_local_subchannel_pool", 1),
)
# An emulator is on this machine or next to it: a proxy from the environment is not meant for it.
_EMULATOR_OPTIONS = (*_OPTIONS, ("grpc.enable_http_proxy", 0))
# A peer that vanished without a reset is noticed within 40 s instead of after TCP's quarter of an hour. Not for the
# emulator, which closes connections that are pinged that often.
_SERVICE_OPTIONS = (*_OPTIONS, ("grpc.keepalive_time_ms", 30_000), ("grpc.keepalive_timeout_ms", 10_000))


class Connection:
    """One client on one channel. Used from one event loop."""

    def __init__(self, database: str, emulator_host: str | None, credentials: Credentials | None) -> None:
        resource = ("google-cloud-resource-prefix", database)
        # The emulator takes a batch of writes from its owner only.
        owner = () if emulator_host is None else (("authorization", "Bearer owner"),)
        self.metadata: Sequence[tuple[str, str]] = (resource, *owner)
        self._emulator_host = emulator_host
        self._credentials = credentials
        self._client: FirestoreAsyncClient | None = None
        self._connecting = asyncio.Lock()
        self._closed = False

    async def client(self) -> FirestoreAsyncClient:
        """The client, made now if this is the first call; UnavailableError after `close` or without credentials."""
        if self._client is None:
            async with self._connecting:
                self._require_open()
                if self._client is None:
                    self._client = FirestoreAsyncClient(transport=await self._transport())
        self._require_open()
        return self._client

    def _require_open(self) -> None:
        if self._closed:
            raise UnavailableError("The database was closed.")

    async def _transport(self) -> FirestoreGrpcAsyncIOTransport:
        if self._emulator_host is not None:
            nobody = AnonymousCredentials()  # type: ignore[no-untyped-call]  # untyped in google-auth
            return FirestoreGrpcAsyncIOTransport(
                host=self._emulator_host, credentials=nobody, channel=_insecure_channel
            )
        credentials = self._credentials or await _default_credentials()
        return FirestoreGrpcAsyncIOTransport(credentials=credentials, channel=_secure_channel)

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Around a call: closing the channel cancels its calls, which must not look like the caller's own task being
        cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            if self._closed and not is_own_task_cancelled():
                raise UnavailableError("The database was closed.") from None
            raise

    async def close(self) -> None:
        """Ends the calls in flight and frees the channel. May be called twice."""
        self._closed = True
        async with self._connecting:
            client, self._client = self._client, None
        if client is not None:
            await client.transport.close()  # type: ignore[no-untyped-call]  # untyped in the client


def is_own_task_cancelled() -> bool:
    """Whether somebody asked the running task to stop, as opposed to a call of it having been cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _default_credentials() -> Credentials:
    scopes = FirestoreGrpcAsyncIOTransport.AUTH_SCOPES
    try:  # may ask the metadata server, blocking
        credentials, _ = await asyncio.to_thread(google.auth.default, scopes=scopes)
    except GoogleAuthError as error:
        raise UnavailableError(f"There are no credentials for the database: {error}") from error
    return credentials


def _insecure_channel(host: str, **_: Any) -> aio.Channel:
    return aio.insecure_channel(host, options=_EMULATOR_OPTIONS)


def _secure_channel(host: str, **given: Any) -> aio.Channel:
    return FirestoreGrpcAsyncIOTransport.create_channel(host, **{**given, "options": _SERVICE_OPTIONS})
