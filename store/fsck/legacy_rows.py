"""One session's rows of Genkit's, read as far as they can be, and which of their states can be put together. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from store.canonical import Json
from store.database import Document, Kind, Path
from store.documents.shelf import shard_path
from store.errors import DataLossError
from store.layout.chain import Chain
from store.layout.rows import Row
from store.legacy.rows import is_legacy, read_legacy_row
from store.legacy.states import apply_segment, read_checkpoint, state_of
from store.state import State

_Find: TypeAlias = Callable[[Path], Document | None]


class LegacyRows:
    """The rows among `documents`. `neighbours` are documents of the same tenant that their chains may name: shards,
    which name no session, and rows. `errors` has one entry per row that cannot be read."""

    def __init__(self, documents: Iterable[Document], neighbours: Mapping[Path, Document]) -> None:
        own = [document for document in documents if is_legacy(document)]
        self.documents = {document.path.id: document for document in own}
        self.errors: list[tuple[Path, DataLossError]] = []
        self.rows = {row.snapshot.snapshot_id: row for row in map(self._read, own) if row is not None}
        self._neighbours = neighbours
        self._verdicts = self._judge()

    def _read(self, document: Document) -> Row | None:
        try:
            return read_legacy_row(document, "")
        except DataLossError as error:
            self.errors.append((document.path, error))
            return None

    def _judge(self) -> dict[str, DataLossError | None]:
        """In an order in which a row comes right after the one that its state is made of."""
        verdicts: dict[str, DataLossError | None] = {}
        walk = _Walk(self.find)
        with_state = [(row.chain, row) for row in self.rows.values() if row.chain is not None]
        for chain, row in sorted(with_state, key=lambda each: (each[0].checkpoint_id, each[0].segment_path)):
            try:
                walk.state(row, chain)
                verdicts[row.snapshot.snapshot_id] = None
            except DataLossError as error:
                verdicts[row.snapshot.snapshot_id] = error
        return verdicts

    def find(self, path: Path) -> Document | None:
        """A document that a chain names."""
        own = self.documents.get(path.id) if path.kind is Kind.SNAPSHOTS else None
        return own or self._neighbours.get(path)

    def error(self, row: Row) -> DataLossError | None:
        """Why the row's state cannot be put together; None where it can, or where it has none."""
        return self._verdicts.get(row.snapshot.snapshot_id)

    def is_readable(self, row: Row) -> bool:
        """Whether the row has a state that can be put together."""
        return row.chain is not None and self.error(row) is None


def home_of(document: Document, neighbours: Mapping[Path, Document]) -> str | None:
    """The session of a row of Genkit's: the one that it names, else that of its state, else that of its parent."""
    seen: set[Path] = set()
    current: Document | None = document
    while current is not None and current.path not in seen:
        named = current.fields.get("sessionId") or _session_of_state(current, neighbours)
        if isinstance(named, str) and named:
            return named
        seen.add(current.path)
        current = neighbours.get(Path(Kind.SNAPSHOTS, document.path.tenant, str(current.fields.get("parentId"))))
    return None


def _session_of_state(document: Document, neighbours: Mapping[Path, Document]) -> Json:
    if not is_legacy(document):
        return None
    try:
        row = read_legacy_row(document, "")
        return row.chain and _Walk(neighbours.get).state(row, row.chain).get("sessionId")
    except DataLossError:
        return None


class _Walk:
    """Puts states together along a chain, and goes on from the last one where the next chain continues it."""

    def __init__(self, find: _Find) -> None:
        self._find = find
        self._shards: tuple[str, ...] = ()
        self._path: tuple[str, ...] = ()
        self._value: Json = None
        self._failure: DataLossError | None = None

    def state(self, row: Row, chain: Chain) -> State:
        """DataLossError naming the document that is missing or does not fit."""
        tenant = row.document.path.tenant
        if chain.shards != self._shards or chain.segment_path[: len(self._path)] != self._path:
            self._begin(chain, tenant)
        while self._failure is None and len(self._path) < len(chain.segment_path):
            self._step(chain, tenant)
        if self._failure is not None:
            raise self._failure
        return state_of(row.name, self._value)

    def _begin(self, chain: Chain, tenant: str) -> None:
        self._shards, self._path, self._failure = chain.shards, (), None
        paths = [shard_path(tenant, shard_id) for shard_id in chain.shards]
        try:
            self._value = read_checkpoint([(path, self._find(path)) for path in paths])
        except DataLossError as error:
            self._failure = error

    def _step(self, chain: Chain, tenant: str) -> None:
        self._path = chain.segment_path[: len(self._path) + 1]
        path = Path(Kind.SNAPSHOTS, tenant, self._path[-1])
        try:
            self._value = apply_segment(path, self._find(path), chain, self._value)
        except DataLossError as error:
            self._failure = error
