"""The state of a conversation, immutable by type: canonical bytes with their digests. Pure.

Equality here is equality of bytes, never Python's `==`, for which `1 == True == 1.0`. Because messages are kept as
bytes with their own digest, a new turn hashes and compares what it adds, not what was there.
"""

from store.state.messages import Mark, Messages
from store.state.raw import DIGEST_BYTES, Raw
from store.state.state import EMPTY, MESSAGES, Piece, State

__all__ = ["DIGEST_BYTES", "EMPTY", "MESSAGES", "Mark", "Messages", "Piece", "Raw", "State"]
