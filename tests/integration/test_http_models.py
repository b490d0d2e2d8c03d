"""Models over HTTP: what a session's turns run on, and what is told where that is configured no more."""

from contextlib import nullcontext

import pytest

from functions.agents.catalogue import require_known_model
from store.errors import ModelUnavailableError
from tests.acceptance.chat_client import ok, send
from tests.contract.engine_turns import ScriptedAgent
from tests.integration.http_app import served
from tests.integration.refusals import refused


class Choosy(ScriptedAgent):
    """Can use some models only."""

    models: tuple[str, ...] = ("here", "there")
    others: tuple[ScriptedAgent, ...] = ()


async def test_a_model_that_is_configured_no_more_is_told_and_healed_by_a_change() -> None:
    agent = Choosy()
    async with served(agent) as app:
        session = ok(await app.http.post("/sessions", json={"model": "gone"}), 201)
        body = {"sessionId": session["id"], "message": "a"}
        answer = await refused(app, "POST", "/chat", 409, "agent_session_model_unavailable", json=body)
        assert answer["model"] == "gone"
        asserted = body | {"model": "here"}  # another model than the session's comes first
        await refused(app, "POST", "/chat", 409, "agent_session_model_stale", json=asserted)
        ok(await app.http.patch(f"/sessions/{session['id']}", json={"model": "here"}))
        end = await send(app.http, asserted)
        assert end["status"] == "completed"
        row = ok(await app.http.get("/snapshot", params={"snapshotId": end["snapshotId"]}))
        assert row["model"] == "here"
    assert [turn.model for turn in agent.turns] == ["here"]


async def test_no_session_is_made_with_or_changed_to_a_model_that_there_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Choosy()
    monkeypatch.setattr("functions.wiring.load_agent", lambda _settings: agent)
    code = "agent_session_model_unavailable"
    async with served() as app:
        for body in ({"model": "gone"}, {"model": "gone", "id": "own", "custom": 1}, {"model": "gone", "title": "a"}):
            assert (await refused(app, "POST", "/sessions", 409, code, json=body))["model"] == "gone"
        session = ok(await app.http.post("/sessions", json={"model": "here"}), 201)
        path = f"/sessions/{session['id']}"
        await refused(app, "PATCH", path, 409, code, json={"model": "gone", "title": "a"})
        assert ok(await app.http.patch(path, json={"model": "there"}))["model"] == "there"
        await refused(app, "PATCH", "/sessions/missing", 404, "session_not_found", json={"model": "here"})


async def test_an_agent_that_does_not_say_its_models_takes_any() -> None:
    async with served() as app:
        session = ok(await app.http.post("/sessions", json={"model": "any:thing"}), 201)
        assert ok(await app.http.patch(f"/sessions/{session['id']}", json={"model": "other"}))["model"] == "other"


class Beside(Choosy):
    """Served beside the configured agent."""

    name = "beside"
    models = ("elsewhere",)


class Taking(ScriptedAgent):
    """Does not say what it can use."""

    name = "taking"


@pytest.mark.parametrize(("others", "is_known"), [((), False), ((Beside(),), True), ((Taking(),), True)])
def test_a_model_of_any_agent_that_is_served_is_known(others: tuple[ScriptedAgent, ...], is_known: bool) -> None:
    agent = Choosy()
    agent.others = others
    with nullcontext() if is_known else pytest.raises(ModelUnavailableError):
        require_known_model(agent, "elsewhere")


async def test_no_session_is_made_for_a_model_that_there_is_not() -> None:
    agent = Choosy()
    async with served(agent) as app:
        for message in ("a", {"id": "a", "role": "user", "content": [{"text": "a"}]}):
            body = {"message": message, "model": "gone"}
            await refused(app, "POST", "/chat", 409, "agent_session_model_unavailable", json=body)
        assert (await send(app.http, {"message": "a", "model": "there"}))["status"] == "completed"
    assert len(agent.turns) == 1


async def test_a_first_send_finds_its_turn_though_its_model_is_gone_by_now() -> None:
    agent = Choosy()
    async with served(agent) as app:
        body = {"message": {"id": "a", "role": "user", "content": [{"text": "a"}]}, "model": "here"}
        end = await send(app.http, body)
        agent.models = ("there",)
        assert await send(app.http, body) == end
    assert len(agent.turns) == 1
