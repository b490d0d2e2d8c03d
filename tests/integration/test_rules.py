"""The rules that guard the database against everybody but the functions, on the emulator, which compiles and applies
them. A client that is subject to rules comes with a user's token; the emulator believes one that nobody signed."""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from store.firestore.store import FirestoreStore
from store.models import NewSession, Scope
from tests.unit.token_issuer import unsigned, user_claims

RULES = Path(__file__).resolve().parents[2] / "emulator_config" / "firestore.rules"
ADA = Scope("acme", "ada")
OWNER = "owner"  # the emulator's word for a server library, to which rules do not apply


def ask(host: str, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
    """One request to the emulator's REST API: the status, and the answer's JSON."""
    connection = http.client.HTTPConnection(host, timeout=20)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
        return response.status, json.loads(text) if text.strip() else None
    finally:
        connection.close()


def apply_rules(host: str, project: str, text: str) -> tuple[int, Any]:
    files = {"rules": {"files": [{"name": "firestore.rules", "content": text}]}}
    return ask(host, "PUT", f"/emulator/v1/projects/{project}:securityRules", files)


def documents(project: str, *path: str) -> str:
    below = "".join(f"/{quote(segment, safe='')}" for segment in path)
    return f"/v1/projects/{project}/databases/(default)/documents{below}"


@pytest.fixture
async def session_path(emulator_host: str, project_id: str) -> tuple[str, ...]:
    """Where a session of Ada's lies, in a project with our rules."""
    assert apply_rules(emulator_host, project_id, RULES.read_text(encoding="utf-8"))[0] == 200
    store = FirestoreStore(project_id, emulator_host=emulator_host)
    try:
        session = await store.create_session(ADA, None, NewSession(agent="echo"))
    finally:
        await store.close()
    return ("genkit-sessions-pointers", "acme", "pointers", session.id)


TOKENS = {
    "nobody": None,
    "the owner": unsigned(user_claims("ada", org="acme")),
    "an administrator": unsigned(user_claims("root", admin=True)),
    "somebody else": unsigned(user_claims("eve")),
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
async def test_nobody_reads_or_writes_past_the_functions(
    emulator_host: str, project_id: str, session_path: tuple[str, ...], token: str | None
) -> None:
    address, folder = documents(project_id, *session_path), documents(project_id, *session_path[:-1])
    field = {"fields": {"title": {"stringValue": "Mine"}}}
    query = {"structuredQuery": {"from": [{"collectionId": "pointers", "allDescendants": True}]}}
    write = {"update": {"name": address.removeprefix("/v1/")} | field}
    requests: list[tuple[str, str, Any]] = [
        ("GET", address, None),
        ("GET", folder, None),
        ("PATCH", address, field),
        ("DELETE", address, None),
        ("POST", folder, field),
        ("POST", documents(project_id) + ":runQuery", query),
        ("POST", documents(project_id) + ":commit", {"writes": [write]}),
        ("GET", documents(project_id, "anything", "else"), None),
    ]
    for method, path, body in requests:
        status, answer = ask(emulator_host, method, path, body, token)
        assert status == 403, f"{method} {path}: {status} {answer}"
        assert "PERMISSION_DENIED" in json.dumps(answer)
    status, answer = ask(emulator_host, "GET", address, token=OWNER)
    assert (status, answer["fields"]["title"]["stringValue"]) == (200, "")


async def test_it_is_the_rules_that_refuse(emulator_host: str, project_id: str, session_path: tuple[str, ...]) -> None:
    """With rules that let everybody in, the very same request is answered: the test above can fail."""
    address, token = documents(project_id, *session_path), TOKENS["the owner"]
    assert ask(emulator_host, "GET", address, token=token)[0] == 403
    open_rules = RULES.read_text(encoding="utf-8").replace("if false", "if true")
    assert apply_rules(emulator_host, project_id, open_rules)[0] == 200
    assert ask(emulator_host, "GET", address, token=token)[0] == 200


def test_the_compiler_is_asked_for_real(emulator_host: str, project_id: str) -> None:
    status, answer = apply_rules(emulator_host, project_id, "service cloud.firestore { allow }")
    assert status == 400
    assert "compiling" in json.dumps(answer)
