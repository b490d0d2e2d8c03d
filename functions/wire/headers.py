"""How much of headers is taken."""

from collections.abc import Iterable
from typing import Final

from functions.errors import HeadersTooLargeError

MAX_HEADER_BYTES: Final = 32_768
"""Of all headers as HTTP/1.1 writes them, with what proxies and the framework add. Half of what the web server holds,
so that it is us who refuse, in our shape; a token with all the claims that it may carry takes a tenth."""

_AROUND: Final = len(": \r\n")


def require_small_headers(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """HeadersTooLargeError."""
    if sum(len(name) + len(value) + _AROUND for name, value in headers) > MAX_HEADER_BYTES:
        raise HeadersTooLargeError(MAX_HEADER_BYTES)
