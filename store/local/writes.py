"""What a commit does to documents: preconditions, fields, appends, update times. Pure; stores nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, TypeAlias

from store.database import CommitRefusedError, Create, Delete, Document, Path, Put, Update, Value, Write
from store.local.values import checked, checked_fields, clone, is_same, order_key

Current: TypeAlias = Callable[[Path], Document | None]


class Planned(NamedTuple):
    """What has to be stored (None = deleted), and what the caller is told per write."""

    changes: dict[Path, Document | None]
    update_times: tuple[datetime | None, ...]


@dataclass(slots=True)
class _Plan:
    current: Current
    time: datetime
    changes: dict[Path, Document | None] = field(default_factory=dict)

    def apply(self, write: Write) -> datetime | None:
        """The document's update time after `write` (None: it is deleted), or CommitRefusedError."""
        if isinstance(write, Delete):
            if write.update_time is not None:  # else unread: a damaged document can be deleted too
                _require(write, self.current(write.path))
            self.changes[write.path] = None
            return None
        given = checked_fields(write.fields, self.time)
        present = self.current(write.path)
        _require(write, present)
        return self._store(write, present, given)

    def _store(self, write: Create | Put | Update, present: Document | None, given: dict[str, Value]) -> datetime:
        fields = _updated(write, present, given) if isinstance(write, Update) and present else given
        if present is not None and is_same(present.fields, fields):
            return present.update_time  # as in Firestore, a write that changes nothing is no new version
        self.changes[write.path] = Document(write.path, fields, self.time)
        return self.time


def plan_commit(writes: Sequence[Write], current: Current, time: datetime) -> Planned:
    """All of `writes`, or CommitRefusedError; ValueError or TypeError for what no document can hold."""
    _check_paths(writes)
    plan = _Plan(current, time)
    return Planned(changes=plan.changes, update_times=tuple([plan.apply(write) for write in writes]))


def plan_each(writes: Sequence[Write], current: Current, time: datetime) -> Planned:
    """Each of `writes` by itself; a refused one has no update time, a delete that was done has `time`."""
    _check_paths(writes)
    plan = _Plan(current, time)
    return Planned(changes=plan.changes, update_times=tuple([_attempt(plan, write) for write in writes]))


def _check_paths(writes: Sequence[Write]) -> None:
    seen: set[Path] = set()
    for path in (write.path for write in writes):
        if not path.id or not path.tenant:
            raise ValueError(f"{path} lacks a tenant or an id.")
        if path in seen:  # Firestore takes two writes of one document only where their preconditions agree
            raise ValueError(f"{path} is written twice in one commit.")
        seen.add(path)


def _attempt(plan: _Plan, write: Write) -> datetime | None:
    try:
        return plan.apply(write) or plan.time
    except CommitRefusedError:
        return None


def _require(write: Write, present: Document | None) -> None:
    if isinstance(write, Create) and present is not None:
        raise CommitRefusedError(f"{write.path} exists already.")
    if isinstance(write, Update) and present is None:
        raise CommitRefusedError(f"{write.path} does not exist.")
    if isinstance(write, Update | Delete) and write.update_time is not None:
        if present is None:
            raise CommitRefusedError(f"{write.path} does not exist.")
        if present.update_time != write.update_time:
            raise CommitRefusedError(f"{write.path} was written since.")


def _updated(write: Update, present: Document, given: dict[str, Value]) -> dict[str, Value]:
    fields = {**present.fields, **given}
    for name in write.remove:
        fields.pop(name, None)
    for name, values in write.append.items():
        fields[name] = _appended(fields.get(name), checked(values, name))
    return fields


def _appended(present: Value, values: list[Value]) -> list[Value]:
    kept = list(present) if type(present) is list else []
    keys = [order_key(value) for value in kept]
    for value in values:
        if order_key(value) not in keys:
            kept.append(value)
            keys.append(order_key(value))
    return kept


def masked(document: Document, mask: Sequence[str] | None) -> Document:
    """A copy of `document` for a caller, who may change it: all fields, or those of `mask`."""
    names = document.fields if mask is None else [name for name in mask if name in document.fields]
    return replace(document, fields={name: clone(document.fields[name]) for name in names})
