"""The session document: its fields, written and read.

Besides the session's metadata it holds the latest row's id, the head row's metadata and chain, the lease, and a copy of
the head's state as `base` (one state, compressed) and `tail` (the patches since). The copy is a cache: the chain is the
truth, and the head's state digest decides whether the copy may be used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from store.database import Document
from store.errors import DataLossError
from store.layout.chain import Chain, patched, read_state
from store.layout.codec import Stored, digest_of, seal, unseal
from store.layout.fields import FieldReader, present
from store.layout.rows import chain_fields, error_field, read_chain, read_snapshot
from store.layout.runs import Run
from store.models import Session, Snapshot
from store.state import DIGEST_BYTES, State

COPY_FIELDS = ("base", "tail")
METADATA_FIELDS = (
    "formatVersion", "id", "ownerId", "agent", "model", "title", "autoTitle", "temporary", "branchedFrom",
    "currentSnapshotId", "currentCreatedAt", "headSnapshotId", "head", "headUpdatedAt", "lastMessageId", "messageCount",
    "tailBytes", "hasBase", "activeSnapshotId", "activeMessageId", "activeMessageDigest", "claimedAt", "createdAt",
    "updatedAt", "latestCreatedAt", "bucket", "dueAt", "expiresAt", "firesessionExpireAt", "deleting",
)  # fmt: skip
"""Everything but the copy of the state: the mask of polls, lists and warm claims."""

_RUN_SIZE_BYTES = 4

NO_COPY: dict[str, Any] = {"hasBase": False, "tailBytes": 1_048_576}
"""What stands where a wrong copy was taken away, both of COPY_FIELDS: no patch can be added to a tail that long, so the
next head writes a new copy; until then the state is read from the chain."""

LEASE_FIELDS = ("activeSnapshotId", "activeMessageId", "activeMessageDigest", "claimedAt")


@dataclass(frozen=True, slots=True)
class Head:
    """The row that the conversation continues from, as the session document knows it."""

    snapshot: Snapshot
    chain: Chain
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A session document. `has_copy` is whether it was read with base and tail."""

    session: Session
    update_time: datetime
    document: Document
    current_snapshot_id: str | None
    latest_created_at: datetime | None
    head: Head | None
    active_message_id: str | None
    active_message_digest: bytes | None
    tail_bytes: int
    has_base: bool
    is_deleting: bool
    is_legacy: bool = False

    @property
    def name(self) -> str:
        """The document's name, as errors give it."""
        return str(self.document.path)

    def next_created_at(self, read_time: datetime) -> datetime:
        """When a row that is made now was created: after every other one, whatever the clocks."""
        if self.latest_created_at is None:
            return read_time
        return max(read_time, self.latest_created_at + timedelta(microseconds=1))


def read_record(document: Document) -> Record:
    """The session in a session document; DataLossError where its fields do not make one."""
    reader = FieldReader.of(document)
    if reader.text("id") != document.path.id:
        raise reader.damaged("it holds another session's id")
    return Record(
        session=_read_session(reader),
        update_time=document.update_time,
        document=document,
        current_snapshot_id=reader.find("currentSnapshotId", str),
        latest_created_at=reader.time("latestCreatedAt"),
        head=_read_head(reader),
        active_message_id=reader.find("activeMessageId", str),
        active_message_digest=reader.find("activeMessageDigest", bytes),
        tail_bytes=reader.find("tailBytes", int) or 0,
        has_base=bool(reader.find("hasBase", bool)),
        is_deleting=bool(reader.find("deleting", bool)),
    )


def _read_session(reader: FieldReader) -> Session:
    return Session(
        id=reader.text("id"),
        owner_id=reader.text("ownerId"),
        agent=reader.text("agent"),
        title=reader.find("title", str) or reader.find("autoTitle", str) or "",
        model=reader.find("model", str),
        created_at=reader.get("createdAt", datetime),
        updated_at=reader.get("updatedAt", datetime),
        temporary=bool(reader.find("temporary", bool)),
        expires_at=reader.time("expiresAt"),
        active_snapshot_id=reader.find("activeSnapshotId", str),
        head_snapshot_id=reader.find("headSnapshotId", str),
        last_message_id=reader.find("lastMessageId", str),
        message_count=reader.find("messageCount", int) or 0,
        branched_from=reader.find("branchedFrom", dict),
    )


def _read_head(reader: FieldReader) -> Head | None:
    snapshot_id = reader.find("headSnapshotId", str)
    if snapshot_id is None:
        return None
    beside = {
        "sessionId": reader.text("id"),
        "snapshotId": snapshot_id,
        "updatedAt": reader.get("headUpdatedAt", datetime),
        "lastMessageId": reader.find("lastMessageId", str),
    }
    head = FieldReader(reader.document, reader.get("head", dict) | beside)
    chain, _ = read_chain(head)
    if chain is None:
        raise reader.damaged("its head has no state")
    return Head(read_snapshot(head), chain, _read_runs(head, chain))


def head_field(snapshot: Snapshot, chain: Chain, runs: Sequence[Run] = ()) -> dict[str, Any]:
    """The map that keeps the head row's metadata; its id, update time and last message lie beside it."""
    return chain_fields(snapshot, chain) | present(
        runs=_pack_runs(runs),
        parentId=snapshot.parent_id,
        origin=snapshot.origin.value,
        status=snapshot.status.value,
        finishReason=snapshot.finish_reason,
        error=error_field(snapshot.error),
        usage=None if snapshot.usage is None else dict(snapshot.usage),
        model=snapshot.model,
        createdAt=snapshot.created_at,
        heartbeatAt=snapshot.heartbeat_at,
        messageId=snapshot.message_id,
        messageText=snapshot.message_text,
        eventCount=snapshot.event_count,
    )


def _pack_runs(runs: Sequence[Run]) -> bytes | None:
    """Keys and sizes of the chain's shards, so that the next checkpoint knows them without reading them."""
    if not runs:
        return None
    content = b"".join(run.key + run.size.to_bytes(_RUN_SIZE_BYTES, "big") for run in runs)
    return content + _check_of_runs(content, [run.shard_id for run in runs])


def _read_runs(head: FieldReader, chain: Chain) -> tuple[Run, ...]:
    content = head.find("runs", bytes)
    if content is None:
        return ()
    step = DIGEST_BYTES + _RUN_SIZE_BYTES
    content, check = content[: step * len(chain.shards)], content[step * len(chain.shards) :]
    if check != _check_of_runs(content, chain.shards):
        raise head.damaged("the keys of its runs are damaged or another chain's")
    entries = [content[at : at + step] for at in range(0, len(content), step)]
    return tuple(
        Run(shard_id, entry[:DIGEST_BYTES], int.from_bytes(entry[DIGEST_BYTES:], "big"))
        for shard_id, entry in zip(chain.shards, entries, strict=True)
    )


def _check_of_runs(content: bytes, shards: Sequence[str]) -> bytes:
    return digest_of(content + "\0".join(shards).encode())


def copy_entry(snapshot_id: str, stored: Stored) -> bytes:
    """A base or an element of the tail: whose state or patch it is, how it is encoded, and the bytes."""
    return snapshot_id.encode() + b"\0" + seal(stored)


def read_copy(record: Record) -> State | None:
    """The head's state out of base and tail; None where the document keeps no base. DataLossError where the two do
    not add up to the head's digest."""
    assert record.head is not None
    base = record.document.fields.get("base")
    if base is None:
        if record.has_base:
            raise DataLossError(record.name, "its base is missing")
        return None
    _, text = _open_entry(record.name, base)
    state = read_state(record.name, text)
    for _, patch in read_tail(record):
        state = patched(record.name, state, patch)
    if state.digest != record.head.chain.state_digest:
        raise DataLossError(record.name, "base and tail do not add up to the head's state digest")
    return state


def lacks_copy(record: Record) -> bool:
    """Whether neither base nor tail is there, so that only the chain tells the head's state. Needs them to be read."""
    return not record.has_base and not any(name in record.document.fields for name in COPY_FIELDS)


def read_tail(record: Record) -> list[tuple[str, bytes]]:
    """The tail's patches with the ids of their rows, oldest first."""
    tail = record.document.fields.get("tail", [])
    if not isinstance(tail, list):
        raise DataLossError(record.name, "its tail is not a list")
    entries = [_open_entry(record.name, entry) for entry in tail]
    if sum(map(len, tail)) != record.tail_bytes:
        raise DataLossError(record.name, "its tail is not as long as it says")
    return entries


def _open_entry(document: str, entry: object) -> tuple[str, bytes]:
    if not isinstance(entry, bytes) or b"\0" not in entry:
        raise DataLossError(document, "an entry of its base or tail names no snapshot")
    snapshot_id, _, sealed = entry.partition(b"\0")
    try:
        return snapshot_id.decode(), unseal(sealed, document)
    except UnicodeDecodeError as error:
        raise DataLossError(document, "an entry of its base or tail has a damaged id") from error
