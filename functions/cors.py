"""Which other origins' pages may read our answers. Pure: from the setting and the request's headers to headers.

Credentials are never allowed: tokens travel in `Authorization`, and no cookie of ours exists.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from functions.identity import TENANT_HEADER, USER_HEADER
from functions.replies import COSTS_HEADER, TIMING_HEADER

EVERY_ORIGIN: Final = "*"

_EXPOSED: Final = f"Retry-After, {TIMING_HEADER}, {COSTS_HEADER}"
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": ", ".join(
        ("authorization", "content-type", "last-event-id", "traceparent", COSTS_HEADER, TENANT_HEADER, USER_HEADER)
    ),
    "Access-Control-Max-Age": "600",
}


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser asks what it may send; such a request runs no handler."""
    return method == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def cors_headers(allowed: Sequence[str], origin: str | None) -> dict[str, str]:
    """The headers that every answer to a request from `origin` carries; none where no origin is configured."""
    if not allowed:
        return {}
    if EVERY_ORIGIN in allowed:
        return {"Access-Control-Allow-Origin": EVERY_ORIGIN, "Access-Control-Expose-Headers": _EXPOSED}
    if origin is None or origin not in allowed:
        return {"Vary": "Origin"}  # a cache must not give this answer to an origin that is allowed
    return {
        "Vary": "Origin",
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": _EXPOSED,
    }


def preflight_headers(allowed: Sequence[str], origin: str | None) -> dict[str, str]:
    """The headers of the answer to a preflight."""
    headers = cors_headers(allowed, origin)
    return headers | _PREFLIGHT if "Access-Control-Allow-Origin" in headers else headers
