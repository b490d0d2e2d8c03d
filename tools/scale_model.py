"""What a load asks of Firestore, what that costs, and what ends first: the arithmetic behind docs/scale.md. Pure.

What an operation asks for is held to what it is counted to ask for, in tests/integration/test_scale.py. Prices and
limits are parameters; the page says where they come from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log
from typing import Final

DAY: Final = 86_400  # seconds
MONTH: Final = 30  # days
GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests, documents read, written and deleted."""

    requests: float = 0
    reads: float = 0
    writes: float = 0
    deletes: float = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.requests + other.requests,
            self.reads + other.reads,
            self.writes + other.writes,
            self.deletes + other.deletes,
        )

    def __mul__(self, times: float) -> "Counts":
        return Counts(self.requests * times, self.reads * times, self.writes * times, self.deletes * times)


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars, for 100,000 documents each and for a GiB and month."""

    reads: float
    writes: float
    deletes: float
    storage: float

    def of(self, counts: Counts) -> float:
        """Dollars."""
        billed = counts.reads * self.reads + counts.writes * self.writes + counts.deletes * self.deletes
        return billed / 100_000


MULTI_REGION: Final = Prices(reads=0.06, writes=0.18, deletes=0.02, storage=0.18)  # nam5, eur3
REGION: Final = Prices(reads=0.03, writes=0.09, deletes=0.01, storage=0.15)  # us-central1

FIRST_TURN: Final = Counts(2, 0, 5)  # of a new session, with its checkpoint's run
TURN: Final = Counts(3, 1, 4)
CHECKPOINT: Final = Counts(0, 0, 1)  # its run, with every 25th turn
CHECKPOINT_INTERVAL: Final = 25
HEARTBEAT: Final = Counts(0, 0, 1)  # all of an instance's go in one request
HEARTBEAT_SECONDS: Final = 15
LOG: Final = Counts(0, 0, 1)  # the events of a turn of a second or more, or the rest of them, in the settle's commit
REQUEST: Final = Counts(2, 1, 2)  # by the instance of one who follows the turn: for its events, while it runs
REQUEST_HEARD: Final = Counts(0, 1)  # by the instance that runs it
REQUEST_DONE: Final = Counts(0, 0, 0, 1)  # in the settle's commit
SEGMENT: Final = Counts(1, 0, 2)  # of a followed turn: the segment, and the row whose version the commit names
SEGMENT_SECONDS: Final = 1
EXPIRED_SEGMENT: Final = Counts(0, 0, 0, 1)  # by the TTL policy
ABORT: Final = Counts(2, 1, 1)
ABORT_HEARD: Final = Counts(0, 1)  # what the listener of the turn's instance is told
REFUSAL: Final = Counts(2, 2)  # busy, stale, or the same send again
POLL: Final = Counts(1, 1)  # of an idle session, or its transcript while the session document holds it
POLL_DURING_TURN: Final = Counts(2, 2)
EMPTY_SWEEP: Final = Counts(18, 18)
DUE_CHANGES: Final = 1  # how often a turn moves its session in the index (bucket, dueAt)
DUE_BUCKETS: Final = 16
CALLED: Final = "call it each minute, with `limit` 10,000"

PEER: Final = "genkit-google-cloud 0.12"
PEER_FIRST_TURN: Final = Counts(8, 3, 3)
PEER_TURN: Final = Counts(9, 28, 2)  # after 300 turns
PEER_HEARTBEAT: Final = Counts(7, 54, 2)


def listing(sessions: int) -> Counts:
    """A page with so many sessions."""
    return Counts(1, max(1, sessions))


def cap_check(sessions: int) -> Counts:
    """After a session was made by a user who has so many: the tenant's rules, and the user's sessions."""
    return Counts(2, 1 + max(1, sessions))


def look(sessions: int) -> Counts:
    """A sweep's at one due session that stays, of a user who has so many; it is put off."""
    return Counts(1, 1 + sessions, 1)


def deletion(rows: int, shards: int) -> Counts:
    """Of a session: marked, then document by document, whose batches ask for the session, its own last."""
    return Counts(13, rows + shards + 7, 1, rows + shards + 1)


def following(segments: int) -> Counts:
    """At most, for a reader of a turn that another instance runs, or has run."""
    return Counts(5, 6 + 3 * segments)


def segments_of(seconds: float) -> int:
    """How many a turn stores before its end, where it is followed from its beginning."""
    return int(seconds / SEGMENT_SECONDS)


def log_cost(seconds: float) -> Counts:
    """Of any turn; nothing where it is over within the first second."""
    return LOG + EXPIRED_SEGMENT if segments_of(seconds) else Counts()


def followed_cost(seconds: float) -> Counts:
    """What a follower on another instance makes a turn cost besides, with what the follower reads."""
    count = segments_of(seconds)
    if not count:
        return Counts()
    asked = REQUEST + REQUEST_HEARD + REQUEST_DONE
    return asked + (SEGMENT + EXPIRED_SEGMENT) * count + following(count + 1)


def beats_cost(seconds: float, beat: Counts = HEARTBEAT) -> Counts:
    """Of one turn."""
    return beat * int(seconds / HEARTBEAT_SECONDS)


@dataclass(frozen=True, slots=True)
class Stored:
    """One document: its bytes, its index entries, and the bytes of those, by Firestore's rules for storage size."""

    size: int
    entries: int
    entries_size: int

    @property
    def total(self) -> int:
        """Bytes that are paid for."""
        return self.size + self.entries_size


STORED: Final[Mapping[str, Stored]] = {  # in a session of 8 turns of 2 KiB of prose
    "row": Stored(1_997, 4, 893),
    "shard": Stored(1_292, 2, 412),
    "session": Stored(10_145, 4, 830),
    "log": Stored(747, 4, 900),
}
TURNS_STORED: Final = 8
WITHOUT_EXEMPTIONS: Final[Mapping[str, tuple[int, int]]] = {"row": (56, 12_354), "session": (79, 27_175)}
"""Entries, and their bytes, where every field is indexed, as Firestore does by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A day's work. Every user is there every day."""

    users: int = 1_000_000
    sessions_per_user: float = 1  # new ones
    turns_per_session: int = TURNS_STORED
    seconds_per_turn: float = 12
    has_segments: bool = True  # STREAM_SEGMENTS=firestore
    lists_per_user: float = 2
    listed: int = 20
    polls_per_user: float = 10  # transcripts included
    aborted: float = 0.02  # of the turns
    followed: float = 0.02  # of the turns, from another instance
    kept: int = 30  # sessions of a user: RETENTION_MAX_COUNT_PER_USER
    peak: float = 3  # times the day's average
    turns_per_instance: int = 80

    @property
    def sessions(self) -> float:
        """New ones a day."""
        return self.users * self.sessions_per_user

    @property
    def turns(self) -> float:
        """A day."""
        return self.sessions * self.turns_per_session

    @property
    def turns_per_second(self) -> float:
        """At the peak."""
        return self.turns / DAY * self.peak

    @property
    def running(self) -> float:
        """Turns at once, at the peak."""
        return self.turns_per_second * self.seconds_per_turn

    @property
    def instances(self) -> int:
        """At the peak; each has one Listen stream."""
        return ceil(self.running / self.turns_per_instance)

    @property
    def stored(self) -> float:
        """Bytes, once users have as many sessions as are kept; logs live for an hour, of an average day."""
        session = STORED["session"].total + STORED["shard"].total + self.turns_per_session * STORED["row"].total
        logs = self.turns / 24 * STORED["log"].total if self.has_segments else 0
        return self.users * self.kept * session + logs


def day(load: Load) -> dict[str, Counts]:
    """What a day asks for, by purpose."""
    checkpoints = load.sessions * ((load.turns_per_session - 1) // CHECKPOINT_INTERVAL)
    log = log_cost(load.seconds_per_turn) if load.has_segments else Counts()
    followed = followed_cost(load.seconds_per_turn) if load.has_segments else following(0)
    first = FIRST_TURN * load.sessions + CHECKPOINT * checkpoints
    return {
        "turns": first + TURN * (load.turns - load.sessions),
        "heartbeats": beats_cost(load.seconds_per_turn) * load.turns,
        "events, with the turns' ends": log * load.turns,
        "turns that are followed from elsewhere": followed * (load.turns * load.followed),
        "aborts": (ABORT + ABORT_HEARD) * (load.turns * load.aborted),
        "lists and polls": (listing(load.listed) * load.lists_per_user + POLL * load.polls_per_user) * load.users,
        "the cap, where a session is made": cap_check(load.kept) * load.sessions,
        "the sweep's looks": (look(load.kept) + Counts(0, 1)) * load.sessions,
        "deletions": deletion(load.turns_per_session, 1) * load.sessions,
    }


def total(counts: Mapping[str, Counts]) -> Counts:
    """Of all purposes."""
    return sum(counts.values(), Counts())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of the platform and of the defaults."""

    index_writes: float = 500  # a second, of one range of an index whose values only grow
    document_writes: float = 1  # a second, sustained
    instances: int = 100  # of a Cloud Run service, unless raised
    sweeps_per_day: float = 24
    swept: int = 500  # documents that one sweep deletes
    most_swept: int = 10_000
    looks_per_swept: int = 20
    request_seconds: float = 0.005
    first_writes: float = 500  # a second, of a new collection; half as many more every five minutes


@dataclass(frozen=True, slots=True)
class End:
    """A limit, the daily users with whom it is reached, and what moves it; nothing does where that is empty."""

    what: str
    users: float
    then: str


def ends(load: Load, limits: Limits) -> list[End]:
    """What ends, the first thing first."""
    gone = deletion(load.turns_per_session, 1)
    swept = limits.sweeps_per_day * limits.swept
    minutely = DAY / 60 * limits.most_swept
    one_by_one = DAY / ((gone + look(load.kept)).requests * limits.request_seconds)
    peak = load.turns / load.users / DAY * load.peak  # turns a second of one daily user
    at_once = limits.instances * load.turns_per_instance / load.seconds_per_turn
    due = DUE_BUCKETS * limits.index_writes / DUE_CHANGES
    by_sessions = {  # reached with so many new sessions a day
        ("deletions by the sweep, as it is called by default", CALLED): swept / gone.deletes,
        ("looks of the sweep, as it is called by default", CALLED): swept * limits.looks_per_swept,
        ("deletions by the sweep, each minute, with its highest `limit`", ""): minutely / gone.deletes,
        ("the sweep's requests, which go out one after another", ""): one_by_one,
    }
    found = [
        *((what, sessions / load.sessions_per_user, then) for (what, then), sessions in by_sessions.items()),
        ("the instances that a service has by default", at_once / peak, "raise `--max-instances`"),
        ("the index (`bucket`, `dueAt`), a range for each bucket", due / peak, "more buckets"),
    ]
    return sorted((End(*each) for each in found), key=lambda end: end.users)


def ramp_minutes(load: Load, limits: Limits) -> float:
    """How long a new database takes to be led up to the peak's writes without running hot."""
    needed = total(day(load)).writes / DAY * load.peak
    return max(0.0, 5 * log(needed / limits.first_writes, 1.5))
