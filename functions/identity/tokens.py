"""Signed tokens: from the text in a header to claims that can be believed. Knows no user and no tenant.

PyJWT checks signatures and times. google-auth, which is here already, was not taken: its check of an ID token fetches
the keys anew each time and blocks, and a token without a key id is tried against every key.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import jwt
from starlette.datastructures import Headers

from functions.errors import UnauthenticatedError
from functions.identity.keys import PublicKeys

ALGORITHM: Final = "RS256"
CLOCK_SKEW: Final = 60.0  # seconds that an issuer's clock and ours may differ
MAX_SUBJECT_CHARACTERS: Final = 128

_REQUIRED = ("exp", "iat", "aud", "iss", "sub")

Claims: TypeAlias = Mapping[str, Any]


def bearer_token(headers: Headers) -> str:
    """The token of the request's one `Authorization` header. UnauthenticatedError where there is none, or several,
    of which a proxy may have read another one than we would."""
    given = headers.getlist("authorization")
    if not given:
        raise UnauthenticatedError("This needs an Authorization header with a bearer token.")
    scheme, _, token = given[0].strip().partition(" ")
    if len(given) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise UnauthenticatedError("The Authorization header must hold one bearer token.")
    return token.strip()


async def verified(token: str, keys: PublicKeys, issuers: tuple[str, ...], audience: str) -> Claims:
    """The claims of a token that one of `issuers` signed for `audience` and that is valid now. UnauthenticatedError;
    UnavailableError where the keys cannot be had."""
    key = await keys.find(_key_id(token))
    if key is None:
        raise UnauthenticatedError("The token was signed with an unknown key.")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[ALGORITHM],
            issuer=issuers,
            audience=audience,
            leeway=CLOCK_SKEW,
            options={"require": list(_REQUIRED), "strict_aud": True},
        )
    except jwt.ExpiredSignatureError as error:
        raise UnauthenticatedError("The token has expired.") from error
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
        raise UnauthenticatedError("The token is not valid here.") from error
    _require_subject(claims["sub"])
    return claims


def _key_id(token: str) -> str:
    """From the unsigned header, so the algorithm is looked at first: nothing else of another one is of interest."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise UnauthenticatedError("The token is no signed token.") from error
    key_id = header.get("kid")
    if header.get("alg") != ALGORITHM or not isinstance(key_id, str) or not key_id:
        raise UnauthenticatedError(f"The token must be signed with {ALGORITHM} and name its key.")
    return key_id


def _require_subject(subject: object) -> None:
    if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT_CHARACTERS:
        raise UnauthenticatedError("The token names no user.")
