"""The retention rules of a tenant, the cap on a user's sessions, and the erasure of all that a user has."""

from store.database import SERVER_TIME, Committed, Condition, Kind, Path, Put, Query
from store.documents.commits import Retries, try_commit
from store.documents.deletions import delete_marked, plan_mark
from store.documents.shelf import Shelf
from store.errors import TurnBusyError
from store.layout.fields import FORMAT_VERSION, FieldReader
from store.layout.records import METADATA_FIELDS, Record, read_record
from store.models import RetentionRules, Scope
from store.rules.retention import require_rules

_PAGE = 100


def _rules_path(tenant: str) -> Path:
    return Path(Kind.SETTINGS, tenant, "retention")


async def get_retention(shelf: Shelf, tenant: str) -> RetentionRules:
    """The tenant's rules; those of the options where it has set none. One round trip."""
    path = _rules_path(shelf.check_tenant(tenant))
    document = (await shelf.database.get([path])).documents[path]
    present = shelf.options.retention
    if document is None:
        return present
    reader = FieldReader.of(document)
    return require_rules(reader.find("maxIdleDays", int), reader.find("maxCountPerUser", int), present)


async def set_retention(
    shelf: Shelf, tenant: str, max_idle_days: int | None, max_count_per_user: int | None
) -> RetentionRules:
    """Changes the tenant's rules: None keeps, 0 switches off. The next sweep obeys."""
    rules = require_rules(max_idle_days, max_count_per_user, await get_retention(shelf, tenant))
    fields = {
        "formatVersion": FORMAT_VERSION,
        "maxIdleDays": rules.max_idle_days,
        "maxCountPerUser": rules.max_count_per_user,
        "updatedAt": SERVER_TIME,
    }
    retries = Retries(shelf)
    while not isinstance(result := await try_commit(shelf, [Put(_rules_path(tenant), fields)]), Committed):
        await retries.wait(result)
    return rules


async def trim_sessions(shelf: Shelf, scope: Scope, rules: RetentionRules | None = None) -> int:
    """Deletes the user's persisted sessions beyond the cap, the least recently used first, a running one never: how
    many. Temporary sessions neither count nor go. One query of `cap` slim documents where there is nothing to do."""
    rules = rules or await get_retention(shelf, scope.tenant)
    if not rules.max_count_per_user:
        return 0
    deleted = 0
    for record in (await _persisted(shelf, scope))[rules.max_count_per_user :]:
        deleted += await delete_unless_awake(shelf, scope, record)
    return deleted


async def _persisted(shelf: Shelf, scope: Scope) -> list[Record]:
    """The user's sessions, the most recently used first."""
    shelf.require_scope(scope)
    query = Query(
        Kind.POINTERS,
        scope.tenant,
        (Condition("ownerId", "==", scope.user), Condition("temporary", "==", False)),
        order=(("updatedAt", True),),
        mask=METADATA_FIELDS,
    )
    records = map(read_record, (await shelf.database.query(query)).documents)
    return [record for record in records if not record.is_deleting]


async def delete_unless_awake(shelf: Shelf, scope: Scope, record: Record) -> bool:
    """Deletes a session as it was read; spares one that was written since, or whose turn lives."""
    try:
        writes = await plan_mark(shelf, scope, record)
    except TurnBusyError:
        return False
    if not isinstance(await try_commit(shelf, writes), Committed):
        return False
    await delete_marked(shelf, scope, record.session.id)
    return True


async def erase_user(shelf: Shelf, scope: Scope, most: int = 500) -> bool:
    """Deletes sessions of the user, temporary ones and running ones included, up to about `most` documents: whether
    none is left. To be repeated until it is."""
    shelf.require_scope(scope)
    query = Query(
        Kind.POINTERS, scope.tenant, (Condition("ownerId", "==", scope.user),), limit=_PAGE, mask=METADATA_FIELDS
    )
    left = most
    retries = Retries(shelf)
    while documents := (await shelf.database.query(query)).documents:
        for record in map(read_record, documents):
            if left <= 0:
                return False
            if not record.is_deleting:
                result = await try_commit(shelf, await plan_mark(shelf, scope, record, force=True))
                if not isinstance(result, Committed):
                    await retries.wait(result)
                    break
            deleted = await delete_marked(shelf, scope, record.session.id, left)
            if deleted is None:
                return False
            left -= deleted
    return True
