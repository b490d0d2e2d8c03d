"""How many turns at once an instance takes, of everybody and of each user."""

from collections import Counter
from collections.abc import Callable, Iterable

from functions.engine.limits import EngineLimits
from functions.errors import RateLimitedError
from store.models import Lease, Scope

_RETRY_SECONDS = 2.0  # a turn takes seconds; less would only be refused again


class Admission:
    """Places for turns, those whose claim is under way included. `leases` are of the turns that run."""

    def __init__(self, limits: EngineLimits, leases: Callable[[], Iterable[Lease]]) -> None:
        self._limits = limits
        self._leases = leases
        self._users: Counter[Scope] = Counter()

    def require_room(self, scope: Scope, message_id: str | None) -> None:
        """RateLimitedError, unless the turn of this very message runs here: a resend only attaches to it."""
        is_instance_full = self._users.total() >= self._limits.turns_per_instance
        is_user_full = self._users[scope] >= self._limits.turns_per_user
        if (is_instance_full or is_user_full) and not self._runs_message(scope, message_id):
            who = "This instance runs" if is_instance_full else "You run"
            raise RateLimitedError(f"{who} as many turns at once as allowed.", _RETRY_SECONDS)

    def _runs_message(self, scope: Scope, message_id: str | None) -> bool:
        leases = [lease for lease in self._leases() if lease.scope == scope]
        return message_id is not None and any(lease.message_id == message_id for lease in leases)

    def enter(self, scope: Scope) -> None:
        """One more."""
        self._users[scope] += 1

    def leave(self, scope: Scope) -> None:
        """One less."""
        self._users[scope] -= 1
        if self._users[scope] <= 0:
            del self._users[scope]
