"""What is wrong with the documents of Genkit's in one session, as far as we would read them. Pure.

Nothing of them is ever repaired: Genkit's own stores may still write them, and a turn of ours makes the session ours.
"""

from collections.abc import Iterator

from store.database import Document, Kind, Path
from store.documents.legacy import POINTER_FIELDS
from store.documents.shelf import shard_path
from store.errors import DataLossError
from store.fsck.contents import SessionView
from store.fsck.findings import Finding, Problem
from store.layout.fields import FieldReader
from store.layout.rows import Row
from store.legacy.rows import is_legacy, own_shards
from store.models import SnapshotStatus


def examine_legacy(view: SessionView) -> Iterator[Finding]:
    """Rows that cannot be read, chains and parents, and the session document where it is Genkit's or missing."""
    for path, error in view.legacy.errors:
        yield Finding(Problem.DOCUMENT, path, error.reason)
    for row in view.legacy.rows.values():
        yield from _chain(view, row)
    document = view.contents.record_document
    if document is not None and is_legacy(document):
        yield from _pointer(view, document)
    elif document is None and view.legacy.rows and not view.rows and not view.contents.is_partial:
        path = Path(Kind.POINTERS, view.contents.tenant, view.contents.session_id)
        yield Finding(Problem.MISSING_SESSION, path, "it is missing, and Genkit's rows name it")


def nearest_readable(view: SessionView, row: Row) -> str:
    """The nearest ancestor whose state can be put together, in words."""
    for ancestor in _ancestors(view, row):
        if not ancestor.is_pruned and view.is_readable(ancestor):
            return f"its nearest readable ancestor is {ancestor.snapshot.snapshot_id!r}"
    return "no ancestor of it can be read"


def _ancestors(view: SessionView, row: Row) -> Iterator[Row]:
    """One after the other; over a gap where a chain names what lies behind it."""
    seen = {row.snapshot.snapshot_id}
    current: Row | None = row
    while current is not None:
        chain = current.chain
        behind = (*reversed(chain.segment_path), chain.checkpoint_id) if chain else ()
        named = [row_id for row_id in (current.snapshot.parent_id, *behind) if row_id and row_id not in seen]
        current = next((found for row_id in named if (found := view.find_row(row_id)) is not None), None)
        if current is not None:
            seen.add(current.snapshot.snapshot_id)
            yield current


def legacy_shards(view: SessionView) -> list[Document]:
    """The shards of Genkit's that belong to rows of the session."""
    rows = view.legacy.documents.values()
    paths = [shard_path(view.contents.tenant, shard_id) for row in rows for shard_id in own_shards(row)]
    return [document for path in paths if (document := view.legacy.find(path)) is not None]


def _chain(view: SessionView, row: Row) -> Iterator[Finding]:
    error = view.legacy.error(row)
    if error is not None:
        reason = f"its state is lost ({error.message}); {nearest_readable(view, row)}"
        yield Finding(Problem.CHAIN, row.document.path, reason)
        return
    named = [row.snapshot.parent_id, row.chain.checkpoint_id if row.chain else None]
    for row_id in dict.fromkeys(each for each in named if each is not None):
        if row_id not in view.present and view.legacy.find(row.document.path._replace(id=row_id)) is None:
            reason = f"it goes on from {row_id!r}, which is missing; {nearest_readable(view, row)}"
            yield Finding(Problem.CHAIN, row.document.path, reason)


def _pointer(view: SessionView, document: Document) -> Iterator[Finding]:
    if view.rows:
        rows = ", ".join(repr(row_id) for row_id in sorted(view.rows)[:3])
        yield Finding(Problem.POINTER, document.path, f"Genkit has written it over ours, whose rows name it: {rows}")
    reader = FieldReader(str(document.path), document.fields)
    try:
        current_id = reader.find("currentSnapshotId", str)
        chain = _named_chain(reader)
    except DataLossError as error:
        yield Finding(Problem.DOCUMENT, document.path, error.reason)
        return
    current = view.legacy.rows.get(current_id or "")
    if current is not None:
        yield from _current(view, document, current, chain)
    elif current_id not in view.present and (current_id or view.legacy.rows) and not view.contents.is_partial:
        named = f"{current_id!r}, which is missing or another session's" if current_id else "none of its rows"
        yield Finding(Problem.POINTER, document.path, f"its latest row is {named}")
    elif current_id in view.rows:
        yield Finding(Problem.POINTER, document.path, f"its latest row is {current_id!r}, which is not Genkit's")


def _named_chain(reader: FieldReader) -> tuple[str | None, int | None, tuple[str, ...]]:
    checkpoint_id, count, path = POINTER_FIELDS
    return reader.find(checkpoint_id, str), reader.find(count, int), reader.texts(path)


def _current(view: SessionView, document: Document, current: Row, chain: object) -> Iterator[Finding]:
    """What the session document says of its latest row, and whether a turn finds what to continue from."""
    if chain != _named_chain(FieldReader(current.name, current.document.fields)):
        reason = f"what it says of the chain of {current.snapshot.snapshot_id!r} is not what the row says"
        yield Finding(Problem.POINTER, document.path, reason)
    row, seen = current, {current.snapshot.snapshot_id}
    while row.snapshot.status is not SnapshotStatus.COMPLETED and row.snapshot.parent_id is not None:
        parent = view.legacy.rows.get(row.snapshot.parent_id)
        if parent is None:
            reason = f"no completed row is found from its latest one: {row.snapshot.parent_id!r} cannot be read"
            yield Finding(Problem.POINTER, document.path, reason)
            return
        if parent.snapshot.snapshot_id in seen:
            reason = f"no completed row is found from its latest one: the parents of {row.name} go round in a circle"
            yield Finding(Problem.POINTER, document.path, reason)
            return
        seen.add(parent.snapshot.snapshot_id)
        row = parent
