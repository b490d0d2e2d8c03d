"""The snapshot document as Genkit's Go, JavaScript and Python stores write it: recognised, read, and ended.

The three share names and places and differ in how they write a time (text or timestamp), an error (map or JSON bytes)
and a patch (list, JSON text or JSON bytes). None of them writes an owner or a format version, which tells them from
ours; a document of ours that lost its version still has its owner, and is damaged.
"""

from datetime import UTC, datetime
from typing import Any

from store.canonical import Json, dump, parse
from store.database import Document, Kind, Value
from store.errors import InvalidRequestError
from store.ids import MAX_ID_BYTES, MAX_SESSION_ID_BYTES, require_id
from store.layout.chain import Chain
from store.layout.fields import FieldReader
from store.layout.rows import Row, RowKind
from store.models import FinishReason, Snapshot, SnapshotStatus
from store.rules.settle import LEASE_LOST

_MOST_SHARDS = 100_000


def is_legacy(document: Document) -> bool:
    """Whether Genkit wrote the document; ours carry both fields, and every mask of ours reads them."""
    return "formatVersion" not in document.fields and "ownerId" not in document.fields


def read_legacy_row(document: Document, owner_id: str) -> Row:
    """The row in a snapshot document, read on behalf of `owner_id`; DataLossError where its fields do not make one."""
    reader = FieldReader(str(document.path), document.fields)
    if reader.text("snapshotId") != document.path.id:
        raise reader.damaged("it holds another snapshot's id")
    snapshot = _read_snapshot(reader)
    return Row(
        snapshot=snapshot,
        owner_id=owner_id,
        attempt="",
        update_time=document.update_time,
        document=document,
        chain=_read_chain(reader) if snapshot.status.is_terminal else None,
        is_legacy=True,
    )


def _read_snapshot(reader: FieldReader) -> Snapshot:
    snapshot_id = reader.text("snapshotId")
    parent_id = reader.find("parentId", str) or None
    created_at = read_time(reader, "createdAt")
    if created_at is None:
        raise reader.damaged("createdAt is missing")
    return Snapshot(
        session_id=reader.find("sessionId", str) or "",
        snapshot_id=snapshot_id,
        parent_id=None if parent_id == snapshot_id else parent_id,  # what the JavaScript runtime does when detached
        status=reader.member("status", SnapshotStatus) if reader.fields.get("status") else SnapshotStatus.COMPLETED,
        finish_reason=reader.find("finishReason", str),
        error=_read_error(reader),
        created_at=created_at,
        updated_at=read_time(reader, "updatedAt") or created_at,
        heartbeat_at=read_time(reader, "heartbeatAt"),
    )


def read_time(reader: FieldReader, name: str) -> datetime | None:
    """A timestamp, or the text of one; without a zone it is UTC."""
    value = reader.fields.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise reader.damaged(f"{name} is no time") from None
    if not isinstance(value, datetime):
        raise reader.damaged(f"{name} is no time")
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)


def _read_error(reader: FieldReader) -> dict[str, Json] | None:
    value = reader.fields.get("error")
    if value is None:
        return None
    try:
        error = parse(value) if isinstance(value, bytes) else value
        dump(error)
    except InvalidRequestError as problem:
        raise reader.damaged(f"its error is not JSON: {problem.message}") from problem
    if error is not None and not isinstance(error, dict):
        raise reader.damaged("its error is not an object")
    return error


def _read_chain(reader: FieldReader) -> Chain:
    kind = reader.member("kind", RowKind)
    own, checkpoint_id, path = reader.text("snapshotId"), reader.text("checkpointId"), reader.texts("segmentPath")
    count = reader.get("checkpointShardCount", int)
    if not 1 <= count <= _MOST_SHARDS:
        raise reader.damaged(f"it has {count} shards")
    if (kind is RowKind.CHECKPOINT) == bool(path):
        raise reader.damaged("its kind contradicts its segment path")
    if own != (path[-1] if path else checkpoint_id):
        raise reader.damaged("its chain does not end with itself")
    shards = tuple(f"{checkpoint_id}_{index}" for index in range(count))
    return Chain(checkpoint_id, shards, path, state_digest=b"", checkpoint_bytes=0)


def own_shards(document: Document) -> list[str]:
    """The ids of a checkpoint's own shards; none for a diff."""
    count = document.fields.get("checkpointShardCount")
    if document.fields.get("kind") != RowKind.CHECKPOINT or not isinstance(count, int) or count > _MOST_SHARDS:
        return []
    return [f"{document.path.id}_{index}" for index in range(count)]


def end_fields(row: Row, status: SnapshotStatus) -> dict[str, Value]:
    """What settles a running row whose owner is gone, in the row's own dialect: its writer may yet read it."""
    fields: dict[str, Any] = {"status": status.value}
    if status is not SnapshotStatus.FAILED:
        return fields | {"finishReason": FinishReason.ABORTED.value}
    is_go = isinstance(row.document.fields.get("createdAt"), datetime)
    return fields | {"finishReason": FinishReason.FAILED.value, "error": dump(LEASE_LOST) if is_go else LEASE_LOST}


def refused_ids(document: Document) -> list[str]:
    """For a check of a whole collection: why ids in a document, its own first, are not taken by ours. Such a row or
    session of Genkit's can be read only where no refused id has to be asked for. Those of our sessions may be longer,
    since they end with their user."""
    own = document.path.id
    session = ["sessionId", *(["its name"] if document.path.kind is Kind.POINTERS else [])]
    longer = [] if is_legacy(document) else session
    ids = {"its name": own} | {name: value for name in _IDS if (value := document.fields.get(name)) != own}
    problems = []
    for name, value in ids.items():
        try:
            if isinstance(value, str) and (value or name == "its name"):
                require_id(value, name, MAX_SESSION_ID_BYTES if name in longer else MAX_ID_BYTES)
        except InvalidRequestError as problem:
            problems.append(problem.message)
    return problems


_IDS = ("snapshotId", "sessionId", "parentId", "checkpointId", "currentSnapshotId")
