"""Who is let in to a route at all. Whose session it is comes later, and is the store's to decide."""

from enum import Enum, auto

from starlette.datastructures import Headers

from functions.identity.authentication import Authentication
from functions.identity.callers import Caller


class Access(Enum):
    """Whom a route is for."""

    CALLER = auto()
    SCHEDULER = auto()
    ANYBODY = auto()


async def admit(authentication: Authentication, access: Access, headers: Headers) -> Caller | None:
    """Who sent the request, where its route wants to know. UnauthenticatedError, PermissionDeniedError."""
    if access is Access.CALLER:
        return await authentication.caller(headers)
    if access is Access.SCHEDULER:
        await authentication.require_scheduler(headers)
    return None
