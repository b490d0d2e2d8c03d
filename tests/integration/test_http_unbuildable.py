"""An application that cannot be made answers all the same, and says why in its log alone."""

import httpx

from functions.settings import read_settings
from tests.integration.http_app import asgi


async def test_an_agent_that_cannot_be_loaded_is_a_failure_of_ours_in_our_shape() -> None:
    settings = read_settings({"STORE": "memory", "AGENT": "nowhere.at_all:agent"})
    transport = httpx.ASGITransport(app=asgi(settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as http:
        for path in ("/health", "/sessions", "/nowhere"):
            answer = await http.get(path)
            expected = (404, "not_found") if path == "/nowhere" else (500, "internal")
            assert (answer.status_code, answer.json()["code"]) == expected
            assert "nowhere.at_all" not in answer.text
