"""The described routes: one row each. A new route is described by adding its row here and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from functions.errors import RateLimitedError
from functions.wire.queries import MessagesQuery, SessionsQuery, SnapshotQuery
from functions.wire.sessions import CreateSessionRequest
from functions.wire.turns import AbortRequest, ChatRequest
from functions.wire.validation import WireModel
from store.errors import (
    DataLossError,
    DeadlineExceededError,
    DetachUnsupportedError,
    LeaseLostError,
    MessageIdConflictError,
    ModelStaleError,
    ModelUnavailableError,
    NotResumableError,
    SessionNotFoundError,
    SnapshotNotFoundError,
    StateTooLargeError,
    StoreError,
    TranscriptStaleError,
    TurnBusyError,
    UnavailableError,
)

Errors: TypeAlias = tuple[type[StoreError], ...]

STORE_ERRORS: Final[Errors] = (DataLossError, UnavailableError, DeadlineExceededError)


class Reply(NamedTuple):
    """One successful answer: a component's name, and whether it can also come as a stream of events."""

    description: str
    component: str
    streamed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path. Errors that follow from `body`, `query`, the path's parameters and `reads_store` are
    added by the document; `errors` names the others."""

    method: Literal["get", "post", "put", "patch", "delete"]
    path: str
    operation: str
    summary: str
    replies: Mapping[int, Reply]
    body: type[WireModel] | None = None
    query: type[WireModel] | None = None
    errors: Errors = field(default=())
    reads_store: bool = True


ROUTES: Final = (
    Route(
        method="post",
        path="/chat",
        operation="chat",
        summary="Run a turn; with `Accept: text/event-stream` its events are streamed.",
        body=ChatRequest,
        replies={
            200: Reply("The turn has ended, or its events as they come.", "TurnEnd", streamed=True),
            202: Reply("The turn runs on (`detach`).", "Detached"),
        },
        errors=(
            SessionNotFoundError,
            SnapshotNotFoundError,
            TurnBusyError,
            TranscriptStaleError,
            ModelStaleError,
            ModelUnavailableError,
            LeaseLostError,
            NotResumableError,
            MessageIdConflictError,
            RateLimitedError,
            StateTooLargeError,
            DetachUnsupportedError,
        ),
    ),
    Route(
        method="post",
        path="/abort",
        operation="abort",
        summary="Stop a turn, wherever it runs.",
        body=AbortRequest,
        replies={200: Reply("The turn stops, or had ended before.", "Abort")},
        errors=(SessionNotFoundError, SnapshotNotFoundError),
    ),
    Route(
        method="get",
        path="/snapshot",
        operation="getSnapshot",
        summary="Read a snapshot, or a session's latest one; `wait` holds the answer until its turn has ended.",
        query=SnapshotQuery,
        replies={200: Reply("The snapshot.", "Snapshot")},
        errors=(SessionNotFoundError, SnapshotNotFoundError),
    ),
    Route(
        method="post",
        path="/sessions",
        operation="createSession",
        summary="Make a session; the same id again is the same session.",
        body=CreateSessionRequest,
        replies={201: Reply("The session.", "Session")},
    ),
    Route(
        method="get",
        path="/sessions",
        operation="listSessions",
        summary="The caller's sessions, most recently changed first; temporary ones are left out.",
        query=SessionsQuery,
        replies={200: Reply("A page of sessions.", "SessionPage")},
    ),
    Route(
        method="get",
        path="/sessions/{sessionId}",
        operation="getSession",
        summary="A session without its transcript; made to be polled.",
        replies={200: Reply("The session.", "Session")},
        errors=(SessionNotFoundError,),
    ),
    Route(
        method="get",
        path="/sessions/{sessionId}/messages",
        operation="listMessages",
        summary="The transcript, oldest message first.",
        query=MessagesQuery,
        replies={200: Reply("A page of messages.", "MessagePage")},
        errors=(SessionNotFoundError,),
    ),
    Route(
        method="get",
        path="/health",
        operation="getHealth",
        summary="Whether the server answers; reads nothing.",
        replies={200: Reply("It does.", "Health")},
        reads_store=False,
    ),
    Route(
        method="get",
        path="/ready",
        operation="getReadiness",
        summary="Whether the server reaches its store; one read.",
        replies={200: Reply("It does.", "Health")},
    ),
    Route(
        method="get",
        path="/openapi.json",
        operation="getOpenApi",
        summary="This document.",
        replies={200: Reply("The document.", "OpenApi")},
        reads_store=False,
    ),
)
