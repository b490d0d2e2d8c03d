"""What an engine keeps to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Seconds, counts and tokens. `compact_at_tokens` 0 never compacts by itself; `max_messages` is for turns that no
    store counts for."""

    heartbeat_interval: float
    abort_grace: float
    turns_per_instance: int
    turns_per_user: int
    compact_at_tokens: int = 0
    max_messages: int = 100_000
