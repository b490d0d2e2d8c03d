"""From errors to answers."""

import pytest

from functions.errors import (
    INTERNAL_MESSAGE,
    HeadersTooLargeError,
    MethodNotAllowedError,
    PayloadTooLargeError,
    PermissionDeniedError,
    RateLimitedError,
    RouteNotFoundError,
    UnauthenticatedError,
    UnsupportedMediaTypeError,
    error_body,
    error_headers,
    status_of,
)
from store.errors import (
    AlreadyCompactError,
    CompactionConflictError,
    DataLossError,
    DeadlineExceededError,
    DetachUnsupportedError,
    InvalidRequestError,
    LeaseLostError,
    MessageIdConflictError,
    MessageNotFoundError,
    ModelStaleError,
    ModelUnavailableError,
    NotResumableError,
    SessionExistsError,
    SessionNotFoundError,
    SnapshotNotFoundError,
    SnapshotSettledError,
    StateTooLargeError,
    StoreError,
    TooManyMessagesError,
    TranscriptStaleError,
    TurnBusyError,
    UnavailableError,
)

ANSWERS = [
    (InvalidRequestError("x"), 400, "invalid_request"),
    (UnauthenticatedError("x"), 401, "unauthenticated"),
    (PermissionDeniedError("x"), 403, "permission_denied"),
    (SessionNotFoundError("s"), 404, "session_not_found"),
    (SnapshotNotFoundError("s"), 404, "snapshot_not_found"),
    (MessageNotFoundError("m"), 404, "message_not_found"),
    (RouteNotFoundError(), 404, "not_found"),
    (MethodNotAllowedError(["GET"]), 405, "method_not_allowed"),
    (TurnBusyError("s", 3), 409, "agent_session_busy"),
    (TranscriptStaleError("m"), 409, "agent_session_stale"),
    (ModelStaleError("m"), 409, "agent_session_model_stale"),
    (ModelUnavailableError("m"), 409, "agent_session_model_unavailable"),
    (LeaseLostError("s"), 409, "agent_session_lease_lost"),
    (NotResumableError("s", "pending"), 409, "not_resumable"),
    (SnapshotSettledError("x"), 409, "snapshot_settled"),
    (AlreadyCompactError(), 409, "agent_session_already_compact"),
    (CompactionConflictError(), 409, "agent_session_compaction_conflict"),
    (SessionExistsError("s"), 409, "session_exists"),
    (PayloadTooLargeError(5), 413, "payload_too_large"),
    (StateTooLargeError(6, 5), 413, "payload_too_large"),
    (TooManyMessagesError(5), 413, "payload_too_large"),
    (UnsupportedMediaTypeError("x"), 415, "unsupported_media_type"),
    (MessageIdConflictError("m"), 422, "message_id_conflict"),
    (RateLimitedError("x", 1), 429, "rate_limited"),
    (HeadersTooLargeError(5), 431, "headers_too_large"),
    (DataLossError("snapshots/a/b", "x"), 500, "data_loss"),
    (StoreError("x"), 500, "internal"),
    (DetachUnsupportedError("x"), 501, "detach_unsupported"),
    (UnavailableError("x"), 503, "unavailable"),
    (DeadlineExceededError("x"), 504, "deadline_exceeded"),
]


@pytest.mark.parametrize(("error", "status", "code"), ANSWERS, ids=lambda value: type(value).__name__)
def test_every_error_has_its_status_and_code(error: StoreError, status: int, code: str) -> None:
    assert (status_of(error), error_body(error)["code"]) == (status, code)


def subclasses(kind: type[StoreError]) -> set[type[StoreError]]:
    found = {child for child in kind.__subclasses__() if child.__module__ in ("store.errors", "functions.errors")}
    return found.union(*map(subclasses, found))


def test_the_table_above_leaves_no_error_out() -> None:
    abstract = {"NotFoundError", "ConflictError"}
    assert {kind.__name__ for kind in subclasses(StoreError)} - abstract == {
        type(error).__name__ for error, _, _ in ANSWERS
    } - {"StoreError"}


def test_an_error_that_nobody_raised_on_purpose_tells_nothing() -> None:
    error = KeyError("secret")
    assert status_of(error) == 500
    assert error_body(error) == {"code": "internal", "message": INTERNAL_MESSAGE}
    assert error_headers(error) == {}


def test_a_busy_session_says_which_turn_holds_it_and_when_to_come_back() -> None:
    error = TurnBusyError("snap", 3)
    assert error_body(error) == {
        "code": "agent_session_busy",
        "message": error.message,
        "snapshotId": "snap",
        "retryAfterSeconds": 3,
    }
    assert error_headers(error) == {"Retry-After": "3"}


def test_a_limit_says_in_whole_seconds_when_to_come_back() -> None:
    assert error_headers(RateLimitedError("Too many.", 0.2)) == {"Retry-After": "1"}
    assert error_headers(RateLimitedError("Too many.", 2.1)) == {"Retry-After": "3"}


def test_a_stranger_is_told_what_to_bring() -> None:
    assert error_headers(UnauthenticatedError("No token.")) == {"WWW-Authenticate": "Bearer"}
    assert error_headers(PermissionDeniedError("Not you.")) == {}


def test_a_wrong_method_names_the_right_ones() -> None:
    assert error_headers(MethodNotAllowedError({"POST", "GET"})) == {"Allow": "GET, POST"}


def test_details_never_replace_code_or_message() -> None:
    error = StoreError("true", code="false", other=1)
    assert error_body(error) == {"code": "internal", "message": "true", "other": 1}


def test_a_message_with_half_a_character_can_be_sent() -> None:
    assert error_body(InvalidRequestError("key \ud800"))["message"] == "key \\ud800"
