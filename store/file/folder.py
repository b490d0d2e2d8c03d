"""The store's folder: the lock, the clock, and commits of files that are there whole or not at all. Synchronous.

    .lock       held by one process at a time, for a read as for a commit
    .clock      the time of the last commit, written before it
    .journal    a commit of several files that is decided, but perhaps not carried out yet
    .versions   what commits of the last minute replaced, for reads of an earlier moment

A commit of one file is decided by the rename of that file, one of several files by the rename of the journal. Whoever
takes the lock first carries out a journal that was left behind. Knows files only, nothing of documents.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from filelock import FileLock, Timeout

from store.errors import InvalidRequestError, UnavailableError
from store.file.envelope import format_time, parse_time
from store.file.journal import Change, Entry, decode_entry, encode_entry

LOCK_SECONDS = 4.0
VERSIONS_KEPT = timedelta(seconds=60)

_JOURNAL, _CLOCK, _VERSIONS = ".journal", ".clock", ".versions"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = datetime.min.replace(tzinfo=UTC)
_PRUNE_SECONDS = 10.0


def no_step(_: str) -> None:
    """Stands where a test puts its fault: called before each step of a commit, with the step's name."""


class Folder:
    """One folder of files. Everything but `locked` needs the lock, and is called by one thread."""

    def __init__(self, root: Path, *, before_step: Callable[[str], None] = no_step) -> None:
        self._root = root
        self._before_step = before_step
        self._lock: FileLock | None = None
        self._pruned_at = float("-inf")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the folder's lock, the folder being whole: UnavailableError when it is not free within 4 seconds."""
        if self._lock is None:
            self._lock = self._prepared()
        try:
            self._lock.acquire()
        except Timeout as error:
            raise UnavailableError(f"Another process holds the lock of {self._root}.") from error
        try:
            self._recover()
            yield
        finally:
            self._lock.release()

    def _prepared(self) -> FileLock:
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._root / _VERSIONS).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidRequestError(f"{self._root} is not a folder that can be written to: {error}.") from error
        if not os.access(self._root, os.R_OK | os.W_OK | os.X_OK):
            raise InvalidRequestError(f"{self._root} is not a folder that can be written to.")
        return FileLock(self._root / ".lock", timeout=LOCK_SECONDS, mode=0o600, poll_interval=0.002)

    def read(self, file: str) -> bytes | None:
        """The content of `file`; None where there is none."""
        try:
            return (self._root / file).read_bytes()
        except FileNotFoundError:
            return None

    def status(self, file: str) -> os.stat_result | None:
        """What the filesystem says of `file`; None where there is none."""
        try:
            return os.stat(self._root / file)
        except FileNotFoundError:
            return None

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """What lies in `folder`, the store's own files aside; nothing where there is no such folder."""
        try:
            with os.scandir(self._root / folder) as found:
                return [entry for entry in found if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []

    def last_time(self) -> datetime:
        """The time of the last commit, which may have been interrupted."""
        try:
            return parse_time((self._root / _CLOCK).read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return _NEVER  # cut off by a power failure: the machine's clock has moved on since

    def commit(self, changes: Sequence[Change], at: datetime) -> None:
        """Changes all files or none; `at` is later than every earlier commit's. An OSError leaves open which."""
        if not changes:
            return
        self._before_step("clock")
        self._write_clock(at)
        entry = Entry(list(changes), _nanoseconds(at))
        if len(changes) > 1:
            self._replace(Change(_JOURNAL, encode_entry(entry)), entry.time)
            self._sync_folder("")
        self._apply(entry)
        self._prune(at)

    def version(self, file: str, at: datetime) -> bytes | None:
        """The content that the first change of `file` after `at` replaced; None where there was none to replace."""
        ending = _version_ending(file)
        after = f"{_nanoseconds(at):020d}~"
        kept = sorted(name for name in os.listdir(self._root / _VERSIONS) if name.endswith(ending) and name > after)
        return self.read(f"{_VERSIONS}/{kept[0]}") if kept else None

    def _write_clock(self, at: datetime) -> None:
        # Before the commit: a time that is never used does no harm, one used twice would.
        descriptor = os.open(self._root / _CLOCK, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.pwrite(descriptor, format_time(at).encode(), 0)
        finally:
            os.close(descriptor)

    def _recover(self) -> None:
        content = self.read(_JOURNAL)
        if content is not None:
            self._apply(decode_entry(content, str(self._root / _JOURNAL)))

    def _apply(self, entry: Entry) -> None:
        """Carries out `entry`; may be repeated, from the start, however far it came the last time."""
        for change in entry.changes:
            self._keep_version(change.file, entry.time)
            if change.content is None:
                self._before_step(f"remove {change.file}")
                (self._root / change.file).unlink(missing_ok=True)
            else:
                self._make_folder(os.path.dirname(change.file))
                self._replace(change, entry.time)
        for folder in sorted({os.path.dirname(change.file) for change in entry.changes}):
            with suppress(FileNotFoundError):  # a file was removed that never was, by a journal that is repeated
                self._sync_folder(folder)
        if len(entry.changes) > 1:
            self._before_step("forget journal")
            (self._root / _JOURNAL).unlink(missing_ok=True)
            self._sync_folder("")  # or a power failure could bring it back, to be carried out over later commits

    def _keep_version(self, file: str, at: int) -> None:
        self._before_step(f"keep {file}")
        with suppress(FileNotFoundError, FileExistsError):  # nothing to keep, or kept before an interruption
            os.link(self._root / file, self._root / _VERSIONS / f"{at:020d}{_version_ending(file)}")

    def _replace(self, change: Change, at: int) -> None:
        """Writes the file whole or not at all. Its time is the commit's, so that no two versions look alike."""
        target = self._root / change.file
        temporary = target.with_name(".new")
        self._before_step(f"write {change.file}")
        descriptor = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(change.content or b"")
            file.flush()
            os.utime(descriptor, ns=(at, at))
            os.fsync(descriptor)
        self._before_step(f"rename {change.file}")
        temporary.replace(target)

    def _make_folder(self, folder: str) -> None:
        if not folder or (self._root / folder).is_dir():
            return
        above = os.path.dirname(folder)
        self._make_folder(above)
        (self._root / folder).mkdir(mode=0o700, exist_ok=True)
        self._sync_folder(above)

    def _sync_folder(self, folder: str) -> None:
        descriptor = os.open(self._root / folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _prune(self, at: datetime) -> None:
        if time.monotonic() - self._pruned_at < _PRUNE_SECONDS:
            return
        self._pruned_at = time.monotonic()
        oldest = f"{_nanoseconds(at - VERSIONS_KEPT):020d}"
        for name in os.listdir(self._root / _VERSIONS):
            if name < oldest:
                (self._root / _VERSIONS / name).unlink(missing_ok=True)


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def _version_ending(file: str) -> str:
    return f"-{hashlib.sha256(file.encode()).hexdigest()[:32]}"
