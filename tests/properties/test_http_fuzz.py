"""Requests made from the served description, such as fit it and such as do not: each answer is one that the description
names, none is a failure of ours, and what is refused leaves nothing behind."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from functions.handlers import retention
from functions.openapi import openapi_document
from tests.properties.fuzzed_app import FuzzedApp, fuzzed

SCHEMA = schemathesis.openapi.from_dict(openapi_document())
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
FEW = 4
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def can_be_wrong(operation: Any) -> bool:
    """Whether a request can break its schema at all: any text is a fitting id."""
    types = {parameter.definition["schema"].get("type") for parameter in operation.query}
    return bool(operation.body) or bool(types - {"string"})


KINDS = [
    pytest.param(operation, mode, id=f"{operation.label}-{mode}")
    for operation in OPERATIONS
    for mode in schemathesis.GenerationMode
    if mode.is_positive or can_be_wrong(operation)
]
MANY = -(-5000 // len(KINDS))  # so that all together are at least 5,000
every_kind = pytest.mark.parametrize(("operation", "mode"), KINDS)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[FuzzedApp]:
    monkeypatch.setattr(retention, "_LONGEST_SLEEP", 0.0)
    with fuzzed(ABORT_GRACE="0.01", WAIT_MAX="0.05") as app:
        yield app


def with_known_ids(case: schemathesis.Case[Any], known: dict[str, str]) -> None:
    """Puts ids that exist where the case has made some up: otherwise everything would end with "not found"."""
    for place in (case.path_parameters, case.query, case.body):
        if isinstance(place, dict):
            place.update({name: value for name, value in known.items() if name in place})


def request_of(app: FuzzedApp, case: schemathesis.Case[Any]) -> httpx.Request:
    """The case as bytes, as the library's own transport would send it."""
    prepared = requests.Request(**case.as_transport_kwargs(base_url="http://app")).prepare()
    assert prepared.method is not None
    assert prepared.url is not None
    # The queue's last try: before it, 503 asks the queue to come again.
    headers = {"x-cloudtasks-taskretrycount": "10"}
    headers |= {name: str(value) for name, value in prepared.headers.items() if name.lower() != "content-length"}
    body = prepared.body or b""
    assert isinstance(body, str | bytes)
    return app.app.http.build_request(prepared.method, prepared.url, headers=headers, content=body)


def fuzz(app: FuzzedApp, operation: Any, mode: schemathesis.GenerationMode, examples: int, repeatable: bool) -> None:
    @settings(max_examples=examples, deadline=None, database=None, derandomize=repeatable, suppress_health_check=QUIET)
    @given(case=operation.as_strategy(mode), is_known=st.booleans())
    def one(case: schemathesis.Case[Any], is_known: bool) -> None:
        if is_known:
            with_known_ids(case, app.known)
        case.validate_response(app.ask(request_of(app, case)), checks=CHECKS)

    one()


@every_kind
def test_a_few_requests_of_every_kind_are_answered_as_described(
    app: FuzzedApp, operation: Any, mode: schemathesis.GenerationMode
) -> None:
    fuzz(app, operation, mode, FEW, repeatable=True)


@pytest.mark.slow
@every_kind
def test_thousands_of_requests_are_answered_as_described(
    app: FuzzedApp, operation: Any, mode: schemathesis.GenerationMode
) -> None:
    fuzz(app, operation, mode, MANY, repeatable=False)


def test_every_route_of_the_description_is_asked() -> None:
    described = {(method, path) for path, methods in openapi_document()["paths"].items() for method in methods}
    assert {(operation.method, operation.path) for operation in OPERATIONS} == described


def test_the_slow_set_makes_at_least_five_thousand_requests() -> None:
    assert MANY * len(KINDS) >= 5000
