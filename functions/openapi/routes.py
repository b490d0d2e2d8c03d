"""The described routes: one row each. A new route is described by adding its row here and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from functions.errors import PermissionDeniedError, RateLimitedError
from functions.identity.access import Access
from functions.wire.genkit import AgentCall, OneSnapshotCall, SnapshotCall
from functions.wire.queries import MessagesQuery, ReattachQuery, SessionsQuery, SnapshotQuery, SnapshotsQuery
from functions.wire.retention import RetentionRequest, SweepQuery, SweepRequest
from functions.wire.sessions import (
    BranchRequest,
    CompactRequest,
    CreateSessionRequest,
    PatchSessionRequest,
    RestoreRequest,
    TruncateRequest,
)
from functions.wire.turns import AbortRequest, ChatRequest, QueuedTurnRequest
from functions.wire.validation import WireModel
from store.errors import (
    AlreadyCompactError,
    CompactionConflictError,
    DataLossError,
    DeadlineExceededError,
    DetachUnsupportedError,
    LeaseLostError,
    MessageIdConflictError,
    MessageNotFoundError,
    ModelStaleError,
    ModelUnavailableError,
    NotResumableError,
    SessionExistsError,
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
    """One successful answer: a component's name (none for an empty body), and whether it can also come as a stream of
    events."""

    description: str
    component: str | None
    streamed: bool = False


NOTHING: Final = Reply("Done.", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path. Errors that follow from `body`, `query`, the path's parameters, `reads_store` and
    `access` are added by the document; `errors` names the others."""

    method: Literal["get", "post", "put", "patch", "delete"]
    path: str
    operation: str
    summary: str
    replies: Mapping[int, Reply]
    body: type[WireModel] | None = None
    query: type[WireModel] | None = None
    errors: Errors = field(default=())
    reads_store: bool = True
    access: Access = Access.CALLER
    refusal: str = "Error"  # the component that a refusal is


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
        method="get",
        path="/chat/{snapshotId}",
        operation="reattach",
        summary="Follow a turn from behind `Last-Event-ID`, wherever it runs.",
        query=ReattachQuery,
        replies={
            200: Reply("The turn has ended, or its events as they come.", "TurnEnd", streamed=True),
            204: Reply("The events behind that one are kept no more; read the messages.", None),
        },
        errors=(SnapshotNotFoundError, LeaseLostError),
    ),
    Route(
        method="post",
        path="/turn",
        operation="runQueuedTurn",
        summary="Run a detached turn; called by the queue.",
        body=QueuedTurnRequest,
        access=Access.SCHEDULER,
        replies={200: Reply("The turn is over, or is not to be run.", "QueuedTurn")},
        errors=(RateLimitedError,),
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
        method="delete",
        path="/sessions",
        operation="eraseSessions",
        summary="Erase all sessions of the caller; repeat until 204.",
        replies={202: Reply("Some are left.", "Erasure"), 204: NOTHING},
    ),
    Route(
        method="get",
        path="/retention",
        operation="getRetention",
        summary="How long the tenant's sessions are kept.",
        replies={200: Reply("The rules.", "Retention")},
    ),
    Route(
        method="put",
        path="/retention",
        operation="putRetention",
        summary="Change how long the tenant's sessions are kept; for administrators.",
        body=RetentionRequest,
        replies={200: Reply("The rules.", "Retention")},
        errors=(PermissionDeniedError,),
    ),
    Route(
        method="post",
        path="/sweep",
        operation="sweep",
        summary="Delete some of what the rules let go; called by the scheduler.",
        body=SweepRequest,
        query=SweepQuery,
        access=Access.SCHEDULER,
        replies={200: Reply("What was done.", "Sweep")},
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
        method="patch",
        path="/sessions/{sessionId}",
        operation="updateSession",
        summary="Rename a session, also during a turn, or change its model.",
        body=PatchSessionRequest,
        replies={200: Reply("The session.", "Session")},
        errors=(SessionNotFoundError, TurnBusyError),
    ),
    Route(
        method="delete",
        path="/sessions/{sessionId}",
        operation="deleteSession",
        summary="Remove a session with everything that belongs to it.",
        replies={204: NOTHING},
        errors=(SessionNotFoundError, TurnBusyError),
    ),
    Route(
        method="get",
        path="/sessions/{sessionId}/snapshots",
        operation="listSnapshots",
        summary="The session's tree of snapshots, oldest first.",
        query=SnapshotsQuery,
        replies={200: Reply("A page of snapshots.", "SnapshotPage")},
        errors=(SessionNotFoundError,),
    ),
    Route(
        method="post",
        path="/sessions/{sessionId}/truncate",
        operation="truncateSession",
        summary="Rewind the transcript to a message; the state before stays readable.",
        body=TruncateRequest,
        replies={200: Reply("The session.", "Session")},
        errors=(SessionNotFoundError, MessageNotFoundError, TurnBusyError, TranscriptStaleError),
    ),
    Route(
        method="post",
        path="/sessions/{sessionId}/restore",
        operation="restoreSession",
        summary="Continue from an earlier snapshot's state: undoes a truncate or a compaction.",
        body=RestoreRequest,
        replies={200: Reply("The session.", "Session")},
        errors=(SessionNotFoundError, SnapshotNotFoundError, TurnBusyError, TranscriptStaleError, NotResumableError),
    ),
    Route(
        method="post",
        path="/sessions/{sessionId}/branch",
        operation="branchSession",
        summary="Make a session with a prefix of this one's transcript.",
        body=BranchRequest,
        replies={201: Reply("The new session.", "Session")},
        errors=(SessionNotFoundError, MessageNotFoundError, TurnBusyError, SessionExistsError),
    ),
    Route(
        method="post",
        path="/sessions/{sessionId}/compact",
        operation="compactSession",
        summary="Sum the transcript up for the turns to come; nothing of it is removed.",
        body=CompactRequest,
        replies={200: Reply("The message that was stored.", "Compaction")},
        errors=(
            SessionNotFoundError,
            TurnBusyError,
            ModelUnavailableError,
            AlreadyCompactError,
            CompactionConflictError,
            RateLimitedError,
        ),
    ),
    Route(
        method="post",
        path="/agents/{agent}",
        operation="runAgent",
        summary="Run a turn, in Genkit's agent protocol; its errors are `{status, message}`.",
        body=AgentCall,
        refusal="AgentError",
        replies={200: Reply("How the turn ended, or its chunks as they come.", "AgentAnswer", streamed=True)},
        errors=(SessionNotFoundError, TurnBusyError, RateLimitedError, DetachUnsupportedError),
    ),
    Route(
        method="post",
        path="/agents/{agent}/getSnapshot",
        operation="getAgentSnapshot",
        summary="Read a snapshot, in Genkit's agent protocol.",
        body=SnapshotCall,
        refusal="AgentError",
        replies={200: Reply("The snapshot.", "AgentAnswer")},
        errors=(SessionNotFoundError, SnapshotNotFoundError),
    ),
    Route(
        method="post",
        path="/agents/{agent}/abort",
        operation="abortAgent",
        summary="Stop a turn, in Genkit's agent protocol.",
        body=OneSnapshotCall,
        refusal="AgentError",
        replies={200: Reply("The status that it had.", "AgentAnswer")},
        errors=(SnapshotNotFoundError,),
    ),
    Route(
        method="post",
        path="/agents/{agent}/waitForSnapshot",
        operation="waitForAgentSnapshot",
        summary="Read a snapshot once its turn has ended, in Genkit's agent protocol.",
        body=OneSnapshotCall,
        refusal="AgentError",
        replies={200: Reply("The snapshot.", "AgentAnswer")},
        errors=(SnapshotNotFoundError,),
    ),
    Route(
        method="get",
        path="/health",
        operation="getHealth",
        summary="Whether the server answers; reads nothing.",
        replies={200: Reply("It does.", "Health")},
        reads_store=False,
        access=Access.ANYBODY,
    ),
    Route(
        method="get",
        path="/ready",
        operation="getReadiness",
        summary="Whether the server reaches its store; one read.",
        replies={200: Reply("It does.", "Health")},
        access=Access.ANYBODY,
    ),
    Route(
        method="get",
        path="/openapi.json",
        operation="getOpenApi",
        summary="This document.",
        replies={200: Reply("The document.", "OpenApi")},
        reads_store=False,
        access=Access.ANYBODY,
    ),
)
