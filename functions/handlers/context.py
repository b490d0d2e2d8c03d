"""What a handler is given: the request, who sent it, and the application."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from functions.errors import PermissionDeniedError
from functions.identity import Caller
from functions.logs import about
from functions.wire.body import read_json
from functions.wire.queries import parse_query
from functions.wire.validation import WireModel, require_model
from functions.wiring import Application
from store.models import Scope

_Model = TypeVar("_Model", bound=WireModel)


@dataclass(frozen=True, slots=True)
class Context:
    """One request. `path` holds the values of the route's `{names}`; `caller` is None where the route needs none."""

    application: Application
    request: Request
    path: Mapping[str, str]
    caller: Caller | None = None

    @property
    def scope(self) -> Scope:
        """Who is asking."""
        assert self.caller is not None  # the table of routes lets nobody in without, unless it says so
        return Scope(self.caller.tenant, self.caller.user)

    def require_admin(self) -> None:
        """PermissionDeniedError where the caller may not change what is the whole tenant's."""
        if self.caller is None or not self.caller.is_admin:
            raise PermissionDeniedError("This is for administrators alone.")

    async def body(self, model: type[_Model]) -> _Model:
        """The request's body as `model`."""
        limit = self.application.settings.max_body_bytes
        value = await read_json(self.request.headers, self.request.stream(), limit)
        return _noted(require_model(model, value))

    def query(self, model: type[_Model]) -> _Model:
        """The query string as `model`."""
        return _noted(parse_query(model, self.request.scope["query_string"]))


def _noted(request: _Model) -> _Model:
    """Log lines from here on name what the request names."""
    about(session=getattr(request, "session_id", None), snapshot=getattr(request, "snapshot_id", None))
    return request


Handler: TypeAlias = Callable[[Context], Awaitable[Response]]
