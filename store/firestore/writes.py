"""Writes as Firestore's messages, and what their results say. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from google.cloud.firestore_v1.types import BatchWriteRequest, CommitRequest, DocumentTransform

from store.database import SERVER_TIME, Committed, Create, Delete, Fields, Update, Write
from store.firestore.names import Names, field_path
from store.firestore.values import EPOCH, decode_time, encode, encode_array, encode_time

_REQUEST_TIME = DocumentTransform.FieldTransform.ServerValue.REQUEST_TIME


def commit_request(names: Names, writes: Sequence[Write]) -> CommitRequest:
    """All writes or none."""
    request = CommitRequest(database=names.database)
    _fill_all(CommitRequest.pb(request).writes, names, writes)
    return request


def batch_request(names: Names, writes: Sequence[Write]) -> BatchWriteRequest:
    """Each write for itself; a document may be named by one of them only."""
    request = BatchWriteRequest(database=names.database)
    _fill_all(BatchWriteRequest.pb(request).writes, names, writes)
    return request


def committed(writes: Sequence[Write], answer: Any) -> Committed:
    """The answer to `commit_request`."""
    times = tuple(_update_time(write, result) for write, result in zip(writes, answer.write_results, strict=True))
    return Committed(times, _server_time(answer))


def written_each(writes: Sequence[Write], answer: Any) -> list[datetime | None]:
    """The answer to `batch_request`: update times, None for a write that was refused, and the epoch for a delete that
    landed, which leaves nothing that could have an update time."""
    results = zip(writes, answer.write_results, answer.status, strict=True)
    return [None if status.code else _update_time(write, result) or EPOCH for write, result, status in results]


def _update_time(write: Write, result: Any) -> datetime | None:
    return None if isinstance(write, Delete) else decode_time(result.update_time)


def _server_time(answer: Any) -> datetime:
    """What SERVER_TIME became: the emulator rounds it to milliseconds, so the commit's own time is not it."""
    for result in answer.write_results:
        for transformed in result.transform_results:
            if transformed.WhichOneof("value_type") == "timestamp_value":
                return decode_time(transformed.timestamp_value)
    return decode_time(answer.commit_time)


def _fill_all(messages: Any, names: Names, writes: Iterable[Write]) -> None:
    for write in writes:
        _fill(messages.add(), names, write)


def _fill(message: Any, names: Names, write: Write) -> None:
    name = names.document(write.path)
    if isinstance(write, Delete):
        message.delete = name
        if write.update_time is not None:
            encode_time(write.update_time, message.current_document.update_time)
        return
    message.update.name = name
    _fill_fields(message, write.fields)
    if isinstance(write, Create):
        message.current_document.exists = False
    elif isinstance(write, Update):
        _fill_update(message, write)


def _fill_fields(message: Any, fields: Fields) -> None:
    for name, value in fields.items():
        if value is SERVER_TIME:
            message.update_transforms.add(field_path=field_path(name), set_to_server_value=_REQUEST_TIME)
        else:
            encode(value, message.update.fields[name])


def _fill_update(message: Any, write: Update) -> None:
    message.update_mask.SetInParent()  # without a mask, even an empty one, the write would replace the document
    kept = [name for name, value in write.fields.items() if value is not SERVER_TIME]
    # A field in the mask that has no value is removed.
    message.update_mask.field_paths.extend(field_path(name) for name in (*kept, *write.remove))
    for name, values in write.append.items():
        encode_array(values, message.update_transforms.add(field_path=field_path(name)).append_missing_elements)
    if write.update_time is None:
        message.current_document.exists = True
    else:
        encode_time(write.update_time, message.current_document.update_time)
