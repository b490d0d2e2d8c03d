"""Which ids are accepted, and which are made."""

import uuid
from typing import Any

import pytest

from store.errors import InvalidRequestError
from store.ids import (
    MAX_ID_BYTES,
    MAX_SESSION_ID_BYTES,
    mint_id,
    require_id,
    require_message_id,
    require_session_id,
    session_id_of_first_message,
)


@pytest.mark.parametrize(
    "value",
    [
        "a", " a ", "a b", "...", "..a", "__x", "x__", "_", "é", "日本", "🎉", "\u202e", "%2F", "a\\b",
        "x" * MAX_ID_BYTES, "é" * (MAX_ID_BYTES // 2), "0", "-", "~", "__a__b",
    ],
    ids=lambda value: ascii(value)[:12],
)  # fmt: skip
def test_an_id_that_a_database_can_hold_is_accepted_as_it_is(value: str) -> None:
    assert require_id(value, "snapshotId") == value


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "\t", "\u3000", ".", "..", "__x__", "____", "__a__b__", "__\n__", "a/b", "/", "a\0", "\x1f", "\x7f",
        "\x85", "\ud800", "x" * (MAX_ID_BYTES + 1), "é" * (MAX_ID_BYTES // 2 + 1), None, 1, True, b"a", ["a"],
    ],
    ids=lambda value: ascii(value)[:12],
)  # fmt: skip
def test_an_id_that_one_cannot_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="snapshotId"):
        require_id(value, "snapshotId")


def test_a_stored_session_may_have_a_longer_id() -> None:
    longest = "x" * MAX_SESSION_ID_BYTES
    assert require_session_id(longest) == longest
    for wrong in (longest + "x", "a/b", None):
        with pytest.raises(InvalidRequestError, match="sessionId"):
            require_session_id(wrong)


@pytest.mark.parametrize("value", ["a", " ", "x" * 128, "é", "🎉", "a/b", ".."])
def test_a_message_id_is_any_short_printable_text(value: str) -> None:
    assert require_message_id(value) == value


@pytest.mark.parametrize("value", ["", "x" * 129, "a\n", "\0", "\u2028", "\ud800", "\u200b", None, 1])
def test_a_message_id_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"message\.id"):
        require_message_id(value)


def test_minted_ids_are_uuids_and_differ() -> None:
    minted = {mint_id() for _ in range(100)}
    assert len(minted) == 100
    assert {uuid.UUID(each).version for each in minted} == {4}


def test_the_session_of_a_first_message_is_told_by_tenant_user_and_message() -> None:
    session_id = session_id_of_first_message("acme", "ann", "m")
    assert session_id == session_id_of_first_message("acme", "ann", "m")
    assert uuid.UUID(session_id).version == 5
    others = {
        session_id_of_first_message(*each) for each in (("acme", "ann", "n"), ("acme", "bob", "m"), ("b", "ann", "m"))
    }
    assert len(others | {session_id}) == 4


def test_the_session_of_a_first_message_is_the_same_in_every_release() -> None:
    """A resend has to find it after an update too."""
    assert session_id_of_first_message("acme", "ann", "m") == str(
        uuid.uuid5(uuid.UUID("6c1b0c52-8f5e-5d0a-9a55-0f6d3f0f7a11"), "acme\nann\nm")
    )
