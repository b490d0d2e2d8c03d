"""When a session is gone, and when the sweep has to look at it."""

import zlib
from datetime import datetime, timedelta
from enum import StrEnum

from store.errors import InvalidRequestError
from store.models import RetentionRules, Session

BUCKETS = 16
GRACE = timedelta(days=1)  # between a document's expiry and its removal by the database's own TTL
_SHORTEST_RULE = timedelta(days=1)  # idle limits are whole days
_WITHOUT_RULES = timedelta(days=30)
_HIGHEST_LIMIT = 100_000


def is_expired(expires_at: datetime | None, now: datetime) -> bool:
    """Whether a temporary session, or a row of one, is gone at `now`."""
    return expires_at is not None and expires_at <= now


def bucket_of(session_id: str) -> int:
    """The sweep's bucket of a session, 0 to 15: spreads an index whose values only grow."""
    return zlib.crc32(session_id.encode()) % BUCKETS


def due_at(active_at: datetime, expires_at: datetime | None) -> datetime:
    """The earliest moment at which a retention rule can apply; the sweep looks then, and puts it off if none does."""
    return expires_at if expires_at is not None else active_at + _SHORTEST_RULE


class Verdict(StrEnum):
    """Why a session goes."""

    EXPIRED = "expired"
    IDLE = "idle"
    CAP = "cap"
    RESUMED = "resumed"


def verdict_on(session: Session, is_deleting: bool, rules: RetentionRules, now: datetime) -> Verdict | None:
    """Why the session has to go, None where it stays. The cap is no matter of one session alone."""
    if is_deleting:
        return Verdict.RESUMED
    if session.temporary:
        return Verdict.EXPIRED if is_expired(session.expires_at, now) else None
    if rules.max_idle_days and session.updated_at < now - timedelta(days=rules.max_idle_days):
        return Verdict.IDLE
    return None


def next_due(session: Session, rules: RetentionRules, now: datetime) -> datetime:
    """When a session that stays has to be looked at again."""
    if session.expires_at is not None:
        return session.expires_at
    if rules.max_idle_days and not session.temporary:
        return max(now + _SHORTEST_RULE, session.updated_at + timedelta(days=rules.max_idle_days))
    return now + _WITHOUT_RULES


def require_rules(max_idle_days: object, max_count_per_user: object, present: RetentionRules) -> RetentionRules:
    """The rules after a change: None keeps, 0 switches off. InvalidRequestError for anything else."""
    return RetentionRules(
        _require_limit("maxIdleDays", max_idle_days, present.max_idle_days),
        _require_limit("maxCountPerUser", max_count_per_user, present.max_count_per_user),
    )


def _require_limit(name: str, value: object, present: int) -> int:
    if value is None:
        return present
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _HIGHEST_LIMIT:
        raise InvalidRequestError(f"{name} must be a whole number from 0 to {_HIGHEST_LIMIT:,}.")
    return value
