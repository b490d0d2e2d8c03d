"""Headers that tell browsers and caches to be careful with our answers. Pure, but for the response that they go to."""

from typing import Final, TypeVar

from starlette.responses import Response

_Response = TypeVar("_Response", bound=Response)

PAGE_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""What a page of ours may load and do: nothing inline, nothing from elsewhere, in nobody's frame."""

DATA_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
"""For everything else, should a browser be made to show it as a page."""


def harden(response: _Response) -> _Response:
    """The response with the headers that every answer carries. What a handler has said itself is kept."""
    for name, value in security_headers(response.headers.get("content-type", "")).items():
        response.headers.setdefault(name, value)
    return response


def security_headers(content_type: str) -> dict[str, str]:
    """Every answer may hold somebody's data, errors and empty ones included, so none is cached unless it says so."""
    is_page = content_type.partition(";")[0].strip().lower() == "text/html"
    return {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Content-Security-Policy": PAGE_POLICY if is_page else DATA_POLICY,
    }
