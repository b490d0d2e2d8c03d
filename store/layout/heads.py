"""How a new head is stored: its own documents, and the session document's copy of its state."""

from dataclasses import dataclass
from typing import Any

from store.layout.chain import Ground, Shape, StoragePlan, plan_checkpoint, plan_storage
from store.layout.codec import QUICK, encode
from store.layout.records import copy_entry
from store.state import State

_TAIL_SIZE = 131_072  # bytes; with a base of the same size the session document stays far below a document's limit
_GAIN_OF_ONE_PIECE = 2  # how much smaller a text is, at most, that is compressed whole instead of run by run
_BEST_RATIO = 30  # text that compresses better than this is rare enough not to be tried for


@dataclass(frozen=True, slots=True)
class Footing:
    """What a new state is stored on: its parent, and what the session document's copy looks like meanwhile."""

    parent: Ground | None = None
    parent_is_head: bool = True
    tail_bytes: int = 0
    has_base: bool = False


@dataclass(frozen=True, slots=True)
class HeadPlan:
    """How a new head is stored: its own documents, and the changes to the session document's copy."""

    storage: StoragePlan
    fields: dict[str, Any]
    remove: tuple[str, ...]
    append: dict[str, list[Any]]


def plan_head(shape: Shape, snapshot_id: str, token: str, footing: Footing, state: State) -> HeadPlan:
    """A diff appends its patch to the tail; a checkpoint, or a head that does not continue the former one, writes a new
    base. Where neither fits, the row becomes a checkpoint, whose shards are then read instead."""
    storage = plan_storage(shape, snapshot_id, token, footing.parent, state)
    if storage.patch is not None and footing.parent_is_head:
        entry = copy_entry(snapshot_id, storage.patch)
        tail_bytes = footing.tail_bytes + len(entry)
        if tail_bytes <= _TAIL_SIZE:
            return HeadPlan(storage, {"tailBytes": tail_bytes, "hasBase": footing.has_base}, (), {"tail": [entry]})
    base = _plan_base(shape, snapshot_id, storage, state)
    if base is None and storage.patch is not None:
        storage = plan_checkpoint(shape, snapshot_id, token, footing.parent, state)
    fields = {"tail": [], "tailBytes": 0, "hasBase": base is not None}
    if base is None:
        return HeadPlan(storage, fields, ("base",), {})
    return HeadPlan(storage, fields | {"base": base}, (), {})


def _plan_base(shape: Shape, snapshot_id: str, storage: StoragePlan, state: State) -> bytes | None:
    if shape.base_size == 0 or state.size > shape.base_size * _BEST_RATIO:
        return None
    if storage.patch is None and storage.chain.checkpoint_bytes > shape.base_size * _GAIN_OF_ONE_PIECE:
        return None  # without the work of compressing what would be far too large
    entry = copy_entry(snapshot_id, encode(state.text, QUICK))
    return entry if len(entry) <= shape.base_size else None
