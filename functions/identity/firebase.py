"""Lets in who carries a token: Firebase's users, and the service account of scheduler and queue.

Tenant and user come from the token alone; no other header has a say.
"""

import time
from typing import Any, Final

from starlette.datastructures import Headers

from functions.errors import PermissionDeniedError, UnauthenticatedError
from functions.identity.callers import Caller
from functions.identity.keys import PublicKeys
from functions.identity.tokens import CLOCK_SKEW, bearer_token, verified
from functions.settings import Settings
from store.errors import InvalidRequestError
from store.ids import require_id

FIREBASE_ISSUER: Final = "https://securetoken.google.com/"
GOOGLE_ISSUERS: Final = ("https://accounts.google.com", "accounts.google.com")


class SchedulerTokens:
    """OIDC tokens of one service account for one audience."""

    def __init__(self, account: str, audience: str, keys: PublicKeys) -> None:
        self._account = account
        self._audience = audience
        self._keys = keys

    async def require(self, headers: Headers) -> None:
        """Returns where the account sent it."""
        claims = await verified(bearer_token(headers), self._keys, GOOGLE_ISSUERS, self._audience)
        if claims.get("email") != self._account or claims.get("email_verified") is not True:
            raise PermissionDeniedError("This is for the scheduler alone.")


class FirebaseTokens:
    """AUTH=firebase: ID tokens of one project's users, and nothing without one."""

    def __init__(
        self,
        project: str,
        keys: PublicKeys,
        *,
        tenant_claim: str | None,
        admin_claim: str,
        scheduler: SchedulerTokens | None = None,
    ) -> None:
        self._project = project
        self._keys = keys
        self._tenant_claim = tenant_claim
        self._admin_claim = admin_claim
        self._scheduler = scheduler

    async def caller(self, headers: Headers) -> Caller:
        """The token's user, and the tenant that it names."""
        issuer = f"{FIREBASE_ISSUER}{self._project}"
        claims = await verified(bearer_token(headers), self._keys, (issuer,), self._project)
        _require_past(claims.get("auth_time"))
        user = claims["sub"]
        tenant = user if self._tenant_claim is None else claims.get(self._tenant_claim)
        is_admin = claims.get(self._admin_claim) is True
        return Caller(_usable(tenant, "tenant"), _usable(user, "user"), is_admin)

    async def require_scheduler(self, headers: Headers) -> None:
        """As SchedulerTokens; nobody is the scheduler where none is configured."""
        if self._scheduler is None:
            raise PermissionDeniedError("No scheduler is configured here.")
        await self._scheduler.require(headers)


def firebase_tokens(settings: Settings) -> FirebaseTokens:
    """The tokens that the settings name. Fetches nothing."""
    assert settings.project is not None  # read_settings has refused AUTH=firebase without one
    return FirebaseTokens(
        settings.project,
        PublicKeys(settings.firebase_keys_url),
        tenant_claim=settings.tenant_claim,
        admin_claim=settings.admin_claim,
        scheduler=_scheduler(settings),
    )


def _scheduler(settings: Settings) -> SchedulerTokens | None:
    if settings.scheduler_account is None or settings.oidc_audience is None:
        return None
    keys = PublicKeys(settings.oidc_keys_url)
    return SchedulerTokens(settings.scheduler_account, settings.oidc_audience, keys)


def _usable(value: Any, what: str) -> str:
    """A claim as part of a path. Absent, blank or of another kind is refused: falling back to anything would put two
    tenants into one."""
    try:
        return require_id(value, f"The token's {what}")
    except InvalidRequestError as error:
        raise PermissionDeniedError(error.message) from error


def _require_past(auth_time: Any) -> None:
    is_number = isinstance(auth_time, int | float) and not isinstance(auth_time, bool)
    if not is_number or not auth_time <= time.time() + CLOCK_SKEW:
        raise UnauthenticatedError("The token does not say when its user signed in.")
