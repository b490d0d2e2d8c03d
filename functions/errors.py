"""From an error to an HTTP answer: status, body, headers. Also the errors that only HTTP has.

    StoreError                         (store.errors)
    ├── UnauthenticatedError           unauthenticated           401
    ├── PermissionDeniedError          permission_denied         403
    ├── MethodNotAllowedError          method_not_allowed        405
    ├── PayloadTooLargeError           payload_too_large         413
    ├── UnsupportedMediaTypeError      unsupported_media_type    415
    ├── RateLimitedError               rate_limited              429
    ├── HeadersTooLargeError           headers_too_large         431
    └── NotFoundError
        └── RouteNotFoundError         not_found                 404

The status is found by walking an error's classes from the most special one up; a new error needs no row here where its
parent's status is right. What is not a StoreError is a fault of ours: 500 with a fixed text, nothing of it is told.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

from store.errors import (
    ConflictError,
    DataLossError,
    DeadlineExceededError,
    DetachUnsupportedError,
    InvalidRequestError,
    MessageIdConflictError,
    NotFoundError,
    StateTooLargeError,
    StoreError,
    UnavailableError,
)

INTERNAL_MESSAGE: Final = "The server failed to answer this request."


class RouteNotFoundError(NotFoundError):
    """No route has this path."""

    def __init__(self) -> None:
        super().__init__("There is nothing at this path.")


class UnauthenticatedError(StoreError):
    """Nobody knows who is calling: no token, or one that proves nothing."""

    code = "unauthenticated"


class PermissionDeniedError(StoreError):
    """The caller is known and may not do this. Never said of a session or snapshot: another's is "not found"."""

    code = "permission_denied"


class MethodNotAllowedError(StoreError):
    """The path exists, for other methods."""

    code = "method_not_allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"This path takes {', '.join(self.allowed)}.")


class PayloadTooLargeError(StoreError):
    """The body is larger than the server takes, in bytes or in another `unit`."""

    code = "payload_too_large"

    def __init__(self, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"A body may have at most {limit} {unit}.")


class UnsupportedMediaTypeError(StoreError):
    """The body is not plain JSON text."""

    code = "unsupported_media_type"


class RateLimitedError(StoreError):
    """Too much at once; `retry_after_seconds` says when to try again."""

    code = "rate_limited"

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message, retryAfterSeconds=max(1, math.ceil(retry_after_seconds)))


class HeadersTooLargeError(StoreError):
    """The request's headers are larger than the server takes."""

    code = "headers_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"Headers may take {limit:,} bytes.", limit=limit)


STATUS: Final[dict[type[Exception], int]] = {
    InvalidRequestError: 400,
    UnauthenticatedError: 401,
    PermissionDeniedError: 403,
    NotFoundError: 404,
    MethodNotAllowedError: 405,
    ConflictError: 409,
    PayloadTooLargeError: 413,
    StateTooLargeError: 413,
    UnsupportedMediaTypeError: 415,
    MessageIdConflictError: 422,
    RateLimitedError: 429,
    HeadersTooLargeError: 431,
    DetachUnsupportedError: 501,
    UnavailableError: 503,
    DeadlineExceededError: 504,
    DataLossError: 500,
    StoreError: 500,
}


def status_of(error: Exception) -> int:
    """The HTTP status of an error; 500 for what nobody raised on purpose."""
    return status_of_kind(type(error))


def status_of_kind(kind: type[Exception]) -> int:
    """The HTTP status of a class of errors."""
    return next((STATUS[ancestor] for ancestor in kind.__mro__ if ancestor in STATUS), 500)


def status_of_code(code: str) -> int:
    """The HTTP status of an error that is known by its code only; 500 for an unknown one."""
    kinds = [StoreError]
    for kind in kinds:
        if kind.code == code and kind is not StoreError:
            return status_of_kind(kind)
        kinds += kind.__subclasses__()
    return 500


def error_body(error: Exception) -> dict[str, Any]:
    """`{code, message, ...details}`, safe to be encoded as UTF-8."""
    if not isinstance(error, StoreError):
        return {"code": StoreError.code, "message": INTERNAL_MESSAGE}
    # A message may quote a key with a lone surrogate, which has no UTF-8.
    message = error.message.encode("utf-8", "backslashreplace").decode()
    return {"code": error.code, "message": message} | {
        name: value for name, value in error.details.items() if name not in ("code", "message")
    }


def error_headers(error: Exception) -> dict[str, str]:
    """`Retry-After` in seconds where the error says when to come back, `Allow` where the method was wrong, and
    `WWW-Authenticate` where a token is needed."""
    headers: dict[str, str] = {}
    if isinstance(error, StoreError) and "retryAfterSeconds" in error.details:
        headers["Retry-After"] = str(error.details["retryAfterSeconds"])
    if isinstance(error, MethodNotAllowedError):
        headers["Allow"] = ", ".join(error.allowed)
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    return headers
