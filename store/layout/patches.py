"""The difference between two states as RFC 6902 operations, and its application.

Members other than the messages, and the inside of one message, are diffed and patched by `jsonpatch`. The list of
messages is ours: matched by message id, so that appending, dropping the head, editing one and compacting cost what
changed, and only the messages that an operation names are parsed. Every patch is verified before it is given out: where
it does not reproduce the very bytes (key order, for one, is invisible to RFC 6902) the element is replaced whole.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import jsonpatch
import jsonpointer

from store.canonical import Json
from store.errors import InvalidRequestError
from store.layout.alignment import same_places
from store.layout.distance import are_far_apart
from store.state import MESSAGES, Messages, Raw, State

Operation: TypeAlias = dict[str, Json]
_ROOT = f"/{MESSAGES}"


class PatchError(Exception):
    """The operations do not fit the state."""


def diff(old: State, new: State) -> list[Operation]:
    """Operations that turn `old` into exactly `new`, byte for byte."""
    operations = [*_member_operations(old, new), *_message_operations(old.messages, new.messages)]
    try:
        if apply(old, operations) == new:
            return operations
    except PatchError:
        pass
    return [{"op": "replace", "path": "", "value": new.value()}]


def changed_bytes(old: State, new: State) -> int:
    """Roughly how much text of `new` is not in `old`, without looking into members or messages."""
    changed = sum(len(raw.text) for name, raw in new.members.items() if old.members.get(name) != raw)
    before, after = old.messages or Messages(), new.messages or Messages()
    start = _common_start(before, after, min(len(before), len(after)))
    known = {raw.digest for raw in before[start:]}
    return changed + sum(len(raw.text) for raw in after[start:] if raw.digest not in known)


def _member_operations(old: State, new: State) -> Iterator[Operation]:
    """Removes what goes, changes in place what stays, and then, from the first member on whose place is another one,
    puts every member behind the others: moved from where it is, or added."""
    kept = [name for name in old.order if name in new.order and _is_list(old, name) == _is_list(new, name)]
    renamed = dict(_renamed(old, new, kept))
    for name in old.order:
        if name not in kept and name not in renamed.values():
            yield {"op": "remove", "path": _pointer(name)}
    for name in kept:
        if name in new.members:
            yield from _element_operations(_pointer(name), old.members[name], new.members[name])
    in_place = 0
    while in_place < len(kept) and kept[in_place] == new.order[in_place]:
        in_place += 1
    for name in new.order[in_place:]:
        if name in kept or name in renamed:
            yield {"op": "move", "from": _pointer(renamed.get(name, name)), "path": _pointer(name)}
        else:
            yield {"op": "add", "path": _pointer(name), "value": new.get(name)}


def _renamed(old: State, new: State, kept: Sequence[str]) -> Iterator[tuple[str, str]]:
    """New members, each with the old one whose very value it has."""
    gone = {raw.text: name for name, raw in old.members.items() if name not in kept}
    for name in new.order:
        if name in new.members and name not in kept and name not in old.order:
            former = gone.pop(new.members[name].text, None)
            if former is not None:
                yield name, former


def _is_list(state: State, name: str) -> bool:
    """Whether the member is the list that is held message by message."""
    return name not in state.members


def _element_operations(pointer: str, old: Raw, new: Raw) -> list[Operation]:
    if old.text == new.text:
        return []
    whole: list[Operation] = [{"op": "replace", "path": pointer, "value": new.value()}]
    if len(old.text) + len(new.text) > _MOST_COMPARED:
        return whole
    before, after = old.value(), new.value()
    if are_far_apart(before, after):
        return whole
    inner = list(jsonpatch.make_patch(before, after).patch)
    if not inner or len(str(inner)) >= len(new.text):
        return whole
    try:
        reproduced = Raw.stored(jsonpatch.apply_patch(before, inner, in_place=True))
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
        return whole
    if reproduced.text != new.text:
        return whole
    return [_below(pointer, operation) for operation in inner]


# Bytes of text. Both values are parsed for it, which takes many times as much memory, and compared one by one.
_MOST_COMPARED = 8_388_608


def _below(pointer: str, operation: Operation) -> Operation:
    moved = {**operation, "path": pointer + operation["path"]}
    if "from" in operation:
        moved["from"] = pointer + operation["from"]
    return moved


def _message_operations(old: Sequence[Raw] | None, new: Sequence[Raw] | None) -> list[Operation]:
    if old is None or new is None:
        return []
    shorter = min(len(old), len(new))
    start = _common_start(old, new, shorter)
    end = 0
    while end < shorter - start and old[-1 - end].digest == new[-1 - end].digest:
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    is_at_end = end == 0
    return list(_aligned_operations(before, after, start, is_at_end))


def _common_start(old: Sequence[Raw], new: Sequence[Raw], shorter: int) -> int:
    """How many messages at the beginning are the same. Slices are compared in C, by identity first."""
    if new[: len(old)] == old:
        return len(old)
    start = 0
    while start < shorter and old[start : min(start + _STRIDE, shorter)] == new[start : min(start + _STRIDE, shorter)]:
        start += _STRIDE
    while start < shorter and old[start].digest == new[start].digest:
        start += 1
    return min(start, shorter)


_STRIDE = 256  # messages


def _aligned_operations(old: Sequence[Raw], new: Sequence[Raw], start: int, is_at_end: bool) -> Iterator[Operation]:
    """Operations for the stretch that differs; `index` is where each applies once the earlier ones have been."""
    index, old_at, new_at = start, 0, 0
    places = same_places([_key(raw) for raw in old], [_key(raw) for raw in new])
    for same_old, same_new in [*places, (len(old), len(new))]:
        for _ in range(old_at, same_old):
            yield {"op": "remove", "path": f"{_ROOT}/{index}"}
        appends = is_at_end and same_old == len(old)
        for raw in new[new_at:same_new]:
            yield {"op": "add", "path": f"{_ROOT}/-" if appends else f"{_ROOT}/{index}", "value": raw.value()}
            index += 1
        if same_old < len(old):
            yield from _element_operations(f"{_ROOT}/{index}", old[same_old], new[same_new])
            index += 1
        old_at, new_at = same_old + 1, same_new + 1


def _key(raw: Raw) -> str | bytes:
    return raw.digest if raw.key is None else raw.key


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _name(pointer: str) -> str:
    """The member that a pointer of one token names."""
    token = pointer[1:]
    if not pointer.startswith("/") or "/" in token:
        raise PatchError(f"{pointer!r} names no member")
    return token.replace("~1", "/").replace("~0", "~")


def apply(state: State, operations: Sequence[Operation]) -> State:
    """The state after `operations`; PatchError where they do not fit."""
    draft = _Draft(state)
    try:
        for operation in operations:
            draft.apply(operation)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        InvalidRequestError,  # a value that is no state
        KeyError,
        IndexError,
        TypeError,
        ValueError,
    ) as error:
        raise PatchError(str(error)) from error
    return draft.state


class _Draft:
    """A state while operations are applied to it; each names one message or one member."""

    def __init__(self, state: State) -> None:
        self._load(state)

    def _load(self, state: State) -> None:
        self._order = list(state.order)
        self._members = dict(state.members)
        self._messages = state.messages
        self._appended: list[Raw] = []  # behind `_messages`
        self._edited: list[Raw] | None = None  # instead of both, once something else than an append was done to them

    @property
    def state(self) -> State:
        messages = self._messages
        if self._edited is not None:
            messages = Messages(self._edited)
        elif messages is not None and self._appended:
            messages = messages.extended(self._appended)
        return State(tuple(self._order), messages, self._members)

    def _editable(self) -> list[Raw]:
        """The messages as they stand, to be changed."""
        if self._edited is None:
            self._edited = [*(self._messages or ()), *self._appended]
        return self._edited

    def apply(self, operation: Operation) -> None:
        path = operation["path"]
        if path and not path.startswith("/"):
            raise PatchError(f"{path!r} is not a pointer")
        first, inside, rest = path[1:].partition("/")  # "/a/" is inside of a: its member ""
        name = _name(f"/{first}")
        if _is_foreign(operation):
            self._load(State.of(jsonpatch.apply_patch(self.state.value(), [operation], in_place=True)))
        elif path == "":
            self._apply_to_all(operation)
        elif name == MESSAGES and self._messages is not None and inside:
            self._apply_to_messages(rest, operation)
        elif inside:
            self._members[name] = _patched(self._members[name], "/" + rest, operation, _pointer(name))
        else:
            self._apply_to_member(name, operation)

    def _apply_to_all(self, operation: Operation) -> None:
        if operation["op"] not in ("add", "replace"):
            raise PatchError("only a replacement may name the whole state")
        self._load(State.of(operation["value"]))

    def _apply_to_member(self, name: str, operation: Operation) -> None:
        if operation["op"] in ("remove", "replace") and name not in self._order:
            raise PatchError(f"there is no member {name!r}")
        if operation["op"] == "remove":
            self._order.remove(name)
            self._forget(name)
            return
        if operation["op"] == "move":
            self._move(_name(operation["from"]), name)
            return
        if operation["op"] not in ("add", "replace"):
            raise PatchError(f"unexpected operation {operation['op']!r}")
        self._forget(name)
        if name not in self._order:
            self._order.append(name)
        value = operation["value"]
        if name == MESSAGES and isinstance(value, list):
            self._messages = Messages(Raw.stored(message) for message in value)
        else:
            self._members[name] = Raw.stored(value)

    def _move(self, source: str, name: str) -> None:
        """Puts a member behind all others, perhaps under another name, instead of what had that."""
        if source not in self._order:
            raise PatchError(f"there is no member {source!r}")
        if source != name and name in self._order:
            self._order.remove(name)
        self._order.remove(source)
        self._order.append(name)
        if source in self._members:
            self._members[name] = self._members.pop(source)

    def _forget(self, name: str) -> None:
        self._members.pop(name, None)
        if name == MESSAGES:
            self._messages, self._appended, self._edited = None, [], None

    def _apply_to_messages(self, rest: str, operation: Operation) -> None:
        place, inside, inner = rest.partition("/")
        if operation["op"] == "add" and rest == "-" and self._edited is None:
            self._appended.append(Raw.stored(operation["value"]))
            return
        messages = self._editable()
        if inside:
            index = _index(place, len(messages) - 1)
            messages[index] = _patched(messages[index], "/" + inner, operation, f"{_ROOT}/{place}")
        elif operation["op"] == "add":
            index = len(messages) if place == "-" else _index(place, len(messages))
            messages.insert(index, Raw.stored(operation["value"]))
        elif operation["op"] == "replace":
            messages[_index(place, len(messages) - 1)] = Raw.stored(operation["value"])
        elif operation["op"] == "remove":
            del messages[_index(place, len(messages) - 1)]
        else:
            raise PatchError(f"unexpected operation {operation['op']!r}")


def _is_foreign(operation: Operation) -> bool:
    """Whether it is one that takes the whole state: no patch of ours has any."""
    if operation["op"] != "move":
        return operation["op"] in ("copy", "test")
    source, path = operation["from"].split("/"), operation["path"].split("/")
    if len(source) == len(path) == 2:
        return source != path and _ROOT in (operation["from"], operation["path"])
    depth = 3 if path[1] == MESSAGES else 2  # of one message, or one member
    return min(len(source), len(path)) <= depth or source[:depth] != path[:depth]


def _index(token: str, last: int) -> int:
    if not token.isdecimal() or not 0 <= int(token) <= last:
        raise PatchError(f"there is no message {token!r}")
    return int(token)


def _patched(raw: Raw, inner: str, operation: Operation, pointer: str) -> Raw:
    changed = {**operation, "path": inner}
    if "from" in operation:
        changed["from"] = operation["from"][len(pointer) :]
    return Raw.stored(jsonpatch.apply_patch(raw.value(), [changed], in_place=True))
