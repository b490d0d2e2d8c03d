"""What the description says of one route."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from functions.identity.access import Access
from functions.wire.validation import WireModel
from store.errors import DataLossError, DeadlineExceededError, StoreError, UnavailableError

Errors: TypeAlias = tuple[type[StoreError], ...]

STORE_ERRORS: Final[Errors] = (DataLossError, UnavailableError, DeadlineExceededError)


class Reply(NamedTuple):
    """One successful answer: a component's name (none for an empty body), and whether it can also come as a stream of
    events."""

    description: str
    component: str | None
    streamed: bool = False


NOTHING: Final = Reply("Done.", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path. Errors that follow from `body`, `query`, the path's parameters, `reads_store` and
    `access` are added by the document; `errors` names the others."""

    method: Literal["get", "post", "put", "patch", "delete"]
    path: str
    operation: str
    summary: str
    replies: Mapping[int, Reply]
    body: type[WireModel] | None = None
    query: type[WireModel] | None = None
    errors: Errors = field(default=())
    reads_store: bool = True
    access: Access = Access.CALLER
    refusal: str = "Error"  # the component that a refusal is
