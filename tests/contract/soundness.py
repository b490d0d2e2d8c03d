"""What must always hold of raw documents, as the conformance suite looks at it."""

from store.conformance.soundness import (
    complaints,
    documents_of,
    raw,
)

__all__ = [
    "complaints",
    "documents_of",
    "raw",
]
