"""Requests that read, and what their answers say. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from google.cloud.firestore_v1.types import BatchGetDocumentsRequest, ListenRequest, RunQueryRequest

from store.database import Document, Found, Path, Query, Read
from store.errors import DataLossError
from store.firestore.names import NAME_FIELD, Names, field_path
from store.firestore.queries import fill_query, parent_of
from store.firestore.values import decode_document, decode_time, encode_time


def get_request(
    names: Names, documents: Iterable[str], mask: Sequence[str] | None, at: datetime | None
) -> BatchGetDocumentsRequest:
    """Asks for documents by resource name."""
    request = BatchGetDocumentsRequest(database=names.database)
    message = BatchGetDocumentsRequest.pb(request)
    message.documents.extend(documents)
    if mask is not None:
        message.mask.SetInParent()  # an empty mask asks for no fields, a missing one for all
        message.mask.field_paths.extend(field_path(name) for name in mask)
    if at is not None:
        encode_time(at, message.read_time)
    return request


def read_documents(documents: Mapping[str, Path], answers: Sequence[Any]) -> Read:
    """The answers to `get_request`; `documents` maps the resource names that were asked for to their paths."""
    found: dict[Path, Document | None] = dict.fromkeys(documents.values())
    for answer in answers:
        if answer.WhichOneof("result") == "found":
            path = documents[answer.found.name]
            found[path] = decode_document(path, answer.found)
    # Later answers may carry later times; the earlier documents did not change in between, so the last time is of all.
    return Read(found, max(decode_time(answer.read_time) for answer in answers))


def query_request(names: Names, query: Query, *, skip: int = 0, at: datetime | None = None) -> RunQueryRequest:
    """Asks for the query's documents, without the first `skip`."""
    request = RunQueryRequest(parent=parent_of(names, query))
    message = RunQueryRequest.pb(request)
    fill_query(message.structured_query, names, query)
    message.structured_query.offset = skip
    if query.mask is not None:
        fields = [field_path(name) for name in query.mask] or [NAME_FIELD]  # no fields at all would mean every field
        for path in fields:
            message.structured_query.select.fields.add(field_path=path)
    if at is not None:
        encode_time(at, message.read_time)
    return request


def found_documents(names: Names, query: Query, answers: Sequence[Any]) -> Found:
    """The answers to `query`'s requests; documents that are not ours are left out."""
    documents = []
    for answer in answers:
        if answer.HasField("document"):
            path = names.parse(answer.document.name)
            if path is not None:
                documents += _decoded(path, answer.document, query)
    return Found(documents, max(decode_time(answer.read_time) for answer in answers if answer.HasField("read_time")))


def _decoded(path: Path, message: Any, query: Query) -> list[Document]:
    try:
        return [decode_document(path, message)]
    except DataLossError as error:
        if query.on_damage is None:
            raise
        query.on_damage(error)
        return []


def count_documents(answers: Sequence[Any]) -> int:
    """How many documents the answers to `query_request` hold, ours or not."""
    return sum(answer.HasField("document") for answer in answers)


def add_target(names: Names, target: Path | Query, target_id: int) -> ListenRequest:
    """Starts watching on a Listen stream. A watch takes no mask."""
    request = ListenRequest(database=names.database)
    message = ListenRequest.pb(request).add_target
    message.target_id = target_id
    if isinstance(target, Path):
        message.documents.documents.append(names.document(target))
    else:
        message.query.parent = parent_of(names, target)
        fill_query(message.query.structured_query, names, target)
    return request


def remove_target(names: Names, target_id: int) -> ListenRequest:
    """Stops watching on a Listen stream."""
    return ListenRequest(database=names.database, remove_target=target_id)
