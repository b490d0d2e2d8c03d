"""What a handler is given: the request, who sent it, and the application."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from functions.identity import caller_of
from functions.wire.body import read_json
from functions.wire.queries import parse_query
from functions.wire.validation import WireModel, require_model
from functions.wiring import Application
from store.models import Scope

_Model = TypeVar("_Model", bound=WireModel)


@dataclass(frozen=True, slots=True)
class Context:
    """One request. `path` holds the values of the route's `{names}`."""

    application: Application
    request: Request
    path: Mapping[str, str]

    @property
    def scope(self) -> Scope:
        """Who is asking; InvalidRequestError where the headers name nobody."""
        caller = caller_of(self.request.headers)
        return Scope(caller.tenant, caller.user)

    async def body(self, model: type[_Model]) -> _Model:
        """The request's body as `model`."""
        limit = self.application.settings.max_body_bytes
        value = await read_json(self.request.headers, self.request.stream(), limit)
        return require_model(model, value)

    def query(self, model: type[_Model]) -> _Model:
        """The query string as `model`."""
        return parse_query(model, self.request.scope["query_string"])


Handler: TypeAlias = Callable[[Context], Awaitable[Response]]
