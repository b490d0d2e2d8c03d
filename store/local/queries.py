"""Which documents a query finds, and in what order. Pure.

As in Firestore: a condition or an order on a field that a document lacks leaves the document out, and `<`, `<=`, `>`,
`>=` compare values of one type only.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from store.database import Document, Path, Query, Value
from store.local.values import checked, order_key

_Key: TypeAlias = tuple[int, Any]
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Matcher:
    """A query's conditions, prepared once for many documents."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._conditions = [
            (condition.field, _operator(condition.op), order_key(checked(condition.value, condition.field)))
            for condition in query.where
        ]

    def matches(self, document: Document) -> bool:
        """Whether the query finds `document`, its limit and cursor aside."""
        query, fields = self._query, document.fields
        if document.path.kind is not query.kind or query.tenant not in (None, document.path.tenant):
            return False
        for name, compare, wanted in self._conditions:
            if name not in fields:
                return False
            found = order_key(fields[name])
            if found[0] != wanted[0] or not compare(found, wanted):
                return False
        return all(name in fields for name, _ in query.order)


def _operator(op: str) -> Callable[[Any, Any], bool]:
    if op not in _OPERATORS:
        raise ValueError(f"A condition cannot use {op!r}.")
    return _OPERATORS[op]


def select(documents: Iterable[Document], query: Query) -> list[Document]:
    """The documents that `query` finds, ordered, from its cursor on, up to its limit; not masked."""
    matcher = Matcher(query)
    found = [document for document in documents if matcher.matches(document)]
    if query.start_after is not None:
        cursor, directions = _cursor(query, query.start_after), _directions(query)
        found = [document for document in found if _is_after(_keys(document, query), cursor, directions)]
    return in_order(found, query)[: query.limit]


def in_order(documents: Iterable[Document], query: Query) -> list[Document]:
    """`documents`, each of which has all fields of the query's order, sorted by it and then by id."""
    rows = [(_keys(document, query), document) for document in documents]
    for index, descending in reversed(list(enumerate(_directions(query)))):
        # One stable pass per field, the last one first: the directions may differ.
        rows.sort(key=partial(_key_at, index), reverse=descending)
    return [document for _, document in rows]


def _key_at(index: int, row: tuple[list[_Key], Document]) -> _Key:
    return row[0][index]


def _order(query: Query) -> list[tuple[str, bool]]:
    """The query's order, and after it, as in Firestore, the fields that an inequality compares."""
    listed = {name for name, _ in query.order}
    compared = sorted({condition.field for condition in query.where if condition.op != "=="} - listed)
    return [*query.order, *((name, _last_direction(query)) for name in compared)]


def _last_direction(query: Query) -> bool:
    return query.order[-1][1] if query.order else False


def _directions(query: Query) -> list[bool]:
    return [*(descending for _, descending in _order(query)), _last_direction(query)]


def _keys(document: Document, query: Query) -> list[_Key]:
    return [*(order_key(document.fields[name]) for name, _ in _order(query)), _id_key(document.path, query)]


def _id_key(path: Path, query: Query) -> _Key:
    # A name is a whole path to Firestore: tenants come before ids in a query over all of them.
    return (4, (path.id,)) if query.tenant is not None else (4, (path.tenant, path.id))


def _cursor(query: Query, values: Sequence[Value]) -> list[_Key]:
    if len(values) != len(query.order) + 1:
        raise ValueError("A cursor holds one value per field of the order, and the id.")
    if len(_order(query)) != len(query.order):
        raise ValueError("A cursor needs every field that is compared by an inequality in the order.")
    *fields, last = values
    keys = [order_key(checked(value, name)) for value, (name, _) in zip(fields, query.order, strict=True)]
    return [*keys, _id_key(_cursor_path(query, last), query)]


def _cursor_path(query: Query, last: Value) -> Path:
    if isinstance(last, Path):
        return last
    if query.tenant is None:
        raise ValueError("A cursor over all tenants ends with a path: an id alone does not say where to go on.")
    return Path(query.kind, query.tenant, last)


def _is_after(keys: Sequence[_Key], cursor: Sequence[_Key], directions: Sequence[bool]) -> bool:
    for key, mark, descending in zip(keys, cursor, directions, strict=True):
        if key != mark:
            return key < mark if descending else key > mark
    return False
