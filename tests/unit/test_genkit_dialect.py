"""Genkit's agent protocol: frames, chunks, and messages with their ids in their metadata."""

import json

import pytest

from functions.dialects.genkit import (
    Chunks,
    error_out,
    frame,
    message_in,
    message_out,
    state_in,
    state_out,
    status_of_code,
)
from functions.dialects.native import STATE_PATCH, TEXT_DELTA, TURN_START
from store.errors import (
    DataLossError,
    InvalidRequestError,
    LeaseLostError,
    MessageIdConflictError,
    NotResumableError,
    SnapshotNotFoundError,
    StoreError,
    TurnBusyError,
)

BREAKS = "日本 🙂 \n \r \u2028 \x85 \0"


def test_a_frame_is_one_ascii_line_behind_one_space() -> None:
    made = frame({"message": BREAKS})
    assert made.startswith(b"data: {")
    assert made.endswith(b"}\n\n")
    assert made.count(b"\n") == 2
    assert b"\r" not in made
    assert all(byte < 128 for byte in made)
    assert json.loads(made.removeprefix(b"data: ")) == {"message": BREAKS}


def test_a_frame_refuses_what_is_outside_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        frame(float("inf"))


def test_events_without_a_chunk_are_left_out() -> None:
    chunks = Chunks()
    assert chunks.of(TURN_START, {"sessionId": "s"}) is None
    assert chunks.of(STATE_PATCH, [{"op": "remove", "path": "/a"}]) == {"customPatch": [{"op": "remove", "path": "/a"}]}


def test_pieces_of_one_message_share_its_index() -> None:
    chunks = Chunks()
    made = [chunks.of(TEXT_DELTA, {"messageId": name, "text": "x"}) for name in ("a", "a", "b", "a")]
    assert [chunk["modelChunk"]["index"] for chunk in made if chunk] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    "message",
    [
        {"id": "m", "role": "user", "content": []},
        {"id": "m", "role": "user", "content": [{"text": "x"}], "metadata": {"a": 1}},
        {"role": "model", "content": []},
    ],
)
def test_a_message_comes_back_from_the_wire_as_it_was(message: dict[str, object]) -> None:
    sent = message_out(message)
    assert "id" not in sent
    assert message_in(sent) == message


@pytest.mark.parametrize("metadata", [None, {"id": 5}, {"other": 1}, "text"])
def test_a_message_without_an_id_in_its_metadata_is_left_alone(metadata: object) -> None:
    message = {"role": "user", "content": [], "metadata": metadata}
    assert message_in(message) == message


def test_a_state_goes_out_with_the_members_that_genkit_knows_and_comes_back() -> None:
    given = {"messages": [{"role": "user", "content": [], "metadata": {"id": "m"}}], "custom": None, "other": 1}
    state = state_in(given)
    assert [raw.key for raw in state.messages or ()] == ["m"]
    assert state_out(state, "s") == {"sessionId": "s", "messages": given["messages"], "custom": None}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequestError("x"), "INVALID_ARGUMENT"),
        (SnapshotNotFoundError("x"), "NOT_FOUND"),
        (NotResumableError("x", "failed"), "FAILED_PRECONDITION"),
        (TurnBusyError("x", 3), "ABORTED"),
        (MessageIdConflictError("x"), "ALREADY_EXISTS"),
        (DataLossError("x", "y"), "DATA_LOSS"),
        (StoreError("x"), "INTERNAL"),
    ],
)
def test_every_error_has_a_canonical_status(error: StoreError, status: str) -> None:
    assert error_out(error)["status"] == status


def test_an_error_that_is_known_by_its_code_has_the_same_status() -> None:
    assert status_of_code(LeaseLostError.code) == "ABORTED"
    assert status_of_code("unavailable") == "UNAVAILABLE"
    assert status_of_code("internal") == "INTERNAL"
