"""What a check finds, as plain records."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from store.database import Kind, Path, Write


class Problem(StrEnum):
    """What can be wrong with stored documents."""

    DOCUMENT = "damaged-document"  # it cannot be read, or its content does not match its digest
    CHAIN = "damaged-chain"  # a row's state cannot be put together
    COPY = "wrong-copy"  # the session's base and tail are not the head's state
    POINTER = "wrong-pointer"  # the session's head or latest row is not what the rows say
    LEASE = "wrong-lease"  # a row runs that its session does not name, or the session names one that does not
    MISSING_SESSION = "missing-session"  # rows with a state, and no session document
    ORPHAN = "orphan"  # nothing refers to it
    DELETION = "unfinished-deletion"
    FORMAT = "unknown-format"  # written by a newer version; neither judged nor touched
    ID = "refused-id"  # an id that this store would not accept


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of one document. `repair` says what a repair does about it, None where nothing can or should be."""

    problem: Problem
    document: Path | str
    reason: str
    repair: str | None = None
    is_repaired: bool = False
    writes: tuple[Write, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        outcome = "" if self.repair is None else f" [{'repaired' if self.is_repaired else 'repair'}: {self.repair}]"
        return f"{self.problem.value}: {self.document}: {self.reason}{outcome}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a check has come: documents read so far, by kind."""

    kind: Kind
    documents: int


@dataclass(slots=True)
class Report:
    """What a check of everything came to. `legacy` counts documents that Genkit's own stores wrote."""

    findings: list[Finding] = field(default_factory=list)
    documents: Counter[Kind] = field(default_factory=Counter)
    sessions: int = 0
    legacy: int = 0

    @property
    def unrepaired(self) -> list[Finding]:
        """What is still wrong."""
        return [finding for finding in self.findings if not finding.is_repaired]
