"""Genkit's own JavaScript client, unmodified, against a server on the emulator."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.byte_cutter import byte_cutter
from tests.acceptance.server_process import CLOSED, running, server
from tests.genkit.packages import NODE_FOLDER, run_script
from tests.genkit.specification import wait_until_ready

TEXT = "日本の 🙂 schön\n\u2028 ende " + "väldigt " * 20

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def seen(firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the client saw in each scenario."""
    settings = firestore_settings | {"AGENT": "echo", "ABORT_GRACE": "0.5"}
    folder = tmp_path_factory.mktemp("javascript")
    process, closed = server(folder, settings), server(folder, CLOSED, "closed")
    with running(process, closed), byte_cutter(process.port) as cut:
        wait_until_ready(process.url)
        urls = {"url": f"{process.url}/agents/echo", "cutUrl": f"http://127.0.0.1:{cut}/agents/echo"}
        urls["closedUrl"] = f"{closed.url}/agents/echo"
        yield run_script(NODE_FOLDER / "agents.mjs", {**urls, "user": "ann", "text": TEXT}, {})
    assert "never retrieved" not in process.output


def test_no_scenario_ends_in_an_error_of_its_own(seen: dict[str, Any]) -> None:
    assert {name: found["unexpected"] for name, found in seen.items() if "unexpected" in found} == {}
    assert len(seen) == 18


def test_turns_of_a_chat_belong_together(seen: dict[str, Any]) -> None:
    assert seen["sends"] == {
        "texts": ["echo: one", "echo: two"],
        "reasons": ["stop", "stop"],
        "isOneSession": True,
        "snapshots": 2,
        "messages": 4,
    }


def test_a_stream_adds_up_to_the_answer(seen: dict[str, Any]) -> None:
    assert seen["streams"]["pieces"] > 5
    assert seen["streams"]["streamed"] == seen["streams"]["text"] == f"echo: {TEXT}"


def test_an_answer_that_is_cut_at_every_byte_arrives_whole(seen: dict[str, Any]) -> None:
    assert seen["cut"] == {"text": f"echo: {TEXT}"}


def test_custom_state_is_patched_as_it_changes(seen: dict[str, Any]) -> None:
    [[first, after_first], [second, after_second]] = seen["custom"]["seen"]
    assert first == [{"op": "replace", "path": "", "value": {"n": 1, "list": [1]}}]
    assert after_first == {"n": 1, "list": [1]}
    assert all(operation["path"] for operation in second)
    assert after_second == seen["custom"]["state"] == {"n": 2, "list": [1, 2]}


def test_artifacts_are_streamed_and_the_newest_of_a_name_is_kept(seen: dict[str, Any]) -> None:
    plan, notes = ({"name": "plan", "parts": [{"text": "second"}]}, {"name": "notes", "parts": [{"text": "x"}]})
    assert [artifact["name"] for artifact in seen["artifacts"]["streamed"]] == ["plan", "plan", "notes"]
    assert seen["artifacts"]["held"] == seen["artifacts"]["told"] == [plan, notes]


def test_an_interrupt_is_asked_and_answered(seen: dict[str, Any]) -> None:
    found = seen["interrupts"]
    assert (found["reason"], found["input"], found["then"]) == ("interrupted", {"sure": True}, "stop")
    assert '"yes"' in found["answered"]


def test_a_chat_is_loaded_by_snapshot_and_by_session(seen: dict[str, Any]) -> None:
    assert seen["loads"] == {
        "messages": [2, 2],
        "state": {"kept": True},
        "parent": True,
        "status": "completed",
        "ids": True,
        "isSameSession": True,
    }


def test_a_session_has_the_id_that_its_client_chose(seen: dict[str, Any]) -> None:
    assert seen["names"]["ids"] == [seen["names"]["sessionId"]] * 3
    assert seen["names"]["messages"] == 4


def test_a_missing_snapshot_is_not_found_and_aborting_it_does_nothing(seen: dict[str, Any]) -> None:
    assert "404" in seen["missing"]["get"]["message"]
    assert seen["missing"]["abort"] is None


def test_a_detached_turn_is_waited_for(seen: dict[str, Any]) -> None:
    assert seen["detaches"] == {
        "pending": "pending",
        "hasState": False,
        "status": "completed",
        "text": "echo: later",
    }


def test_a_detached_turn_is_aborted(seen: dict[str, Any]) -> None:
    assert seen["aborts"] == {"previous": "pending", "status": "aborted", "again": "aborted"}


def test_a_failed_turn_is_an_error_and_the_chat_goes_on(seen: dict[str, Any]) -> None:
    found = seen["fails"]
    assert "on purpose" in found["failed"]["message"]
    assert (found["isKept"], found["text"], found["same"]) == (4, "echo: on we go", True)
    assert seen["failsFirst"]["text"] == "echo: again"


def test_misuse_is_told_by_its_status(seen: dict[str, Any]) -> None:
    assert seen["misuses"]["failed"]["status"] == "FAILED_PRECONDITION"
    assert "Cannot send 'state'" in seen["misuses"]["failed"]["message"]


def test_two_chats_from_one_snapshot_are_branches(seen: dict[str, Any]) -> None:
    assert seen["branches"]["texts"] == [
        ["root", "echo: root", "left", "echo: left"],
        ["root", "echo: root", "right", "echo: right"],
    ]


def test_headers_may_be_a_function_and_tell_who_asks(seen: dict[str, Any]) -> None:
    assert "404" in seen["asyncHeaders"]["hidden"]["message"]
    assert (seen["asyncHeaders"]["calls"], seen["asyncHeaders"]["text"]) == (2, "echo: theirs")


def test_a_message_keeps_the_id_in_its_metadata(seen: dict[str, Any]) -> None:
    assert seen["echoesAMessageId"]["message"] == {
        "role": "user",
        "content": [{"text": "named"}],
        "metadata": {"mood": "good", "id": "my-id"},
    }


def test_who_is_not_let_in_is_told_in_the_protocols_own_shape(seen: dict[str, Any]) -> None:
    for told in seen["strangers"].values():
        assert "401" in told["message"], told
        assert '{"status":"UNAUTHENTICATED","message":' in told["message"], told
