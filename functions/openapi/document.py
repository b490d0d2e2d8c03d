"""Builds the description from the table of routes, the request models and the shapes of answers. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from functions.dialects.native import MEDIA_TYPE
from functions.errors import (
    HeadersTooLargeError,
    PayloadTooLargeError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnsupportedMediaTypeError,
    status_of_kind,
)
from functions.identity import TENANT_HEADER, USER_HEADER
from functions.identity.access import Access
from functions.openapi.replies import REPLIES, Schema, one_of_them
from functions.openapi.route import STORE_ERRORS, Errors, Reply, Route
from functions.openapi.routes import ROUTES
from functions.wire.messages import KINDS
from functions.wire.validation import WireModel, require_model
from store.errors import InvalidRequestError, StoreError

CONTRACT_VERSION: Final = "1.0"

_REFERENCE: Final = "#/components/schemas/{model}"
_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_TOKENS: Final = {Access.CALLER: "IdToken", Access.SCHEDULER: "SchedulerToken"}
_CALLER: Final = {"Tenant": TENANT_HEADER, "User": USER_HEADER}


class _Generator(GenerateJsonSchema):
    """Says of an optional member that it may be absent, not that it may be null; and invents no titles."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        if described.get("default", ...) is None:
            del described["default"]
        return described

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def openapi_document() -> dict[str, Any]:
    """A fresh copy of the whole description."""
    schemas = _request_schemas(ROUTES)
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in ROUTES:
        paths[route.path][route.method] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "firesession",
            "version": CONTRACT_VERSION,
            "summary": "Durable sessions for AI agents.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(paths),
        "components": {
            "schemas": _components(schemas),
            "parameters": _caller_parameters(),
            "securitySchemes": _token_schemes(),
        },
    }


def _request_schemas(routes: Iterable[Route]) -> dict[str, Schema]:
    models: dict[str, type[WireModel]] = {model.__name__: model for model in KINDS.values()}
    for route in routes:
        models |= {model.__name__: model for model in (route.body, route.query) if model is not None}
    _, found = models_json_schema(
        [(model, "validation") for model in models.values()], ref_template=_REFERENCE, schema_generator=_Generator
    )
    return dict(found["$defs"])


def _components(requests: dict[str, Schema]) -> dict[str, Schema]:
    queries = {route.query.__name__ for route in ROUTES if route.query}  # they become parameters instead
    return {name: schema for name, schema in sorted((requests | REPLIES).items()) if name not in queries}


def _caller_parameters() -> dict[str, Schema]:
    return {
        component: {
            "name": header,
            "in": "header",
            "required": False,
            "description": "Believed where the server runs with AUTH=none; `local` when absent.",
            "schema": {"type": "string"},
        }
        for component, header in _CALLER.items()
    }


def _token_schemes() -> dict[str, Schema]:
    what = {Access.CALLER: "A Firebase ID token", Access.SCHEDULER: "An OIDC token of SCHEDULER_ACCOUNT"}
    return {
        _TOKENS[access]: {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": f"{token}; needed where the server runs with AUTH=firebase.",
        }
        for access, token in what.items()
    }


def _operation(route: Route, schemas: dict[str, Schema]) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": route.operation, "summary": route.summary}
    parameters = _parameters(route, schemas)
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": one_of_them(route.body.__name__)}}
        operation["requestBody"] = {"required": not _takes_nothing(route.body), "content": content}
    if route.access in _TOKENS:
        operation["security"] = [{_TOKENS[route.access]: []}, {}]  # the empty one: AUTH=none
    operation["responses"] = {
        **{str(status): _success(reply) for status, reply in route.replies.items()},
        **{str(status): _failure(status, kinds, route.refusal) for status, kinds in sorted(_failures(route).items())},
    }
    return operation


def _takes_nothing(model: type[WireModel]) -> bool:
    """Whether an empty body, which reads as `{}`, is a request."""
    try:
        require_model(model, {})
    except InvalidRequestError:
        return False
    return True


def _parameters(route: Route, schemas: dict[str, Schema]) -> list[Schema]:
    parameters: list[Schema] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PATH_PARAMETER.findall(route.path)
    ]
    if route.query is not None:
        schema = schemas[route.query.__name__]
        required = schema.get("required", [])
        for name, member in schema["properties"].items():
            parameters.append({"name": name, "in": "query", "required": name in required} | _split(member))
    if route.access is Access.CALLER:
        parameters += [{"$ref": f"#/components/parameters/{component}"} for component in _CALLER]
    return parameters


def _split(member: Schema) -> Schema:
    """A member's description belongs to the parameter, the rest to its schema."""
    schema = {key: value for key, value in member.items() if key != "description"}
    return {"description": member["description"], "schema": schema}


def _success(reply: Reply) -> Schema:
    if reply.component is None:
        return {"description": reply.description}
    content: Schema = {"application/json": {"schema": one_of_them(reply.component)}}
    if reply.streamed:
        content[MEDIA_TYPE] = {
            "schema": {"type": "string", "description": "Server-sent events, ending with turn-end or error."}
        }
    return {"description": reply.description, "content": content}


def _failures(route: Route) -> dict[int, list[type[StoreError]]]:
    kinds: Errors = (*route.errors, HeadersTooLargeError)
    if route.body is not None or route.query is not None or route.reads_store:
        kinds += (InvalidRequestError,)
    if route.body is not None:
        kinds += (PayloadTooLargeError, UnsupportedMediaTypeError)
    if route.access is not Access.ANYBODY:
        kinds += (UnauthenticatedError, PermissionDeniedError)
    if route.reads_store:
        kinds += STORE_ERRORS
    found: dict[int, list[type[StoreError]]] = defaultdict(list)
    for kind in (*kinds, StoreError):
        found[status_of_kind(kind)].append(kind)
    return found


def _failure(status: int, kinds: list[type[StoreError]], component: str) -> Schema:
    codes = ", ".join(dict.fromkeys(f"`{kind.code}`" for kind in kinds))
    what = "Refused" if status < 500 else "Failed"
    return {"description": f"{what}: {codes}.", "content": {"application/json": {"schema": one_of_them(component)}}}
