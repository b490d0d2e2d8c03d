"""When a session is gone, and when the sweep has to look at it."""

import zlib
from datetime import datetime, timedelta

BUCKETS = 16
GRACE = timedelta(days=1)  # between a document's expiry and its removal by the database's own TTL
_SHORTEST_RULE = timedelta(days=1)  # idle limits are whole days


def is_expired(expires_at: datetime | None, now: datetime) -> bool:
    """Whether a temporary session, or a row of one, is gone at `now`."""
    return expires_at is not None and expires_at <= now


def bucket_of(session_id: str) -> int:
    """The sweep's bucket of a session, 0 to 15: spreads an index whose values only grow."""
    return zlib.crc32(session_id.encode()) % BUCKETS


def due_at(active_at: datetime, expires_at: datetime | None) -> datetime:
    """The earliest moment at which a retention rule can apply; the sweep looks then, and puts it off if none does."""
    return expires_at if expires_at is not None else active_at + _SHORTEST_RULE
