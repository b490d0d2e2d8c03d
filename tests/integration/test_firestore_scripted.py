"""What the emulator never says: errors by status code, and a Listen stream's rarer messages, from a scripted server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from google.cloud.firestore_v1.types import (
    BatchGetDocumentsResponse,
    CommitResponse,
    ListenRequest,
    ListenResponse,
    TargetChange,
)

from store.database import CommitRefusedError, CommitUnansweredError, Document, Kind, Path, Put, Query
from store.errors import InvalidRequestError, UnavailableError
from store.firestore.database import FirestoreDatabase

NAME = "projects/demo/databases/(default)/documents/genkit-sessions/acme/snapshots/row"
ROW = Path(Kind.SNAPSHOTS, "acme", "row")
ROWS = Query(Kind.SNAPSHOTS, "acme", ())
Change = TargetChange.TargetChangeType

pytestmark = pytest.mark.timeout(30)


class Server:
    """Fails calls with `error`, and plays one script after the other on the Listen streams that are opened."""

    def __init__(self) -> None:
        self.error = (grpc.StatusCode.UNAVAILABLE, "")
        self.scripts: list[list[Any]] = []
        self.told: list[ListenRequest] = []
        self.heard = asyncio.Condition()
        self.calls = 0

    def handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "google.firestore.v1.Firestore",
            {
                "Commit": grpc.unary_unary_rpc_method_handler(self._fail, response_serializer=CommitResponse.serialize),
                "BatchGetDocuments": grpc.unary_unary_rpc_method_handler(
                    self._fail, response_serializer=BatchGetDocumentsResponse.serialize
                ),
                "Listen": grpc.stream_stream_rpc_method_handler(
                    self._play, ListenRequest.deserialize, ListenResponse.serialize
                ),
            },
        )

    async def _fail(self, _: bytes, context: Any) -> None:
        self.calls += 1
        await context.abort(*self.error)

    async def _play(self, requests: AsyncIterator[ListenRequest], context: Any) -> AsyncIterator[ListenResponse]:
        script = self.scripts.pop(0)
        self.told.append(await anext(requests))
        for step in script:
            if isinstance(step, grpc.StatusCode):
                await context.abort(step, "scripted")
            yield ListenResponse(step)
        if self.scripts:
            return  # ends the stream, so that the next script gets its turn
        async for request in requests:
            self.told.append(request)
            async with self.heard:
                self.heard.notify_all()


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def database(server: Server) -> AsyncIterator[FirestoreDatabase]:
    listening = grpc.aio.server()
    listening.add_generic_rpc_handlers((server.handlers(),))
    port = listening.add_insecure_port("127.0.0.1:0")
    await listening.start()
    database = FirestoreDatabase("demo", emulator_host=f"127.0.0.1:{port}")
    yield database
    await database.close()
    await listening.stop(None)


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, "stale", CommitRefusedError),
        (grpc.StatusCode.ALREADY_EXISTS, "exists", CommitRefusedError),
        (grpc.StatusCode.NOT_FOUND, "no document", CommitRefusedError),
        (grpc.StatusCode.UNAVAILABLE, "away", CommitUnansweredError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "slow", CommitUnansweredError),
        (grpc.StatusCode.ABORTED, "contended", CommitUnansweredError),
        (grpc.StatusCode.CANCELLED, "cancelled", CommitUnansweredError),
        (grpc.StatusCode.UNKNOWN, "stream removed", CommitUnansweredError),
        (grpc.StatusCode.INTERNAL, "RST_STREAM", CommitUnansweredError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "quota exceeded", CommitUnansweredError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "gRPC message exceeds maximum size 4194304: 5", InvalidRequestError),
        (grpc.StatusCode.INVALID_ARGUMENT, "Request payload size exceeds the limit: 11 bytes.", InvalidRequestError),
        (grpc.StatusCode.INVALID_ARGUMENT, "bad name", InvalidRequestError),
        (grpc.StatusCode.PERMISSION_DENIED, "not you", UnavailableError),
        (grpc.StatusCode.UNAUTHENTICATED, "who are you", UnavailableError),
    ],
)
async def test_a_commits_error_is_told_by_its_code_and_the_commit_is_sent_once(
    database: FirestoreDatabase, server: Server, code: grpc.StatusCode, text: str, expected: type[Exception]
) -> None:
    server.error = (code, text)
    with pytest.raises(expected, match=text) as raised:
        await database.commit([Put(ROW, {})])
    assert type(raised.value) is expected
    assert raised.value.__cause__ is not None
    assert (server.calls, database.calls.snapshot().rpcs, database.calls.snapshot().written) == (1, {"Commit": 1}, 0)


@pytest.mark.parametrize("code", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED])
async def test_a_read_that_is_not_allowed_is_not_repeated(
    database: FirestoreDatabase, server: Server, code: grpc.StatusCode
) -> None:
    server.error = (code, "not you")
    with pytest.raises(UnavailableError, match=f"{code.name}: not you"):
        await database.get([ROW])
    assert server.calls == 1


async def test_a_read_is_repeated_with_pauses_and_every_attempt_is_counted(
    database: FirestoreDatabase, server: Server
) -> None:
    server.error = (grpc.StatusCode.ABORTED, "contended")
    with pytest.raises(UnavailableError):
        await database.get([ROW])
    assert 5 <= server.calls <= 40
    assert database.calls.snapshot().rpcs == {"BatchGetDocuments": server.calls}
    assert database.calls.snapshot().read == 0


def change(kind: int, *target_ids: int, code: int = 0, message: str = "") -> dict[str, Any]:
    cause = {"cause": {"code": code, "message": message}} if code else {}
    return {"target_change": {"target_change_type": kind, "target_ids": target_ids, **cause}}


def document(n: int, *target_ids: int, left: tuple[int, ...] = (), name: str = NAME) -> dict[str, Any]:
    fields = {"n": {"integer_value": n}}
    return {
        "document_change": {
            "document": {"name": name, "fields": fields, "update_time": {"seconds": n}},
            "target_ids": target_ids,
            "removed_target_ids": left,
        }
    }


def numbers(delivery: list[Document | None]) -> list[int | None]:
    return [None if entry is None else entry.fields["n"] for entry in delivery]


async def test_nothing_is_delivered_before_the_target_is_current(database: FirestoreDatabase, server: Server) -> None:
    server.scripts = [[change(Change.ADD, 1), document(1, 1), document(2, 1), change(Change.CURRENT, 1)]]
    async with database.watch(ROW) as row:
        assert numbers(await anext(row)) == [2]


async def test_a_change_without_targets_is_of_all_targets(database: FirestoreDatabase, server: Server) -> None:
    server.scripts = [[document(1, 1), change(Change.CURRENT)]]
    async with database.watch(ROW) as row:
        assert numbers(await anext(row)) == [1]


async def test_a_reset_target_is_delivered_again_when_it_is_current_again(
    database: FirestoreDatabase, server: Server
) -> None:
    server.scripts = [[document(1, 1), change(Change.CURRENT, 1), change(Change.RESET, 1), change(Change.CURRENT, 1)]]
    async with database.watch(ROW) as row:
        seen = [numbers(await anext(row))]
        while seen[-1] != [None]:
            seen.append(numbers(await anext(row)))
    assert seen in ([[1], [None]], [[None]])  # deliveries may be merged


@pytest.mark.parametrize(
    "gone",
    [
        {"document_delete": {"document": NAME, "removed_target_ids": [1]}},
        {"document_remove": {"document": NAME, "removed_target_ids": [1]}},
        {"filter": {"target_id": 1, "count": 0}},
    ],
)
async def test_every_way_to_say_that_a_document_is_gone_is_understood(
    database: FirestoreDatabase, server: Server, gone: dict[str, Any]
) -> None:
    server.scripts = [[document(1, 1), change(Change.CURRENT, 1), gone]]
    async with database.watch(ROW) as row:
        while numbers(await anext(row)) != [None]:
            pass


async def test_a_document_that_leaves_a_query_is_not_delivered_any_more(
    database: FirestoreDatabase, server: Server
) -> None:
    left = document(2, left=(1,))
    other = document(3, 1, name=NAME + "2")
    server.scripts = [[document(1, 1), left, change(Change.CURRENT, 1), other]]
    async with database.watch(ROWS) as rows:
        seen = await anext(rows) or await anext(rows)
    assert numbers(seen) == [3]


@pytest.mark.parametrize(
    "end",
    [
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.PERMISSION_DENIED,
        change(Change.REMOVE, 1, code=14, message="moved"),
        change(Change.REMOVE, 1),
        None,
    ],
)
async def test_a_stream_that_ends_is_opened_again(database: FirestoreDatabase, server: Server, end: Any) -> None:
    ending = [] if end is None else [end]
    server.scripts = [[document(1, 1), change(Change.CURRENT, 1), *ending], [document(2, 1), change(Change.CURRENT, 1)]]
    async with database.watch(ROW) as row:
        while numbers(await anext(row)) != [2]:
            pass
    assert [request.add_target.documents.documents for request in server.told[:2]] == [[NAME], [NAME]]


async def test_a_target_that_is_refused_for_good_fails_its_own_watch_only(
    database: FirestoreDatabase, server: Server
) -> None:
    refusal = change(Change.REMOVE, 1, code=9, message="The query requires an index.")
    server.scripts = [[refusal, change(Change.CURRENT, 2)]]
    async with database.watch(ROWS) as rows, database.watch(ROW) as row:
        with pytest.raises(UnavailableError, match="requires an index"):
            await anext(rows)
        assert numbers(await anext(row)) == [None]


async def test_a_closed_watch_is_told_to_the_server(database: FirestoreDatabase, server: Server) -> None:
    server.scripts = [[change(Change.CURRENT)]]
    async with database.watch(ROW) as row, database.watch(ROWS):
        await anext(row)
        async with database.watch(ROW):
            pass
        async with server.heard:
            await server.heard.wait_for(lambda: len(server.told) == 4)
    assert [(request.add_target.target_id, request.remove_target) for request in server.told] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (0, 3),
    ]


async def test_a_fault_in_distributing_fails_the_watches_instead_of_silencing_them(
    database: FirestoreDatabase, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: Any) -> None:
        raise ZeroDivisionError("a fault of ours")

    broken: Callable[..., None] = fault
    monkeypatch.setattr("store.firestore.watches.Watch.completed", broken)
    server.scripts = [[change(Change.CURRENT, 1)]]
    async with database.watch(ROW) as row:
        with pytest.raises(ZeroDivisionError):
            await anext(row)
