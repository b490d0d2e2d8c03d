"""Lets callers in: from a request's headers to who it is, or an error. What somebody may see is the store's matter."""

from typing import Protocol

from starlette.datastructures import Headers

from functions.identity.callers import Caller, caller_of
from functions.settings import Settings


class Authentication(Protocol):
    """One way of telling who is calling."""

    async def caller(self, headers: Headers) -> Caller:
        """Who sent a request with these headers. UnauthenticatedError, PermissionDeniedError."""

    async def require_scheduler(self, headers: Headers) -> None:
        """Returns where the scheduler or the queue sent it. UnauthenticatedError, PermissionDeniedError."""


class Believing:
    """AUTH=none: whoever they say they are."""

    async def caller(self, headers: Headers) -> Caller:
        """What the headers claim; InvalidRequestError where they hold no ids."""
        return caller_of(headers)

    async def require_scheduler(self, headers: Headers) -> None:
        """Anybody is."""


def authentication_of(settings: Settings) -> Authentication:
    """The way that the settings name. Fetches nothing. Tokens need a library that is imported where they are checked:
    its cryptography is a seventh of what a cold start imports."""
    if settings.auth == "none":
        return Believing()
    from functions.identity.firebase import firebase_tokens

    return firebase_tokens(settings)
