"""What a failed turn stores and tells of its failure."""

from typing import Any

import pytest

from functions.agents.base import AgentError
from functions.engine.ending import INTERNAL, error_of
from store.canonical import dump


def test_an_agents_own_error_is_told_in_its_words() -> None:
    details = {"after": [1, None]}
    told = error_of(AgentError("UNAVAILABLE", "The model is away.", details))
    assert told == {"status": "UNAVAILABLE", "message": "The model is away.", "details": details}


@pytest.mark.parametrize("details", [float("nan"), {"at": object()}, {1: 2}, ["\ud800"], ("a",)])
def test_an_error_that_json_cannot_hold_still_ends_the_turn(details: Any) -> None:
    told = error_of(AgentError("UNAVAILABLE", "The model is away.", details))
    assert told["status"] == INTERNAL
    assert dump(told)


def test_an_error_that_the_agent_did_not_choose_tells_nothing_of_its_cause() -> None:
    assert error_of(KeyError("password")) == {"status": INTERNAL, "message": "The agent failed."}
