"""A tenant's documents by session. Pure.

Ours name their session. Genkit's shards do not, and its rows need not: a shard is found by its row, and a row without
a session by its state, or by its parents.
"""

from collections.abc import Mapping

from store.database import Document, Kind, Path
from store.fsck.contents import SessionContents
from store.fsck.legacy_rows import home_of
from store.fsck.scan import TenantDocuments
from store.legacy.rows import is_legacy


def by_session(found: TenantDocuments) -> tuple[list[SessionContents], list[Document]]:
    """The sessions, and the rows of Genkit's that belong to none."""
    sessions: dict[str, SessionContents] = {}
    neighbours = _neighbours(found)
    homeless = []

    def of(session_id: str) -> SessionContents:
        return sessions.setdefault(
            session_id, SessionContents(found.tenant, session_id, found.time, neighbours=neighbours)
        )

    for document in found.documents[Kind.POINTERS]:
        of(document.path.id).record_document = document
    for kind in (Kind.SNAPSHOTS, Kind.SHARDS, Kind.STREAMS, Kind.BLOBS):
        for document in found.documents[kind]:
            session_id = _session_of(document, neighbours)
            if session_id:
                _place(of(session_id), kind).append(document)
            elif kind is Kind.SNAPSHOTS and is_legacy(document):
                homeless.append(document)
    return list(sessions.values()), homeless


def _neighbours(found: TenantDocuments) -> Mapping[Path, Document]:
    """What a row of Genkit's may refer to; empty where it wrote nothing."""
    rows, shards = found.documents[Kind.SNAPSHOTS], found.documents[Kind.SHARDS]
    if not any(is_legacy(document) for document in rows):
        return {}
    return {document.path: document for document in [*rows, *filter(is_legacy, shards)]}


def _session_of(document: Document, neighbours: Mapping[Path, Document]) -> str | None:
    if document.path.kind is Kind.SNAPSHOTS and is_legacy(document):
        return home_of(document, neighbours)
    session_id = document.fields.get("sessionId")
    return session_id if isinstance(session_id, str) else None


def _place(contents: SessionContents, kind: Kind) -> list[Document]:
    if kind is Kind.SNAPSHOTS:
        return contents.row_documents
    return contents.shard_documents if kind is Kind.SHARDS else contents.other_documents
