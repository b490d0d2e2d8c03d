"""What can go wrong, as types with stable codes. Owns no HTTP: the mapping to a status lives in `functions.app`.

    StoreError
    ├── InvalidRequestError            invalid_request
    ├── StateTooLargeError             payload_too_large
    │   └── TooManyMessagesError       payload_too_large
    ├── NotFoundError
    │   ├── SessionNotFoundError       session_not_found
    │   ├── SnapshotNotFoundError      snapshot_not_found
    │   └── MessageNotFoundError       message_not_found
    ├── ConflictError                  conflict
    │   ├── TurnBusyError              agent_session_busy
    │   ├── TranscriptStaleError       agent_session_stale
    │   ├── ModelStaleError            agent_session_model_stale
    │   ├── ModelUnavailableError      agent_session_model_unavailable
    │   ├── LeaseLostError             agent_session_lease_lost
    │   ├── NotResumableError          not_resumable
    │   ├── AlreadyCompactError        agent_session_already_compact
    │   ├── CompactionConflictError    agent_session_compaction_conflict
    │   ├── SessionExistsError         session_exists
    │   └── SnapshotSettledError       snapshot_settled
    ├── MessageIdConflictError         message_id_conflict
    ├── DetachUnsupportedError         detach_unsupported
    ├── DataLossError                  data_loss
    ├── UnavailableError               unavailable
    └── DeadlineExceededError          deadline_exceeded

Act on the class or the `code`, never on the message. `details` holds what a caller may be told besides, in the
names of the HTTP contract.
"""

from typing import Any, ClassVar


class StoreError(Exception):
    """Base of all errors that the store reports on purpose."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidRequestError(StoreError):
    """The input is refused; nothing was read or written."""

    code = "invalid_request"


class StateTooLargeError(StoreError):
    """The conversation's state would exceed the configured limit; nothing was written."""

    code = "payload_too_large"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"The state would take {size:,} bytes; the limit is {limit:,}.", limit=limit)


class TooManyMessagesError(StateTooLargeError):
    """The transcript is as long as it may become; nothing was written."""

    def __init__(self, limit: int) -> None:
        StoreError.__init__(self, f"The transcript has as many messages as it may have: {limit:,}.", limit=limit)


class NotFoundError(StoreError):
    """Missing, deleted, expired, or somebody else's: the four are not told apart."""

    code = "not_found"


class SessionNotFoundError(NotFoundError):
    """No such session for this caller."""

    code = "session_not_found"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id!r}.")
        self.session_id = session_id


class SnapshotNotFoundError(NotFoundError):
    """No such snapshot for this caller."""

    code = "snapshot_not_found"

    def __init__(self, snapshot_id: str) -> None:
        super().__init__(f"There is no snapshot {snapshot_id!r}.")


class MessageNotFoundError(NotFoundError):
    """The session's transcript holds no such message."""

    code = "message_not_found"

    def __init__(self, message_id: str) -> None:
        super().__init__(f"The transcript has no message {message_id!r}.")


class ConflictError(StoreError):
    """The request contradicts the present state; nothing was written."""

    code = "conflict"


class TurnBusyError(ConflictError):
    """A live turn holds the session's lease."""

    code = "agent_session_busy"

    def __init__(self, snapshot_id: str, retry_after_seconds: int) -> None:
        super().__init__(
            "Another turn of this session is running.",
            snapshotId=snapshot_id,
            retryAfterSeconds=retry_after_seconds,
        )
        self.snapshot_id = snapshot_id
        self.retry_after_seconds = retry_after_seconds


class TranscriptStaleError(ConflictError):
    """The caller's last message is not the transcript's."""

    code = "agent_session_stale"

    def __init__(self, last_message_id: str | None) -> None:
        tail = {} if last_message_id is None else {"lastMessageId": last_message_id}
        super().__init__("The transcript has changed since it was read.", **tail)
        self.last_message_id = last_message_id


class ModelStaleError(ConflictError):
    """The caller asserted another model than the session's."""

    code = "agent_session_model_stale"

    def __init__(self, model: str | None) -> None:
        known = {} if model is None else {"model": model}
        super().__init__("The session uses another model.", **known)


class ModelUnavailableError(ConflictError):
    """The session's model is configured no more."""

    code = "agent_session_model_unavailable"

    def __init__(self, model: str) -> None:
        super().__init__(f"The model {model!r} is not available.", model=model)


class LeaseLostError(ConflictError):
    """The turn was superseded; nothing of it was published."""

    code = "agent_session_lease_lost"

    def __init__(self, snapshot_id: str) -> None:
        super().__init__("This turn was superseded; nothing of it was stored.", snapshotId=snapshot_id)


class NotResumableError(ConflictError):
    """The named snapshot has no state that a turn could continue from."""

    code = "not_resumable"

    def __init__(self, snapshot_id: str, status: str) -> None:
        super().__init__(f"A turn cannot continue from a snapshot that is {status}.", snapshotId=snapshot_id)


class AlreadyCompactError(ConflictError):
    """There is nothing that a compaction could sum up."""

    code = "agent_session_already_compact"

    def __init__(self) -> None:
        super().__init__("The session has no complete turn since its last compaction.")


class CompactionConflictError(ConflictError):
    """The transcript changed while it was being summed up; the compaction was discarded."""

    code = "agent_session_compaction_conflict"

    def __init__(self) -> None:
        super().__init__("The transcript has changed meanwhile; the compaction was discarded.")


class SessionExistsError(ConflictError):
    """The id that was asked for belongs to another session of the caller."""

    code = "session_exists"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is another session {session_id!r}.", sessionId=session_id)
        self.session_id = session_id


class SnapshotSettledError(ConflictError):
    """A change would alter what a settled snapshot keeps: its status, its state, its session or its parent."""

    code = "snapshot_settled"


class MessageIdConflictError(StoreError):
    """The message id already belongs to another message."""

    code = "message_id_conflict"

    def __init__(self, message_id: str) -> None:
        super().__init__(f"The message id {message_id!r} is already used.", messageId=message_id)


class DetachUnsupportedError(StoreError):
    """The store cannot signal, or the deployment cannot work after its response."""

    code = "detach_unsupported"


class DataLossError(StoreError):
    """Stored documents contradict each other. Names the document; never read as absence."""

    code = "data_loss"

    def __init__(self, document: str, reason: str) -> None:
        super().__init__(f"{document}: {reason}")
        self.document = document
        self.reason = reason


class UnavailableError(StoreError):
    """The database did not answer in time; whether a write landed was not decided here."""

    code = "unavailable"


class DeadlineExceededError(StoreError):
    """The caller's own time limit passed."""

    code = "deadline_exceeded"
