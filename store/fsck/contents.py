"""One session's documents, read as far as they can be, and the states that they add up to. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from store.database import Document, Path
from store.documents.loading import read_run
from store.documents.shelf import shard_path
from store.errors import DataLossError
from store.fsck.legacy_rows import LegacyRows
from store.layout.chain import Chain, patched, read_state
from store.layout.fields import FORMAT_VERSION
from store.layout.records import COPY_FIELDS, Record, read_copy, read_record, read_tail
from store.layout.rows import Row, read_row
from store.legacy.rows import is_legacy
from store.state import State


@dataclass(slots=True)
class SessionContents:
    """The documents that carry one session's id. `record_document` is None where there is no session document;
    `is_partial` is whether there are damaged ones of which it is not known whose they are."""

    tenant: str
    session_id: str
    time: datetime
    record_document: Document | None = None
    row_documents: list[Document] = field(default_factory=list)
    shard_documents: list[Document] = field(default_factory=list)
    other_documents: list[Document] = field(default_factory=list)  # segments and objects
    neighbours: Mapping[Path, Document] = field(default_factory=dict)  # others that rows of Genkit's may refer to
    is_partial: bool = False


def is_foreign(document: Document) -> bool:
    """Whether another version of ours wrote the document."""
    version = document.fields.get("formatVersion")
    return version is not None and version != FORMAT_VERSION


class SessionView:
    """What can be read of a session. `errors` has one entry per document that cannot; `is_blind` is whether there are
    rows that cannot be judged, so that nothing may be concluded from what no other row says."""

    def __init__(self, contents: SessionContents) -> None:
        self.contents = contents
        self.errors: list[tuple[Path, DataLossError]] = []
        self.record = self._record(contents.record_document)
        self.rows = {row.snapshot.snapshot_id: row for row in self._rows(contents.row_documents)}
        self.legacy = LegacyRows(contents.row_documents, contents.neighbours)
        self.present = {document.path.id for document in contents.row_documents}
        ours = sum(not is_legacy(document) for document in contents.row_documents)
        self.is_blind = contents.is_partial or len(self.rows) < ours
        self._runs = {document.path: document for document in contents.shard_documents}
        self._states: dict[tuple[tuple[str, ...], tuple[str, ...]], State | DataLossError] = {}

    def _record(self, document: Document | None) -> Record | None:
        if document is None or is_foreign(document) or is_legacy(document):
            return None
        try:
            return read_record(document)
        except DataLossError as error:
            self.errors.append((document.path, error))
            return None

    def _rows(self, documents: Iterable[Document]) -> Iterable[Row]:
        for document in documents:
            if is_foreign(document) or is_legacy(document):
                continue
            try:
                yield read_row(document)
            except DataLossError as error:
                self.errors.append((document.path, error))

    def newest(self, rows: Iterable[Row]) -> Row | None:
        """The most recently created of `rows`, ties by id."""
        return max(rows, key=lambda row: (row.snapshot.created_at, row.snapshot.snapshot_id), default=None)

    def state(self, row: Row) -> State | None:
        """The row's state, None where it has none; DataLossError naming the document that does not fit."""
        if row.chain is None:
            return None
        state = self._state(row.chain)
        if state.digest != row.chain.state_digest:
            raise DataLossError(row.name, "its documents do not add up to its state digest")
        return state

    def find_row(self, snapshot_id: str) -> Row | None:
        """One of the session's rows, ours or Genkit's."""
        return self.rows.get(snapshot_id) or self.legacy.rows.get(snapshot_id)

    def is_readable(self, row: Row) -> bool:
        """Whether the row has a state that can be put together."""
        if row.is_legacy:
            return self.legacy.is_readable(row)
        try:
            return self.state(row) is not None
        except DataLossError:
            return False

    def _state(self, chain: Chain) -> State:
        """Goes on from the longest part of the segment whose state is known already."""
        path, known = chain.segment_path, len(chain.segment_path)
        while known > 0 and (chain.shards, path[:known]) not in self._states:
            known -= 1
        for end in range(known, len(path) + 1):
            key = (chain.shards, path[:end])
            if key not in self._states:
                self._states[key] = self._step(chain.shards, path[:end])
            if isinstance(failure := self._states[key], DataLossError):
                raise failure
        state = self._states[(chain.shards, path)]
        assert isinstance(state, State)  # a failure was raised on the way
        return state

    def _step(self, shards: tuple[str, ...], path: tuple[str, ...]) -> State | DataLossError:
        try:
            if not path:
                return read_state(f"{self.contents.tenant}: {shards[0]}", b"".join(map(self._run, shards)))
            before = self._states[(shards, path[:-1])]
            if isinstance(before, DataLossError):
                return before
            row = self.rows.get(path[-1])
            if row is None:
                raise DataLossError(path[-1], f"the row is {'damaged' if path[-1] in self.present else 'missing'}")
            return patched(row.name, before, row.patch)
        except DataLossError as error:
            return error

    def _run(self, shard_id: str) -> bytes:
        path = shard_path(self.contents.tenant, shard_id)
        if path not in self._runs:
            raise DataLossError(str(path), "the document is missing")
        return read_run(self._runs[path])

    def copied_state(self, record: Record) -> State | None:
        """The head's state out of base and tail; None where the session keeps no copy. DataLossError where it is not
        the head's."""
        assert record.head is not None
        state = read_copy(record)
        chain = record.head.chain
        if state is not None or not any(name in record.document.fields for name in COPY_FIELDS):
            return state
        if chain.is_checkpoint and not read_tail(record):
            return None  # a checkpoint too large for a base: the shards are the only copy
        state = self._state(Chain(chain.checkpoint_id, chain.shards, (), b"", 0))
        for _, patch in read_tail(record):
            state = patched(record.name, state, patch)
        if state.digest != chain.state_digest:
            raise DataLossError(record.name, "its tail does not add up to the head's state digest")
        return state
