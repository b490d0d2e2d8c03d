"""Checkpoints and diffs: which of the two a row becomes, and how its state is put together again.

A checkpoint's text is cut into runs, one shard document each; runs that an earlier checkpoint stored are referred to,
not stored again. A diff names its checkpoint, that checkpoint's shards, and the diffs in between (`segment_path`, up to
and including itself), so that any row is rebuilt from documents that its own row names.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from store.canonical import dump, parse_stored
from store.errors import DataLossError
from store.layout.codec import CHECK_BYTES, Stored, digest_of, encode
from store.layout.packing import (
    Reader,
    pack_bytes,
    pack_number,
    pack_rows,
    pack_shards,
    shard_prefix,
    unpack_rows,
    unpack_shards,
)
from store.layout.patches import PatchError, apply, changed_bytes, diff
from store.layout.runs import RUN_SIZE, Run, cut_pieces, cut_state
from store.state import Piece, State


@dataclass(frozen=True, slots=True)
class Chain:
    """Where a row's state lies. `checkpoint_bytes` is what the checkpoint's shards take, compressed."""

    checkpoint_id: str
    shards: tuple[str, ...]
    segment_path: tuple[str, ...]
    state_digest: bytes
    checkpoint_bytes: int

    @property
    def is_checkpoint(self) -> bool:
        """Whether the row's state is its shards alone."""
        return not self.segment_path

    @property
    def is_legacy(self) -> bool:
        """Whether the documents are Genkit's, which know no digest and which nothing of ours is built on."""
        return not self.state_digest


@dataclass(frozen=True, slots=True)
class Ground:
    """A settled state that a new one is stored against. `runs` are those of its checkpoint; without them, which is
    always safe, the next checkpoint stores all of its own."""

    snapshot_id: str
    chain: Chain
    state: State
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """How states are laid out: diffs between checkpoints, bytes of a shard or diff at most, bytes of a base at most,
    and whether a checkpoint refers to the runs of the one before."""

    checkpoint_interval: int = 25
    shard_size: int = 524_288
    base_size: int = 131_072
    share_runs: bool = True


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """What storing a state takes: `patch` on a diff, `shards` (id → bytes) that a checkpoint adds to those that are
    there already."""

    chain: Chain
    patch: Stored | None
    shards: dict[str, Stored]
    runs: tuple[Run, ...] = ()

    def ground(self, state: State) -> Ground:
        """The state, once it is stored as planned, as the ground of the next one."""
        path = self.chain.segment_path
        return Ground(path[-1] if path else self.chain.checkpoint_id, self.chain, state, self.runs)


def plan_storage(shape: Shape, snapshot_id: str, token: str, ground: Ground | None, state: State) -> StoragePlan:
    """A diff against `ground` where that is allowed and worth it, else a checkpoint. `token` makes the shards' ids
    unique among everybody who may try to write this row."""
    if ground is not None and _may_be_diff(shape, ground, state):
        patch = encode(dump(diff(ground.state, state), depth=-2))
        if len(patch.content) <= min(shape.shard_size, max(ground.chain.checkpoint_bytes, _WORTH_A_CHECKPOINT)):
            return _plan_diff(snapshot_id, ground, state, patch)
    return plan_checkpoint(shape, snapshot_id, token, ground, state)


# A first checkpoint can be smaller than any turn; without a floor every second row would become one.
_WORTH_A_CHECKPOINT = 4096
_MOST_CHANGED = 16_777_216  # bytes of text; more would hardly fit into a document, and diffing takes many times as much


def _may_be_diff(shape: Shape, ground: Ground, state: State) -> bool:
    if ground.chain.is_legacy or len(ground.chain.segment_path) + 1 >= shape.checkpoint_interval:
        return False
    return state.size <= _MOST_CHANGED or changed_bytes(ground.state, state) <= _MOST_CHANGED


def _plan_diff(snapshot_id: str, ground: Ground, state: State, patch: Stored) -> StoragePlan:
    parent = ground.chain
    path = (*parent.segment_path, snapshot_id)
    chain = Chain(parent.checkpoint_id, parent.shards, path, state.digest, parent.checkpoint_bytes)
    return StoragePlan(chain, patch, {}, ground.runs)


def plan_checkpoint(shape: Shape, snapshot_id: str, token: str, ground: Ground | None, state: State) -> StoragePlan:
    """A checkpoint. It writes the runs that are not among `ground`'s, which lie in the same session."""
    known = {run.key: run for run in ground.runs} if ground is not None and shape.share_runs else {}
    prefix = shard_prefix(snapshot_id, token)
    runs: list[Run] = []
    shards: dict[str, Stored] = {}
    # Without sharing, large runs are better: they compress better.
    run_size = min(RUN_SIZE, shape.shard_size) if shape.share_runs else shape.shard_size
    for key, texts in cut_state(state, run_size, shape.shard_size):
        if key not in known:
            stored = encode(b"".join(texts))
            known[key] = Run(f"{prefix}_{len(shards)}", key, len(stored.content))
            shards[known[key].shard_id] = stored
        runs.append(known[key])
    ids = tuple(run.shard_id for run in runs)
    chain = Chain(snapshot_id, ids, (), state.digest, sum(run.size for run in runs))
    return StoragePlan(chain, None, shards, tuple(runs))


def cut_runs(parts: Iterator[bytes], run_size: int, shard_size: int) -> Iterator[bytes]:
    """The parts joined into runs of up to `run_size` bytes; a part over it stands alone, cut where it is over
    `shard_size`."""
    for pieces in cut_pieces(map(Piece, parts), run_size, shard_size):
        yield b"".join(piece.opening + piece.text for piece in pieces)


def rebuild(row: str, chain: Chain, runs: Iterable[bytes], patches: Sequence[tuple[str, bytes]]) -> State:
    """The state of a checkpoint's runs with `patches` (document, text) applied; DataLossError naming the document that
    does not fit, or `row` where only the result does not."""
    state = _read(row, runs)
    for document, text in patches:
        state = patched(document, state, text)
    if state.digest != chain.state_digest:
        raise DataLossError(row, "its documents do not add up to its state digest")
    return state


def read_state(document: str, text: bytes) -> State:
    """The state whose text a document holds."""
    return _read(document, (text,))


def _read(document: str, texts: Iterable[bytes]) -> State:
    try:
        return State.read(texts)
    except ValueError as error:
        raise DataLossError(document, "its content is not the text of a state") from error


def patched(document: str, state: State, text: bytes) -> State:
    """`state` after the patch that `document` holds."""
    try:
        operations = parse_stored(text)
    except (ValueError, RecursionError) as error:
        raise DataLossError(document, "its patch is not JSON") from error
    if not isinstance(operations, list) or not all(_is_operation(operation) for operation in operations):
        raise DataLossError(document, "its patch is not a list of operations")
    try:
        return apply(state, operations)
    except PatchError as error:
        raise DataLossError(document, f"its patch does not fit: {error}") from error


def _is_operation(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("path"), str) and isinstance(value.get("op"), str)


class Place(NamedTuple):
    """Whose chain it is."""

    session_id: str
    snapshot_id: str
    parent_id: str | None


def pack_chain(chain: Chain, place: Place, own_shards: tuple[str, ...] = ()) -> bytes:
    """The chain as bytes, but for the state digest, which lies beside it, and the row itself, which it ends with; and
    the shards that were stored with that very row. Holds for that row only."""
    before = (chain.checkpoint_id, *chain.segment_path)[:-1]
    ids = (pack_rows(before), pack_shards(chain.shards), pack_shards(own_shards))
    content = pack_number(chain.checkpoint_bytes) + b"".join(map(pack_bytes, ids))
    return content + _check(content, place, chain.state_digest)


def unpack_chain(document: str, place: Place, content: bytes, state_digest: bytes) -> tuple[Chain, tuple[str, ...]]:
    """The chain and the row's own shards; DataLossError naming `document`, also where they are of another place."""
    body, check = content[:-CHECK_BYTES], content[-CHECK_BYTES:]
    if check != _check(body, place, state_digest):
        raise DataLossError(document, "its chain is damaged or another snapshot's")
    try:
        reader = Reader(body)
        size, before = reader.number(), unpack_rows(reader.blob())
        shards, own_shards = unpack_shards(reader.blob()), unpack_shards(reader.blob())
        reader.end()
        if not shards:
            raise ValueError("no shards")
    except ValueError as error:
        raise DataLossError(document, f"its chain cannot be read: {error}") from error
    path = (*before, place.snapshot_id)
    return Chain(path[0], shards, path[1:], state_digest, size), own_shards


def _check(content: bytes, place: Place, state_digest: bytes) -> bytes:
    ids = (place.session_id, place.snapshot_id, place.parent_id or "")
    parts = (*(each.encode() for each in ids), state_digest, content)
    return digest_of(b"".join(map(pack_bytes, parts)))[:CHECK_BYTES]


def pack_ids(ids: Sequence[str]) -> list[str]:
    """Shard ids as ranges: `a_0`, `a_1`, `a_2` become `a_0-2`."""
    ranges: list[tuple[str, int, int]] = []
    for shard_id in ids:
        prefix, _, number = shard_id.rpartition("_")
        if ranges and ranges[-1][0] == prefix and ranges[-1][2] + 1 == int(number):
            ranges[-1] = (prefix, ranges[-1][1], int(number))
        else:
            ranges.append((prefix, int(number), int(number)))
    return [f"{prefix}_{first}-{last}" for prefix, first, last in ranges]


def unpack_ids(document: str, packed: object) -> tuple[str, ...]:
    """The ids behind `pack_ids`; DataLossError naming `document`."""
    if not isinstance(packed, list):
        raise DataLossError(document, "its shards are not a list")
    ids: list[str] = []
    for entry in packed:
        prefix, _, span = str(entry).rpartition("_")
        first, dash, last = span.partition("-")
        if not prefix or not dash or not first.isdecimal() or not last.isdecimal() or int(last) - int(first) > 100_000:
            raise DataLossError(document, f"{entry!r} names no shards")
        ids += [f"{prefix}_{number}" for number in range(int(first), int(last) + 1)]
    return tuple(ids)
