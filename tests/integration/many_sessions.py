"""Session documents in large numbers, written by large commits. Holds no test."""

from datetime import datetime, timedelta
from typing import Any

from store.database import Create, Database, Kind, Path
from store.documents.claims import record_identity
from store.models import NewSession, Scope
from store.rules.retention import due_at

_COMMIT = 1000  # documents, which no limit of the emulator forbids


def session_fields(scope: Scope, session_id: str, active_at: datetime) -> dict[str, Any]:
    """A persisted session without turns, as `create_session` writes it, used last at `active_at`."""
    times = {"createdAt": active_at, "updatedAt": active_at, "dueAt": due_at(active_at, None)}
    return record_identity(scope, session_id, NewSession("echo")) | times


async def time_of(database: Database) -> datetime:
    """The database's time."""
    return (await database.get([Path(Kind.SETTINGS, "acme", "nothing")])).time


async def fill(database: Database, sessions: dict[Path, dict[str, Any]]) -> None:
    """Writes them all."""
    writes = [Create(path, fields) for path, fields in sessions.items()]
    for start in range(0, len(writes), _COMMIT):
        await database.commit(writes[start : start + _COMMIT])


def sessions_of(
    scope: Scope, count: int, active_at: datetime, prefix: str = "s", step: timedelta = timedelta(seconds=1)
) -> dict[Path, dict[str, Any]]:
    """So many sessions of one user, each used `step` before the one in front of it."""
    return {
        Path(Kind.POINTERS, scope.tenant, session_id): session_fields(scope, session_id, active_at - n * step)
        for n in range(count)
        for session_id in [f"{prefix}-{scope.user}-{n:05}"]
    }
