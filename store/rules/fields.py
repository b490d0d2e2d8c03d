"""What the fields beside a state may hold. A row or session with anything else in them could be written, on some
databases, and would read as damaged ever after. Pure."""

from collections.abc import Mapping

from store.errors import InvalidRequestError
from store.models import Claim, NewSession, Outcome, Snapshot

_MOST = 1 << 63  # a database's whole numbers have 64 bits
_TEXTS = ("finish_reason", "model", "message_id", "message_text", "last_message_id", "auto_title")


def require_row_fields(given: Snapshot | Outcome) -> None:
    """InvalidRequestError naming the field that holds something else than its kind of value."""
    require_texts(**{name: getattr(given, name, None) for name in _TEXTS})
    if given.error is not None and not isinstance(given.error, Mapping):
        raise InvalidRequestError("error must be an object.")
    _require_count("event_count", given.event_count)
    require_usage(given.usage)


def require_usage(usage: object) -> None:
    """InvalidRequestError where it is not an object of whole numbers."""
    if usage is None:
        return
    if not isinstance(usage, Mapping):
        raise InvalidRequestError("usage must be an object.")
    for name, count in usage.items():
        require_texts(usage=name)
        if not name or name.startswith("__"):
            raise InvalidRequestError(f"usage must not have a member {name!r}.")
        _require_count(f"usage.{name}", count)


def require_session_fields(new: NewSession) -> None:
    """As `require_row_fields`, for what a session is made with."""
    require_texts(agent=new.agent, title=new.title, model=new.model)


def require_claim_fields(claim: Claim) -> None:
    """As `require_row_fields`, for what a turn begins with."""
    require_session_fields(claim.session)
    require_texts(attempt=claim.attempt, runner=claim.runner, model=claim.model)


def require_texts(**values: object) -> None:
    """InvalidRequestError naming the value that is neither absent nor text that a database keeps."""
    for name, value in values.items():
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidRequestError(f"{name} must be a string.")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidRequestError(f"{name} contains a lone surrogate.") from None


def _require_count(name: str, value: object) -> None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and -_MOST <= value < _MOST
    if value is not None and not is_count:
        raise InvalidRequestError(f"{name} must be a whole number of 64 bits.")
