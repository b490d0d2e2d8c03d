"""Reading one session's documents again, so that they are of one moment: what looked wrong at first may have been
written in between."""

from collections.abc import Callable, Iterable, Sequence

from store.database import Condition, Database, Document, Kind, Path, Query
from store.documents.shelf import shard_path
from store.errors import DataLossError, InvalidRequestError
from store.fsck.contents import SessionContents
from store.ids import require_session_id
from store.legacy.rows import is_legacy, read_legacy_row

MOST_LOOKS = 5  # at a session that somebody writes all the time
_BATCH = 100


async def read_again(database: Database, contents: SessionContents) -> SessionContents:
    """The session's documents of one moment, or of a time in which its session document did not change."""
    if not _is_accepted(contents.session_id):
        return contents  # Genkit's; no document can be asked for by such an id
    path = Path(Kind.POINTERS, contents.tenant, contents.session_id)
    for _ in range(MOST_LOOKS):
        again, version = await _read(database, contents)
        if again.is_partial or _version((await database.get([path], mask=())).documents[path]) == version:
            break
    return again


def _is_accepted(document_id: object) -> bool:
    try:
        require_session_id(document_id, "Its id")
    except InvalidRequestError:
        return False
    return True


async def _read(database: Database, known: SessionContents) -> tuple[SessionContents, object]:
    tenant, session_id = known.tenant, known.session_id
    path = Path(Kind.POINTERS, tenant, session_id)
    damaged: list[DataLossError] = []
    try:
        read = await database.get([path])
    except DataLossError as error:
        damaged.append(error)
        read = await database.get([])
    document = read.documents.get(path)
    rows = await _of_session(database, Kind.SNAPSHOTS, known, damaged.append)
    rows += await _found(database, _without_session(known))
    shards = await _of_session(database, Kind.SHARDS, known, damaged.append)
    contents = SessionContents(tenant, session_id, read.time, document, rows, shards, is_partial=bool(damaged))
    contents.other_documents = known.other_documents
    contents.neighbours = {each.path: each for each in await _found(database, _needed(tenant, rows))}
    return contents, _version(document)


async def _of_session(
    database: Database, kind: Kind, known: SessionContents, on_damage: Callable[[DataLossError], None]
) -> list[Document]:
    where = (Condition("sessionId", "==", known.session_id),)
    return (await database.query(Query(kind, known.tenant, where, on_damage=on_damage))).documents


def _without_session(known: SessionContents) -> list[Path]:
    """The rows of Genkit's that no query by session finds."""
    return [document.path for document in known.row_documents if document.fields.get("sessionId") != known.session_id]


def _needed(tenant: str, rows: Sequence[Document]) -> list[Path]:
    """What rows of Genkit's refer to, besides each other."""
    paths = {path for row in rows if is_legacy(row) for path in _named(tenant, row)}
    return sorted(path for path in paths - {row.path for row in rows} if _is_accepted(path.id))


def _named(tenant: str, document: Document) -> Iterable[Path]:
    try:
        row = read_legacy_row(document, "")
    except DataLossError:
        return
    if row.snapshot.parent_id is not None:
        yield document.path._replace(id=row.snapshot.parent_id)
    if row.chain is not None:
        yield from (shard_path(tenant, shard_id) for shard_id in row.chain.shards)
        yield from (document.path._replace(id=row_id) for row_id in (row.chain.checkpoint_id, *row.chain.segment_path))


async def _found(database: Database, paths: Sequence[Path]) -> list[Document]:
    """Those of the documents that are there."""
    found: list[Document] = []
    for start in range(0, len(paths), _BATCH):
        read = await database.get(paths[start : start + _BATCH])
        found += [document for document in read.documents.values() if document is not None]
    return found


def _version(document: Document | None) -> object:
    return None if document is None else document.update_time
