"""Documents on Firestore: sends what the other modules build, repeats reads, counts.

Built on the generated asynchronous client, because the friendlier one above it offers neither preconditioned writes
of every kind nor an asynchronous watch. No server-side transactions: preconditions do the same without locks.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import Credentials
from google.cloud.firestore_v1.types import (
    BatchGetDocumentsRequest,
    BatchGetDocumentsResponse,
    BatchWriteRequest,
    BatchWriteResponse,
    CommitRequest,
    CommitResponse,
    RunQueryRequest,
    RunQueryResponse,
)

from store.database import Committed, Document, Found, Path, Query, Read, Write
from store.errors import InvalidRequestError
from store.firestore import attempts, failures, reads
from store.firestore import writes as writing
from store.firestore.calls import Calls
from store.firestore.connection import Connection
from store.firestore.listen import Listener
from store.firestore.names import Names
from store.firestore.values import EPOCH

WRITE_SECONDS = 5.0  # how long one commit is waited for
MOST_WRITES = 250  # of independent ones in a request; the service has had a limit of 500, a server's time counted apart
_HOST = re.compile(r"[^\s/]+:\d{1,5}")


def _require_host(host: object) -> str | None:
    if host is None or (isinstance(host, str) and _HOST.fullmatch(host)):
        return host
    raise InvalidRequestError("emulator_host must be host:port, or None for the service.")


class FirestoreDatabase:
    """`store.database.Database` on one Firestore database.

    `emulator_host` is `host:port` of an emulator, which needs no credentials; None means the service, with
    `credentials` or the application's default ones. Connects at the first call, in the running loop.
    """

    def __init__(
        self,
        project: str,
        *,
        database: str = "(default)",
        collection: str = "genkit-sessions",
        emulator_host: str | None = None,
        credentials: Credentials | None = None,
        calls: Calls | None = None,
    ) -> None:
        self.calls = Calls() if calls is None else calls
        self._names = Names(project, database, collection)
        self._connection = Connection(self._names.database, _require_host(emulator_host), credentials)
        self._listener = Listener(self._connection, self._names, self.calls)

    async def get(
        self, paths: Sequence[Path], *, mask: Sequence[str] | None = None, at: datetime | None = None
    ) -> Read:
        """All `paths` in one round trip; UnavailableError within 5 seconds, DataLossError where a document cannot be
        read. Without paths nothing is asked, and the time is `at` or the epoch."""
        documents = {self._names.document(path): path for path in paths}
        if not documents:
            return Read({}, at or EPOCH)
        request = reads.get_request(self._names, documents, mask, at)
        answers = await attempts.repeat(lambda seconds: self._batch_get(request, seconds))
        self.calls.count(read=len(documents), bytes_read=_size(answers))
        return reads.read_documents(documents, answers)

    async def query(self, query: Query) -> Found:
        """One round trip; UnavailableError within 5 seconds.

        Over all tenants, `start_after` ends with the Path of the last document instead of its id; and where documents
        that are not ours filled a limited answer, the rest is asked for, as of the same moment.
        """
        answers = await self._answers(query)
        found = reads.found_documents(self._names, query, answers)
        asked = query.limit
        while query.limit and len(found.documents) < query.limit and reads.count_documents(answers) == asked:
            answers += await self._answers(query, skip=asked, at=found.time)
            asked += query.limit
            found = Found(reads.found_documents(self._names, query, answers).documents[: query.limit], found.time)
        return found

    async def commit(self, writes: Sequence[Write]) -> Committed:
        """One atomic commit, sent once.

        CommitRefusedError where a precondition failed, CommitUnansweredError where it is not known whether it landed,
        InvalidRequestError where it is too large, UnavailableError where the database does not let us write.
        """
        request = writing.commit_request(self._names, writes)
        client = await self._connection.client()
        self.calls.count("Commit")
        try:
            with self._connection.answered():
                answer = await client.commit(
                    request=request, retry=None, timeout=WRITE_SECONDS, metadata=self._connection.metadata
                )
        except GoogleAPICallError as error:
            raise failures.of_commit(error) from error
        self.calls.count(written=len(writes), bytes_written=_size([CommitRequest.pb(request)]))
        return writing.committed(writes, CommitResponse.pb(answer))

    async def write_each(self, writes: Sequence[Write]) -> list[datetime | None]:
        """Independent writes, each document in at most one of them; one round trip takes up to `MOST_WRITES`. Update
        times (the epoch for a delete), None for what was refused. Sent once; fails like `commit`."""
        times: list[datetime | None] = []
        for first in range(0, len(writes), MOST_WRITES):
            times += await self._write_batch(writes[first : first + MOST_WRITES])
        return times

    async def _write_batch(self, writes: Sequence[Write]) -> list[datetime | None]:
        request = writing.batch_request(self._names, writes)
        client = await self._connection.client()
        self.calls.count("BatchWrite")
        try:
            with self._connection.answered():
                answer = await client.batch_write(
                    request=request, retry=None, timeout=WRITE_SECONDS, metadata=self._connection.metadata
                )
        except GoogleAPICallError as error:
            raise failures.of_commit(error) from error
        times = writing.written_each(writes, BatchWriteResponse.pb(answer))
        landed = sum(time is not None for time in times)
        self.calls.count(written=landed, bytes_written=_size([BatchWriteRequest.pb(request)]))
        return times

    def watch(self, target: Path | Query) -> AbstractAsyncContextManager[AsyncIterator[list[Document | None]]]:
        """Deliveries of state, on one stream for all watches; see `store.firestore.listen`."""
        return self._listener.watch(target)

    async def close(self) -> None:
        """Ends watches and calls in flight, and frees the channel. Later calls raise UnavailableError."""
        await self._listener.close()
        await self._connection.close()

    async def _answers(self, query: Query, *, skip: int = 0, at: datetime | None = None) -> list[Any]:
        request = reads.query_request(self._names, query, skip=skip, at=at)
        answers = await attempts.repeat(lambda seconds: self._run_query(request, seconds))
        self.calls.count(read=max(1, reads.count_documents(answers)), bytes_read=_size(answers))
        return answers

    async def _batch_get(self, request: BatchGetDocumentsRequest, seconds: float) -> list[Any]:
        client = await self._connection.client()
        self.calls.count("BatchGetDocuments")
        with self._connection.answered():
            stream = await client.batch_get_documents(
                request=request, retry=None, timeout=seconds, metadata=self._connection.metadata
            )
            return [BatchGetDocumentsResponse.pb(answer) async for answer in stream]

    async def _run_query(self, request: RunQueryRequest, seconds: float) -> list[Any]:
        client = await self._connection.client()
        self.calls.count("RunQuery")
        with self._connection.answered():
            stream = await client.run_query(
                request=request, retry=None, timeout=seconds, metadata=self._connection.metadata
            )
            return [RunQueryResponse.pb(answer) async for answer in stream]


def _size(messages: Sequence[Any]) -> int:
    """Of the wire's bytes, before compression."""
    return sum(message.ByteSize() for message in messages)
