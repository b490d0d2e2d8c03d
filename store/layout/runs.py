"""Runs: a state's text cut so that a later state that shares a stretch of it is cut the same way there.

A run ends behind a message. Which messages it may end behind is told by their own digests, not by counting from the
start; so after something was added, edited or dropped the cuts soon fall where they fell before, and the runs of the
rest are the same ones. Pure.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from store.state import DIGEST_BYTES, Mark, Messages, Piece, State

RUN_SIZE = 65_536  # bytes of raw text at most, but for what cannot be cut

_SHORTEST = 2  # a run is half of RUN_SIZE long at least; only the last one may be shorter
_FIT_TO_END = 4  # from there on, about one message in every quarter of RUN_SIZE may end it


class Run(NamedTuple):
    """A stored run: the shard that holds it, what tells its text from any other, and the bytes that it takes there."""

    shard_id: str
    key: bytes
    size: int


class Cut(NamedTuple):
    """A stretch of text that becomes a run: its key, and its pieces, made when they are asked for."""

    key: bytes
    texts: Iterable[bytes]


def run_key(texts: Iterable[bytes]) -> bytes:
    """What tells a run's text, given in pieces, from every other."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text)
    return digest.digest()[:DIGEST_BYTES]


def cut_state(state: State, run_size: int, shard_size: int) -> Iterator[Cut]:
    """The state's text as runs of up to `run_size` bytes. A message over that stands alone, cut where it is over
    `shard_size`. What was cut before at the beginning of the same transcript is remembered there, not cut again."""
    messages = state.messages or Messages()
    place = (run_size, shard_size, tuple(_members_before_messages(state)))
    marks = list(messages.marks.get(place, ()))
    start = 0
    for mark in marks:
        for number, key in enumerate(mark.keys):
            yield Cut(key, _texts_again(state, (start, mark.end), number, run_size, shard_size))
        start = mark.end
    keys: list[bytes] = []
    for pieces in cut_pieces(state.pieces(start), run_size, shard_size):
        texts = [text for piece in pieces for text in piece[:2]]
        keys.append(run_key(texts))
        yield Cut(keys[-1], texts)
        start += sum(piece.digest is not None for piece in pieces)
        # Where a run ends may be owed to the message behind it, which therefore has to be there.
        if pieces[-1].digest is not None and start < len(messages):
            marks.append(Mark(start, tuple(keys)))
            keys.clear()
    messages.marks = {place: tuple(marks)}


def _members_before_messages(state: State) -> Iterator[tuple[str, bytes]]:
    for name in state.order:
        if name not in state.members:
            return
        yield name, state.members[name].digest


def _texts_again(state: State, span: tuple[int, int], number: int, run_size: int, shard_size: int) -> Iterator[bytes]:
    """The text of one of the runs that the messages of `span` were cut into."""
    runs = cut_pieces(_pieces_between(state, *span), run_size, shard_size)
    for piece in next(islice(runs, number, None)):
        yield from piece[:2]


def _pieces_between(state: State, start: int, end: int) -> Iterator[Piece]:
    for piece in state.pieces(start):
        yield piece
        start += piece.digest is not None
        if start == end:
            return


def cut_pieces(pieces: Iterable[Piece], run_size: int, shard_size: int) -> Iterator[Sequence[Piece]]:
    """The pieces of each run; a piece over `run_size` alone, in pieces of up to `shard_size`."""
    run: list[Piece] = []
    size = 0
    for piece in pieces:
        length = len(piece.opening) + len(piece.text)
        if run and size + length > run_size:
            yield run
            run, size = [], 0
        if length > run_size:
            yield from ([part] for part in _slices(piece, shard_size))
            continue
        run.append(piece)
        size += length
        if piece.digest is not None and size * _SHORTEST >= run_size and _ends_run(piece.digest, length, run_size):
            yield run
            run, size = [], 0
    if run:
        yield run


def _ends_run(digest: bytes, length: int, run_size: int) -> bool:
    """By chance, but always the same for one message; the longer it is, the likelier."""
    return int.from_bytes(digest[:4], "big") * run_size < (length * _FIT_TO_END) << 32


def _slices(piece: Piece, size: int) -> Iterator[Piece]:
    """The piece in parts of up to `size` bytes; the last one has its digest."""
    opening, text, digest = piece
    head = size - len(opening)
    if head <= 0:
        opening, text, head = b"", opening + text, size
    starts = range(head, len(text), size)
    yield Piece(opening, text[:head], None if starts else digest)
    for start in starts:
        yield Piece(b"", text[start : start + size], digest if start == starts[-1] else None)
