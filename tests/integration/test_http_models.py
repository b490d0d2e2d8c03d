"""Models over HTTP: what a session's turns run on, and what is told where that is configured no more."""

from tests.acceptance.chat_client import ok, send
from tests.contract.engine_turns import ScriptedAgent
from tests.integration.http_app import served
from tests.integration.refusals import refused


class Choosy(ScriptedAgent):
    """Can use some models only."""

    models: tuple[str, ...] = ("here", "there")


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
