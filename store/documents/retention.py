"""The retention rules of a tenant, and the erasure of all that a user has."""

from typing import Any

from store.database import SERVER_TIME, Committed, Condition, Create, Document, Kind, Path, Query, Update, Write
from store.documents.commits import Retries, try_commit
from store.documents.deletions import delete_marked, plan_bare_mark, plan_mark
from store.documents.shelf import Shelf
from store.documents.trimming import record_or_none, trim
from store.layout.fields import FORMAT_VERSION, FieldReader
from store.layout.records import METADATA_FIELDS
from store.models import RetentionRules, Scope
from store.rules.retention import require_rules

_PAGE = 100
_MOST_TRIMMED = 1_000  # documents; whoever makes a session does not have to wait for more

REVIEW_FIELDS = ("underReview", "reviewedTo")
"""What the settings of a tenant hold until a sweep has held all of its sessions against rules that are new."""


def _rules_path(tenant: str) -> Path:
    return Path(Kind.SETTINGS, tenant, "retention")


async def get_retention(shelf: Shelf, tenant: str) -> RetentionRules:
    """The tenant's rules; those of the options where it has set none. One round trip."""
    path = _rules_path(shelf.check_tenant(tenant))
    return _read_rules(shelf, (await shelf.database.get([path])).documents[path])


def _read_rules(shelf: Shelf, document: Document | None) -> RetentionRules:
    present = shelf.options.retention
    if document is None:
        return present
    reader = FieldReader.of(document)
    return require_rules(reader.find("maxIdleDays", int), reader.find("maxCountPerUser", int), present)


async def set_retention(
    shelf: Shelf, tenant: str, max_idle_days: int | None, max_count_per_user: int | None
) -> RetentionRules:
    """Changes the tenant's rules: None keeps, 0 switches off. The next sweep obeys: it looks at every session of the
    tenant then, whenever each would have been due by the former rules."""
    path = _rules_path(shelf.check_tenant(tenant))
    retries = Retries(shelf)
    while True:
        document = (await shelf.database.get([path])).documents[path]
        rules = require_rules(max_idle_days, max_count_per_user, _read_rules(shelf, document))
        result = await try_commit(shelf, [_rules_write(path, document, rules)])
        if isinstance(result, Committed):
            return rules
        await retries.wait(result)


def _rules_write(path: Path, document: Document | None, rules: RetentionRules) -> Write:
    """Refused where somebody else changed them meanwhile: two who change one rule each shall not undo each other."""
    fields: dict[str, Any] = {
        "formatVersion": FORMAT_VERSION,
        "maxIdleDays": rules.max_idle_days,
        "maxCountPerUser": rules.max_count_per_user,
        "updatedAt": SERVER_TIME,
        "underReview": True,
    }
    if document is None:
        return Create(path, fields)
    return Update(path, fields, remove=("reviewedTo",), update_time=document.update_time)


async def trim_sessions(shelf: Shelf, scope: Scope) -> int:
    """The cap, for the user who has made a session: how many others it cost."""
    shelf.require_scope(scope)
    return len((await trim(shelf, scope, await get_retention(shelf, scope.tenant), _MOST_TRIMMED)).sessions)


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
        for document in documents:
            if left <= 0:
                return False
            if document.fields.get("deleting") is not True:
                result = await try_commit(shelf, await _plan_end(shelf, scope, document))
                if not isinstance(result, Committed):
                    await retries.wait(result)
                    break
            deleted = await delete_marked(shelf, scope, document.path.id, left)
            if deleted is None:
                return False
            left -= deleted
    return True


async def _plan_end(shelf: Shelf, scope: Scope, document: Document) -> list[Write]:
    """A damaged session has to go as any other."""
    record = record_or_none(document)
    return plan_bare_mark(document) if record is None else await plan_mark(shelf, scope, record, force=True)
