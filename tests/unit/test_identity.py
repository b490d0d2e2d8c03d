"""Who is calling where every caller is believed."""

import pytest

from functions.identity import Caller, caller_of
from store.errors import InvalidRequestError


def as_received(text: str) -> str:
    """A UTF-8 header as the server hands it over."""
    return text.encode().decode("latin-1")


def test_a_caller_without_headers_is_local() -> None:
    assert caller_of({}) == Caller("local", "local", is_admin=True)


def test_each_header_counts_alone() -> None:
    assert caller_of({"x-user-id": "ada"}) == Caller("local", "ada", is_admin=True)
    assert caller_of({"x-tenant-id": "acme"}) == Caller("acme", "local", is_admin=True)


def test_names_beyond_ascii_arrive_whole() -> None:
    headers = {"x-user-id": as_received("Zoë 🦊"), "x-tenant-id": "Zoë 🦊"}
    assert caller_of(headers) == Caller("Zoë 🦊", "Zoë 🦊", is_admin=True)


@pytest.mark.parametrize("value", ["", "  ", "a/b", "..", "__x__", "a\x00b", "é" * 701])
def test_a_header_that_holds_no_id_is_refused_rather_than_taken_for_local(value: str) -> None:
    with pytest.raises(InvalidRequestError, match="x-user-id"):
        caller_of({"x-user-id": as_received(value)})


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="x-tenant-id is not UTF-8"):
        caller_of({"x-tenant-id": "caf\xe9"})
