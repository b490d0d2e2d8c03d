"""Checks answers against the served OpenAPI description, more strictly than it demands. Holds no test."""

import re
from typing import Any

import httpx
from jsonschema import Draft202012Validator

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
PAYLOADS = {"data", "input", "output", "custom", "metadata", "details", "value"}  # a caller's or an agent's own JSON


class Shapes:
    """The components of one description."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    @classmethod
    async def of(cls, http: httpx.AsyncClient) -> "Shapes":
        """Those that the application serves."""
        return cls((await http.get("/openapi.json")).json())

    def check(self, value: Any, component: str) -> None:
        """AssertionError where `value` is no such component, has members besides, nulls, or times of another form."""
        root = {"$ref": f"#/components/schemas/{component}", "components": self._document["components"]}
        problems = [error.message for error in Draft202012Validator(root).iter_errors(value)]
        assert problems == []
        self._check_members(value, {"$ref": f"#/components/schemas/{component}"}, component)

    def _check_members(self, value: Any, schema: dict[str, Any], where: str) -> None:
        schema = self._resolved(schema)
        if schema.get("format") == "date-time":
            assert TIME.fullmatch(value), f"{where}: {value}"
        if isinstance(value, list) and "items" in schema:
            for item in value:
                self._check_members(item, schema["items"], f"{where}[]")
        if isinstance(value, dict) and "properties" in schema:
            assert set(value) <= set(schema["properties"]), f"{where}: {sorted(value)}"
            for name, member in value.items():
                assert member is not None or name in PAYLOADS, f"{where}.{name} is null"
                self._check_members(member, schema["properties"][name], f"{where}.{name}")

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def check_error(self, value: Any) -> None:
        """An error's body; its details may be any of those described."""
        self.check(value, "Error")
