"""The snapshot document: its fields, written and read. Knows nothing of when they may change."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from store.canonical import dump, parse_stored
from store.database import SERVER_TIME, Document
from store.layout.chain import Chain, Place, StoragePlan, pack_chain, unpack_chain, unpack_ids
from store.layout.codec import decode_checked, encode, seal, unseal
from store.layout.fields import FORMAT_VERSION, FieldReader, present
from store.models import Origin, Snapshot, SnapshotStatus

MAX_ERROR_BYTES = 16_384
CHAIN_FIELDS = ("kind", "chain", "stateDigest", "statePatch", "codec", "patchDigest")
PAYLOAD_FIELDS = ("statePatch", "request")
METADATA_FIELDS = (
    "formatVersion", "snapshotId", "sessionId", "parentId", "origin", "status", "finishReason", "error", "usage",
    "createdAt", "updatedAt", "heartbeatAt", "kind", "chain", "stateDigest", "patchDigest", "attempt",
    "settledBy", "savedBy", "runner", "abortRunner", "queuedUntil", "messageId", "messageText", "messageDigest",
    "retryOf", "model", "ownerId", "lastMessageId", "eventCount", "requestShards", "expiresAt", "firesessionExpireAt",
    "pruned", "checkpointId", "checkpointShardCount", "segmentPath",
)  # fmt: skip
"""Everything but the payloads: the mask of a metadata read."""


class RowKind(StrEnum):
    """How a row holds its state."""

    CHECKPOINT = "checkpoint"
    DIFF = "diff"


@dataclass(frozen=True, slots=True)
class Row:
    """A snapshot document, its state still where `chain` says (None: the row has no state)."""

    snapshot: Snapshot
    owner_id: str
    attempt: str
    update_time: datetime
    document: Document
    chain: Chain | None = None
    own_shards: tuple[str, ...] = ()  # the shards of the chain that were stored with this very row
    settled_by: str | None = None
    saved_by: str | None = None
    runner: str | None = None
    queued_until: datetime | None = None
    message_digest: bytes | None = None
    request_shards: tuple[str, ...] = ()
    expires_at: datetime | None = None
    is_legacy: bool = False
    is_pruned: bool = False  # it reads as missing; its document stays while a later row's state is built from it

    @property
    def name(self) -> str:
        """The document's name, as errors give it."""
        return str(self.document.path)

    @property
    def patch(self) -> bytes:
        """The text of a diff's patch; DataLossError where it is damaged. Needs a read with payloads."""
        return decode_checked(self.document.fields, "statePatch", "patchDigest", self.name)

    def as_snapshot(self, status: SnapshotStatus) -> Snapshot:
        """The record with the status that it reads as at a certain time."""
        return replace(self.snapshot, status=status)


def read_row(document: Document) -> Row:
    """The row in a snapshot document; DataLossError where its fields do not make one."""
    reader = FieldReader.of(document)
    if reader.text("snapshotId") != document.path.id:
        raise reader.damaged("it holds another snapshot's id")
    chain, own_shards = read_chain(reader)
    if reader.member("status", SnapshotStatus).is_terminal != ("settledBy" in reader.fields):
        raise reader.damaged("its status contradicts whether somebody has settled it")
    return Row(
        snapshot=read_snapshot(reader),
        owner_id=reader.text("ownerId"),
        attempt=reader.text("attempt"),
        update_time=document.update_time,
        document=document,
        chain=chain,
        own_shards=own_shards,
        settled_by=reader.find("settledBy", str),
        saved_by=reader.find("savedBy", str),
        runner=reader.find("runner", str),
        queued_until=reader.time("queuedUntil"),
        message_digest=reader.find("messageDigest", bytes),
        request_shards=unpack_ids(reader.document, reader.fields.get("requestShards", [])),
        expires_at=reader.time("expiresAt"),
        is_pruned=bool(reader.find("pruned", bool)),
    )


def read_snapshot(reader: FieldReader) -> Snapshot:
    """The record in a row's fields, its state left out."""
    return Snapshot(
        session_id=reader.text("sessionId"),
        snapshot_id=reader.text("snapshotId"),
        parent_id=reader.find("parentId", str),
        origin=reader.member("origin", Origin),
        status=reader.member("status", SnapshotStatus),
        finish_reason=reader.find("finishReason", str),
        error=read_error(reader),
        usage=reader.find("usage", dict),
        model=reader.find("model", str),
        created_at=reader.get("createdAt", datetime),
        updated_at=reader.get("updatedAt", datetime),
        heartbeat_at=reader.time("heartbeatAt"),
        message_id=reader.find("messageId", str),
        message_text=reader.find("messageText", str),
        last_message_id=reader.find("lastMessageId", str),
        event_count=reader.find("eventCount", int),
    )


def read_chain(reader: FieldReader) -> tuple[Chain | None, tuple[str, ...]]:
    """The chain of a row or of a session's head, None where it has no state; and the row's own shards."""
    if reader.find("kind", str) is None:
        return None, ()
    kind = reader.member("kind", RowKind)
    content, state_digest = reader.get("chain", bytes), reader.get("stateDigest", bytes)
    place = Place(reader.text("sessionId"), reader.text("snapshotId"), reader.find("parentId", str))
    chain, own_shards = unpack_chain(reader.document, place, content, state_digest)
    if (kind is RowKind.CHECKPOINT) != chain.is_checkpoint:
        raise reader.damaged("its kind contradicts its chain")
    return chain, own_shards


def chain_fields(snapshot: Snapshot, chain: Chain, own_shards: tuple[str, ...] = ()) -> dict[str, Any]:
    """The document fields of a snapshot's chain, patch excluded."""
    place = Place(snapshot.session_id, snapshot.snapshot_id, snapshot.parent_id)
    return {
        "kind": (RowKind.CHECKPOINT if chain.is_checkpoint else RowKind.DIFF).value,
        "chain": pack_chain(chain, place, own_shards),
        "stateDigest": chain.state_digest,
    }


def state_fields(snapshot: Snapshot, plan: StoragePlan) -> dict[str, Any]:
    """The document fields of a row's state."""
    fields = chain_fields(snapshot, plan.chain, tuple(plan.shards))
    if plan.patch is not None:
        fields |= {"statePatch": plan.patch.content, "codec": plan.patch.codec, "patchDigest": plan.patch.digest}
    return fields


def snapshot_fields(snapshot: Snapshot, owner_id: str, attempt: str) -> dict[str, Any]:
    """The document fields of a row, its state excluded. Times that are None become the database's own."""
    return present(
        formatVersion=FORMAT_VERSION,
        snapshotId=snapshot.snapshot_id,
        sessionId=snapshot.session_id,
        parentId=snapshot.parent_id,
        origin=snapshot.origin.value,
        status=snapshot.status.value,
        finishReason=snapshot.finish_reason,
        error=error_field(snapshot.error),
        usage=None if snapshot.usage is None else dict(snapshot.usage),
        model=snapshot.model,
        createdAt=snapshot.created_at or SERVER_TIME,
        updatedAt=snapshot.updated_at or SERVER_TIME,
        heartbeatAt=snapshot.heartbeat_at,
        messageId=snapshot.message_id,
        messageText=snapshot.message_text,
        lastMessageId=snapshot.last_message_id,
        eventCount=snapshot.event_count,
        ownerId=owner_id,
        attempt=attempt,
    )


def error_field(error: Any) -> bytes | None:
    """An error as stored: JSON bytes of 16 KiB at most, its details and then its message cut where it is longer."""
    if error is None:
        return None
    text = dump(dict(error))
    if len(text) > MAX_ERROR_BYTES:
        message = str(error.get("message", ""))[: MAX_ERROR_BYTES // 8]  # a character takes up to 6 bytes
        text = dump({"status": str(error.get("status", "UNKNOWN"))[:64], "message": message, "truncated": True})
    return seal(encode(text))


def read_error(reader: FieldReader) -> dict[str, Any] | None:
    """The error behind `error_field`."""
    content = reader.find("error", bytes)
    if content is None:
        return None
    try:
        value = parse_stored(unseal(content, reader.document))
    except ValueError as error:
        raise reader.damaged("its error is not JSON") from error
    if not isinstance(value, dict):
        raise reader.damaged("its error is not an object")
    return value
