"""Checkpoints and diffs: which of the two a row becomes, and how its state is put together again.

A checkpoint's text is cut at message boundaries into runs, one shard document each. A diff names its checkpoint, that
checkpoint's shards, and the diffs in between (`segment_path`, up to and including itself), so that any row is rebuilt
from documents that its own row names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from store.canonical import dump, parse_stored
from store.errors import DataLossError
from store.layout.codec import Stored, encode
from store.layout.patches import PatchError, apply, diff
from store.state import State

RUN_SIZE = 65_536  # bytes of raw text


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
    """A settled state that a new one is stored against."""

    snapshot_id: str
    chain: Chain
    state: State


@dataclass(frozen=True, slots=True)
class Shape:
    """How states are laid out: diffs between checkpoints, bytes of a shard or diff at most, bytes of a base at most."""

    checkpoint_interval: int = 25
    shard_size: int = 524_288
    base_size: int = 131_072


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """What storing a state takes: `patch` on a diff, `shards` (id → bytes) on a checkpoint."""

    chain: Chain
    patch: Stored | None
    shards: dict[str, Stored]


def plan_storage(shape: Shape, snapshot_id: str, token: str, ground: Ground | None, state: State) -> StoragePlan:
    """A diff against `ground` where that is allowed and worth it, else a checkpoint. `token` makes the shards' ids
    unique among everybody who may try to write this row."""
    is_ground = ground is not None and not ground.chain.is_legacy
    if ground is not None and is_ground and len(ground.chain.segment_path) + 1 < shape.checkpoint_interval:
        patch = encode(dump(diff(ground.state, state), depth=-2))
        if len(patch.content) <= min(shape.shard_size, max(ground.chain.checkpoint_bytes, _WORTH_A_CHECKPOINT)):
            return _plan_diff(snapshot_id, ground.chain, state, patch)
    return _plan_checkpoint(shape, snapshot_id, token, state)


# A first checkpoint can be smaller than any turn; without a floor every second row would become one.
_WORTH_A_CHECKPOINT = 4096


def _plan_diff(snapshot_id: str, parent: Chain, state: State, patch: Stored) -> StoragePlan:
    path = (*parent.segment_path, snapshot_id)
    chain = Chain(parent.checkpoint_id, parent.shards, path, state.digest, parent.checkpoint_bytes)
    return StoragePlan(chain, patch, {})


def _plan_checkpoint(shape: Shape, snapshot_id: str, token: str, state: State) -> StoragePlan:
    shards = {
        f"{snapshot_id}_{token}_{index}": encode(run)
        for index, run in enumerate(cut_runs(state.parts(), min(RUN_SIZE, shape.shard_size), shape.shard_size))
    }
    size = sum(len(stored.content) for stored in shards.values())
    return StoragePlan(Chain(snapshot_id, tuple(shards), (), state.digest, size), None, shards)


def cut_runs(parts: Iterator[bytes], run_size: int, shard_size: int) -> Iterator[bytes]:
    """The parts joined into runs of up to `run_size` bytes; a larger part stands alone, cut where over `shard_size`."""
    run = bytearray()
    for part in parts:
        if run and len(run) + len(part) > run_size:
            yield bytes(run)
            run.clear()
        run += part
        while len(run) > shard_size:
            yield bytes(run[:shard_size])
            del run[:shard_size]
    if run:
        yield bytes(run)


def rebuild(row: str, chain: Chain, runs: Sequence[bytes], patches: Sequence[tuple[str, bytes]]) -> State:
    """The state of a checkpoint's runs with `patches` (document, text) applied; DataLossError naming the document that
    does not fit, or `row` where only the result does not."""
    state = read_state(row, b"".join(runs))
    for document, text in patches:
        state = patched(document, state, text)
    if state.digest != chain.state_digest:
        raise DataLossError(row, "its documents do not add up to its state digest")
    return state


def read_state(document: str, text: bytes) -> State:
    """The state whose text a document holds."""
    try:
        return State.parse(text)
    except ValueError as error:
        raise DataLossError(document, "its content is not the text of a state") from error


def patched(document: str, state: State, text: bytes) -> State:
    """`state` after the patch that `document` holds."""
    try:
        operations = parse_stored(text)
    except ValueError as error:
        raise DataLossError(document, "its patch is not JSON") from error
    if not isinstance(operations, list) or not all(_is_operation(operation) for operation in operations):
        raise DataLossError(document, "its patch is not a list of operations")
    try:
        return apply(state, operations)
    except PatchError as error:
        raise DataLossError(document, f"its patch does not fit: {error}") from error


def _is_operation(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("path"), str) and isinstance(value.get("op"), str)


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
