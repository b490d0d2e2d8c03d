"""Counts what the database was asked, so that tests and benchmarks can hold an operation to its cost."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tally:
    """RPCs by name, documents read and written and the bytes of both, up to one moment or between two.

    A missing document counts as one read and so does a query without a result, as they are billed. Only writes that
    landed count. Bytes are those of the messages that carry the documents; what a watch delivers is not among them.
    """

    rpcs: Mapping[str, int] = field(default_factory=dict)
    read: int = 0
    written: int = 0
    bytes_read: int = field(default=0, compare=False)  # counts are promised, sizes are not
    bytes_written: int = field(default=0, compare=False)

    @property
    def sent(self) -> int:
        """How many RPCs of all names."""
        return sum(self.rpcs.values())

    def __sub__(self, earlier: "Tally") -> "Tally":
        rpcs = {name: count - earlier.rpcs.get(name, 0) for name, count in self.rpcs.items()}
        changed = {name: count for name, count in rpcs.items() if count}
        return Tally(
            changed,
            self.read - earlier.read,
            self.written - earlier.written,
            self.bytes_read - earlier.bytes_read,
            self.bytes_written - earlier.bytes_written,
        )


_of_this_task: ContextVar["Calls | None"] = ContextVar("firesession_calls", default=None)


@contextmanager
def counting() -> Iterator["Calls"]:
    """Counts what is asked inside, by this task and those that it starts, besides what each database counts."""
    calls = Calls()
    former = _of_this_task.set(calls)
    try:
        yield calls
    finally:
        _of_this_task.reset(former)


class Calls:
    """A running count; one may be shared by several databases of one process."""

    def __init__(self) -> None:
        self._rpcs: Counter[str] = Counter()
        self._read = 0
        self._written = 0
        self._bytes_read = 0
        self._bytes_written = 0

    def count(
        self,
        rpc: str | None = None,
        *,
        read: int = 0,
        written: int = 0,
        bytes_read: int = 0,
        bytes_written: int = 0,
    ) -> None:
        """Adds one RPC, when it is sent, or what an answer brought."""
        if rpc is not None:
            self._rpcs[rpc] += 1
        self._read += read
        self._written += written
        self._bytes_read += bytes_read
        self._bytes_written += bytes_written
        own = _of_this_task.get()
        if own is not None and own is not self:
            own.count(rpc, read=read, written=written, bytes_read=bytes_read, bytes_written=bytes_written)

    def snapshot(self) -> Tally:
        """The count so far."""
        return Tally(dict(self._rpcs), self._read, self._written, self._bytes_read, self._bytes_written)

    def since(self, earlier: Tally) -> Tally:
        """What was added after `earlier` was taken."""
        return self.snapshot() - earlier
