"""What an error of the service means to the store. Pure.

Acts on the status code; texts are looked at for the one distinction that has no code of its own: the emulator reports
a message that is too large as RESOURCE_EXHAUSTED, which otherwise means "later".
"""

from google.api_core import exceptions

from store.database import CommitRefusedError, CommitUnansweredError
from store.errors import InvalidRequestError, UnavailableError

_REFUSED = (exceptions.FailedPrecondition, exceptions.AlreadyExists, exceptions.NotFound)
_TRANSIENT = (
    exceptions.ServiceUnavailable,
    exceptions.DeadlineExceeded,
    exceptions.Aborted,
    exceptions.Cancelled,
    exceptions.Unknown,
    exceptions.InternalServerError,
    exceptions.ResourceExhausted,
)


def is_transient(error: Exception) -> bool:
    """Whether the same call may succeed in a moment."""
    return isinstance(error, _TRANSIENT) and not _is_too_large(error)


def of_read(error: exceptions.GoogleAPICallError) -> UnavailableError:
    """A read's last error as the store's."""
    return UnavailableError(f"The database cannot be read: {_text(error)}")


def of_commit(error: exceptions.GoogleAPICallError) -> Exception:
    """A commit's error as the protocol's: refused, unanswered, or not allowed at all (nothing was written)."""
    if isinstance(error, _REFUSED):
        return CommitRefusedError(_text(error))
    if is_transient(error):
        return CommitUnansweredError(_text(error))
    if _is_too_large(error):
        return InvalidRequestError(f"The commit is larger than the database accepts: {_text(error)}")
    if isinstance(error, exceptions.InvalidArgument):
        return InvalidRequestError(f"The database does not accept the commit: {_text(error)}")
    return UnavailableError(f"The database cannot be written: {_text(error)}")


def _is_too_large(error: Exception) -> bool:
    if not isinstance(error, (exceptions.ResourceExhausted, exceptions.InvalidArgument)):
        return False
    text = str(error).lower()
    return any(sign in text for sign in ("exceeds the maximum", "exceeds maximum", "exceeds the limit", "too big"))


def _text(error: exceptions.GoogleAPICallError) -> str:
    code = error.grpc_status_code
    return f"{'UNKNOWN' if code is None else code.name}: {error.message}"
