"""A state out of Genkit's documents: the JSON text in a checkpoint's shards, with the patches of the diffs after it."""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import jsonpatch
import jsonpointer

from store.canonical import Json, parse
from store.database import Document, Path, Value
from store.errors import DataLossError, InvalidRequestError
from store.layout.chain import Chain
from store.legacy.rows import is_legacy
from store.state import State


def rebuild_legacy(
    row: str,
    chain: Chain,
    shards: Sequence[tuple[Path, Document | None]],
    segments: Sequence[tuple[Path, Document | None]],
) -> State:
    """The state that a checkpoint's shards and the segments up to the row itself make up; DataLossError naming the
    document that is missing or does not fit."""
    value = read_checkpoint(shards)
    for path, document in segments:
        value = apply_segment(path, document, chain, value)
    return state_of(row, value)


def read_checkpoint(shards: Sequence[tuple[Path, Document | None]]) -> Json:
    """The JSON value in a checkpoint's shards."""
    try:
        value = parse(b"".join(_chunk(path, document) for path, document in shards))
    except InvalidRequestError as problem:
        raise DataLossError(str(shards[0][0]), f"the checkpoint's text is not JSON: {problem.message}") from problem
    return {} if value is None else value  # the Go store's text of no state


def apply_segment(path: Path, document: Document | None, chain: Chain, value: Json) -> Json:
    """`value` with a diff's patch applied; changes `value` itself, which is of no use after a DataLossError."""
    return _patched(path, _segment(path, document, chain), value)


def state_of(row: str, value: Json) -> State:
    """A value as a state of ours."""
    try:
        return State.of(value)
    except InvalidRequestError as problem:
        raise DataLossError(row, f"its state cannot be kept: {problem.message}") from problem


def _chunk(path: Path, document: Document | None) -> bytes:
    if document is None:
        raise DataLossError(str(path), "the document is missing")
    chunk = document.fields.get("chunk")
    if not isinstance(chunk, bytes):
        raise DataLossError(str(path), "its chunk is not bytes")
    return chunk


def _segment(path: Path, document: Document | None, chain: Chain) -> Mapping[str, Value]:
    if document is None:
        raise DataLossError(str(path), "the document is missing")
    if not is_legacy(document) or document.fields.get("kind") != "diff":
        raise DataLossError(str(path), "it is not a diff")
    if document.fields.get("checkpointId") != chain.checkpoint_id:
        raise DataLossError(str(path), "it belongs to another checkpoint")
    return document.fields


def _patched(path: Path, fields: Mapping[str, Value], value: Json) -> Json:
    operations = _operations(path, fields.get("statePatch"))
    try:
        return jsonpatch.apply_patch(value, operations, in_place=True)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        KeyError,
        IndexError,
        TypeError,
        ValueError,
    ) as problem:
        raise DataLossError(str(path), f"its patch does not fit: {problem}") from problem


def _operations(path: Path, patch: Value) -> list[Json]:
    """A list (JavaScript), JSON text (Python) or JSON bytes (Go)."""
    try:
        # A copy, since what a patch has put into a state is changed in place by later ones.
        operations = parse(patch) if isinstance(patch, bytes | str) else deepcopy(patch)
    except InvalidRequestError as problem:
        raise DataLossError(str(path), f"its patch is not JSON: {problem.message}") from problem
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise DataLossError(str(path), "its patch is not a list of operations")
    return operations
