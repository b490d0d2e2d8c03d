"""Genkit's own Python client, unmodified, against a server on the emulator."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.server_process import CLOSED, running, server
from tests.genkit.packages import PYTHON_FOLDER, run_script
from tests.genkit.specification import wait_until_ready

TEXT = "日本の 🙂 schön\n\u2028 ende " + "väldigt " * 20

pytestmark = [pytest.mark.genkit, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def seen(firestore_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the client saw in each scenario."""
    settings = firestore_settings | {"AGENT": "echo", "ABORT_GRACE": "0.5"}
    folder = tmp_path_factory.mktemp("python")
    process, closed = server(folder, settings), server(folder, CLOSED, "closed")
    with running(process, closed):
        wait_until_ready(process.url)
        urls = {"url": f"{process.url}/agents/echo", "closedUrl": f"{closed.url}/agents/echo"}
        given = {**urls, "user": "ann", "text": TEXT}
        yield run_script(PYTHON_FOLDER / "remote_agents.py", given, {})
    assert "never retrieved" not in process.output


def test_no_scenario_ends_in_an_error_of_its_own(seen: dict[str, Any]) -> None:
    assert {name: found["unexpected"] for name, found in seen.items() if "unexpected" in found} == {}
    assert len(seen) == 13


def test_turns_of_a_chat_belong_together(seen: dict[str, Any]) -> None:
    assert seen["sends"] == {
        "texts": ["echo: one", "echo: two"],
        "reasons": ["stop", "stop"],
        "isOneSession": True,
        "messages": ["one", "echo: one", "two", "echo: two"],
    }


def test_a_stream_adds_up_to_the_answer(seen: dict[str, Any]) -> None:
    assert seen["streams"]["pieces"] > 5
    assert seen["streams"]["streamed"] == seen["streams"]["text"] == f"echo: {TEXT}"


def test_custom_state_is_patched_as_it_changes(seen: dict[str, Any]) -> None:
    assert seen["custom"] == {"seen": [{"n": 1}, {"n": 2}], "state": {"n": 2}}


def test_the_newest_artifact_of_a_name_is_kept(seen: dict[str, Any]) -> None:
    plan = {"name": "plan", "parts": [{"text": "second"}]}
    assert seen["artifacts"] == {"held": [plan], "told": [plan]}


def test_an_interrupt_is_asked_and_answered(seen: dict[str, Any]) -> None:
    assert (seen["interrupts"]["reason"], seen["interrupts"]["input"]) == ("interrupted", {"sure": True})
    assert '"yes"' in seen["interrupts"]["answered"]


def test_a_chat_is_loaded_and_continued(seen: dict[str, Any]) -> None:
    assert seen["loads"] == {"messages": 2, "parent": True, "status": "completed", "isSameSession": True}
    assert seen["names"] == {"ids": True, "messages": 4}


def test_a_detached_turn_is_waited_for_or_aborted(seen: dict[str, Any]) -> None:
    assert seen["detaches"] == {"status": "completed", "text": "echo: later"}
    assert seen["aborts"] == {"previous": "pending", "status": "aborted"}


def test_a_failed_turn_is_an_error_and_the_chat_goes_on(seen: dict[str, Any]) -> None:
    assert "on purpose" in seen["fails"]["failed"]["message"]
    assert (seen["fails"]["text"], seen["fails"]["messages"]) == ("echo: on we go", 4)


def test_what_is_missing_or_another_s_is_not_found(seen: dict[str, Any]) -> None:
    assert (seen["missing"]["get"], seen["missing"]["abort"]) == (None, None)
    assert seen["missing"]["resume"]["status"] == "NOT_FOUND"
    assert seen["headers"] == {"hidden": None}


def test_who_is_not_let_in_is_told_by_the_status(seen: dict[str, Any]) -> None:
    for told in seen["strangers"].values():
        assert (told["status"], "bearer token" in told["message"]) == ("UNAUTHENTICATED", True), told
