"""The served description of the HTTP contract."""

import json
from typing import Any

import pytest
from openapi_spec_validator import validate

from functions.openapi import openapi_document
from functions.openapi.routes import ROUTES


def responses(path: str, method: str) -> dict[str, Any]:
    found: dict[str, Any] = openapi_document()["paths"][path][method]["responses"]
    return found


def test_the_document_is_valid_openapi() -> None:
    validate(openapi_document())


def test_every_route_of_the_table_is_described_once() -> None:
    paths = openapi_document()["paths"]
    described = {(method, path) for path, methods in paths.items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    assert len({route.operation for route in ROUTES}) == len(ROUTES) == len(described)


def test_every_reference_points_to_a_component() -> None:
    document = openapi_document()
    text = json.dumps(document)
    referred = {part.split('"')[0] for part in text.split('"$ref": "#/components/')[1:]}
    known = {f"{kind}/{name}" for kind, found in document["components"].items() for name in found}
    assert referred <= known
    assert "schemas/UserMessage" in referred


def test_members_are_absent_rather_than_null_except_the_last_message() -> None:
    schemas = openapi_document()["components"]["schemas"]
    nullable = [
        (schema, name)
        for schema, found in schemas.items()
        for name, member in found.get("properties", {}).items()
        if "null" in json.dumps(member.get("type", "")) or {"type": "null"} in member.get("anyOf", [])
    ]
    assert nullable == [("ChatRequest", "lastMessageId")]


def test_a_chat_answers_json_or_a_stream_and_names_its_conflicts() -> None:
    answers = responses("/chat", "post")
    assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "`agent_session_busy`" in answers["409"]["description"]
    assert {"400", "404", "413", "415", "422", "429", "500", "501", "503", "504"} <= set(answers)


def test_a_liveness_check_names_no_failure_of_the_store() -> None:
    assert set(responses("/health", "get")) == {"200", "431", "500"}


def test_queries_and_paths_become_parameters_with_their_limits() -> None:
    parameters = openapi_document()["paths"]["/sessions/{sessionId}/messages"]["get"]["parameters"]
    named = {parameter["name"]: parameter for parameter in parameters if "name" in parameter}
    assert named["limit"]["schema"] == {"type": "integer", "default": 100, "minimum": 1, "maximum": 1000}
    assert (named["sessionId"]["in"], named["sessionId"]["required"]) == ("path", True)
    assert named["cursor"]["required"] is False


@pytest.mark.parametrize(("path", "needed"), [("/chat", True), ("/abort", True), ("/sessions", False)])
def test_a_body_is_required_where_an_empty_one_is_refused(path: str, needed: bool) -> None:
    assert openapi_document()["paths"][path]["post"]["requestBody"]["required"] is needed


def test_each_call_gives_a_document_of_its_own() -> None:
    openapi_document()["paths"].clear()
    assert openapi_document()["paths"]
