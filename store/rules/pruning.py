"""Which rows a chain of limited length lets go of. Pure."""

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from store.layout.rows import Row


class Pruning(NamedTuple):
    """Rows that shall read as missing, the oldest first: `hidden` ones keep their document, because the state of a kept
    row is built from it; `removed` ones go, with the `shards` that nobody needs any more."""

    hidden: tuple[Row, ...]
    removed: tuple[Row, ...]
    shards: frozenset[str]


def plan_pruning(rows: Mapping[str, Row], leaf_id: str, keep: int, held: Set[str | None]) -> Pruning:
    """What goes once the chain that ends at `leaf_id` is to have `keep` rows. `rows` are all of the session, `held` the
    ids that stay whatever their place: the head, the latest row, the active turn's and its parent."""
    beyond = {row.snapshot.snapshot_id for row in list(_line(rows, leaf_id))[keep:]} - held
    gone = beyond | {row_id for row_id, row in rows.items() if row.is_pruned and row_id not in held}
    kept = [row for row_id, row in rows.items() if row_id not in gone]
    needed_rows = {segment for row in kept if row.chain for segment in row.chain.segment_path}
    needed_shards = {shard for row in kept for shard in _shards(row)}
    removed = _oldest_first(rows[row_id] for row_id in gone - needed_rows)
    hidden = _oldest_first(rows[row_id] for row_id in beyond & needed_rows if not rows[row_id].is_pruned)
    return Pruning(hidden, removed, frozenset(shard for row in removed for shard in _shards(row)) - needed_shards)


def _line(rows: Mapping[str, Row], leaf_id: str) -> Iterator[Row]:
    """The row and its ancestors, the newest first. A row that names itself, or one before it twice, ends the line."""
    seen: set[str] = set()
    row_id: str | None = leaf_id
    while row_id is not None and row_id in rows and row_id not in seen:
        seen.add(row_id)
        yield rows[row_id]
        row_id = rows[row_id].snapshot.parent_id


def _shards(row: Row) -> tuple[str, ...]:
    return (*(row.chain.shards if row.chain else ()), *row.request_shards)


def _oldest_first(rows: Iterator[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: (row.snapshot.created_at, row.snapshot.snapshot_id)))
