"""Queries as Firestore's structured queries. Pure."""

from typing import Any

from google.cloud.firestore_v1.types import StructuredQuery

from store.database import Condition, Path, Query, Value
from store.firestore.names import NAME_FIELD, Names, field_path
from store.firestore.values import encode

_OPERATORS = {
    "==": StructuredQuery.FieldFilter.Operator.EQUAL,
    "<": StructuredQuery.FieldFilter.Operator.LESS_THAN,
    "<=": StructuredQuery.FieldFilter.Operator.LESS_THAN_OR_EQUAL,
    ">": StructuredQuery.FieldFilter.Operator.GREATER_THAN,
    ">=": StructuredQuery.FieldFilter.Operator.GREATER_THAN_OR_EQUAL,
}


def parent_of(names: Names, query: Query) -> str:
    """The resource below which the query looks: one tenant's document, or the whole database."""
    return names.root if query.tenant is None else names.tenant(query.kind, query.tenant)


def fill_query(message: Any, names: Names, query: Query) -> None:
    """Writes everything but the mask into an empty StructuredQuery message."""
    message.from_.add(collection_id=query.kind.value, all_descendants=query.tenant is None)
    if query.where:
        message.where.composite_filter.op = StructuredQuery.CompositeFilter.Operator.AND
        for condition in query.where:
            _fill_filter(message.where.composite_filter.filters.add(), condition)
    for path, descending in _whole_order(query):
        direction = StructuredQuery.Direction.DESCENDING if descending else StructuredQuery.Direction.ASCENDING
        message.order_by.add(direction=direction).field.field_path = path
    if query.start_after is not None:
        _fill_cursor(message.start_at, names, query, query.start_after)
    if query.limit is not None:
        message.limit.value = query.limit


def _fill_filter(message: Any, condition: Condition) -> None:
    if condition.value is None and condition.op == "==":  # Firestore compares with null by an operator of its own
        message.unary_filter.op = StructuredQuery.UnaryFilter.Operator.IS_NULL
        message.unary_filter.field.field_path = field_path(condition.field)
        return
    message.field_filter.op = _OPERATORS[condition.op]
    message.field_filter.field.field_path = field_path(condition.field)
    encode(condition.value, message.field_filter.value)


def _whole_order(query: Query) -> list[tuple[str, bool]]:
    """The order with the document's name at its end, written down so that a cursor can hold a value for it."""
    order = [(field_path(name), descending) for name, descending in query.order]
    listed = {name for name, _ in query.order}
    if any(condition.op != "==" and condition.field not in listed for condition in query.where):
        # Firestore puts such a field between our order and the name; the name before it would need another index.
        if query.start_after is not None:
            raise ValueError("A cursor needs every field that is compared by an inequality in the order.")
        return order
    return [*order, (NAME_FIELD, order[-1][1] if order else False)]


def _fill_cursor(message: Any, names: Names, query: Query, values: tuple[Value, ...]) -> None:
    if len(values) != len(query.order) + 1:
        raise ValueError("A cursor has one value per entry of the order, and the document's id.")
    message.before = False
    for value in values[:-1]:
        encode(value, message.values.add())
    message.values.add().reference_value = _cursor_document(names, query, values[-1])


def _cursor_document(names: Names, query: Query, last: Value) -> str:
    """The document at which a cursor stands; over all tenants an id alone does not name one, so its path is needed."""
    if isinstance(last, Path):
        return names.document(last)
    if query.tenant is None:
        raise ValueError("A cursor over all tenants ends with a Path.")
    return names.document(Path(query.kind, query.tenant, last))
