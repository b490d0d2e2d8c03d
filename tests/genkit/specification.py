"""Genkit's specification of its agents, driven over HTTP: its steps and its comparisons. Holds no test.

A list that is expected is found in order among others, a map with its members among others; what is not named is free.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

SPEC = Path(__file__).resolve().parents[3] / "shared" / "data" / "genkit_agent_spec.yaml"
_WHOLE = re.compile(r"^\{\{(\w+)\}\}$")
_PART = re.compile(r"\{\{(\w+)\}\}")
_ENDED = ("completed", "failed", "aborted", "expired")


def cases() -> list[dict[str, Any]]:
    """The cases that one request per step can express."""
    if not SPEC.is_file():
        return []
    found: list[dict[str, Any]] = yaml.safe_load(SPEC.read_text(encoding="utf-8"))["tests"]
    return [case for case in found if all(len(step.get("inputs") or [0]) == 1 for step in case["steps"])]


class Run:
    """One case against one server."""

    def __init__(self, http: httpx.Client, agent: str, script: Path) -> None:
        self._http = http
        self._agent = f"/agents/{agent}"
        self._script = script
        self._captured: dict[str, Any] = {}

    def step(self, step: dict[str, Any]) -> None:
        """Does one step; AssertionError where the answer is another one than expected."""
        captures = {name: step.pop(name) for name in list(step) if name.startswith("capture")}
        resolved = self._resolved(step)
        kind = resolved["type"]
        if kind == "send":
            self._send(resolved, captures)
        elif kind == "getSnapshotData":
            wanted = {name: resolved[name] for name in ("snapshotId", "sessionId") if name in resolved}
            self._check_snapshot(self._call("getSnapshot", wanted), resolved.get("expectSnapshot") or {})
        elif kind == "abort":
            told = self._call("abort", {"snapshotId": resolved["snapshotId"]})
            assert told.get("status") == resolved["expectPreviousStatus"]
        else:
            assert kind == "waitUntilCompleted"
            self._check_snapshot(self._wait(resolved["snapshotId"]), resolved.get("expectSnapshot") or {})

    def _send(self, step: dict[str, Any], captures: dict[str, str]) -> None:
        script = {"responses": step.get("modelResponses") or [], "chunks": step.get("streamChunks")}
        self._script.write_text(json.dumps(script), encoding="utf-8")
        [given] = step["inputs"]
        chunks, end = self._stream({"data": given, "init": step.get("init") or {}})
        if "expectError" in step:
            error = end["error"]
            assert error["status"] == step["expectError"]["status"]
            assert step["expectError"]["message"] in error["message"]
            return
        output = end["result"]
        if "expectChunks" in step:
            _check_chunks(chunks, step["expectChunks"])
        _check_output(output, step.get("expectOutput") or {})
        for name, target in captures.items():
            state = output.get("state") or {}
            values = {"captureSnapshotId": output.get("snapshotId"), "captureState": state}
            value = values.get(name, state.get("sessionId"))
            assert value, f"there is nothing to capture as {target}: {output}"
            self._captured[target] = value

    def _stream(self, body: dict[str, Any]) -> tuple[list[Any], Any]:
        response = self._http.post(self._agent, json=body, headers={"Accept": "text/event-stream"})
        assert response.status_code == 200
        events = events_of(response.content)
        assert all(list(event) == ["message"] for event in events[:-1])
        return [event["message"] for event in events[:-1]], events[-1]

    def _call(self, route: str, data: dict[str, Any]) -> dict[str, Any]:
        response = self._http.post(f"{self._agent}/{route}", json={"data": data})
        assert response.status_code == 200, response.text
        result: dict[str, Any] = response.json()["result"]
        return result

    def _wait(self, snapshot_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = self._call("waitForSnapshot", {"snapshotId": snapshot_id})
            if found["status"] in _ENDED:
                return found
        raise AssertionError(f"{snapshot_id} did not end")

    def _check_snapshot(self, found: dict[str, Any], expected: dict[str, Any]) -> None:
        for name in ("parentId", "status", "finishReason"):
            if name in expected:
                assert found.get(name) == expected[name]
        if expected.get("hasSessionId"):
            assert found["state"]["sessionId"] == found["sessionId"] != ""
        require(found.get("state"), expected.get("stateContains"))
        require(found.get("error"), expected.get("errorContains"))

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._resolved(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._resolved(item) for item in value]
        if not isinstance(value, str):
            return value
        if whole := _WHOLE.match(value):
            return self._captured[whole.group(1)]
        return _PART.sub(lambda found: str(self._captured[found.group(1)]), value)


def wait_until_ready(url: str) -> None:
    """Returns once the server has reached its database: a cold emulator takes its time."""
    deadline = time.monotonic() + 60
    while httpx.get(f"{url}/ready", timeout=60, trust_env=False).status_code != 200:
        assert time.monotonic() < deadline, "the server does not reach its database"
        time.sleep(0.2)


def events_of(content: bytes) -> list[Any]:
    """The events of a stream, whose bytes must be just as its strictest clients need them."""
    assert content.endswith(b"\n\n")
    frames = content.decode("ascii").removesuffix("\n\n").split("\n\n")
    assert all(frame.startswith("data: {") and "\n" not in frame for frame in frames)
    events = [json.loads(frame.removeprefix("data: ")) for frame in frames]
    assert set(events[-1]) <= {"result", "error"}
    return events


def _check_chunks(chunks: list[Any], expected: list[dict[str, Any]]) -> None:
    assert len(chunks) == len(expected), chunks
    for chunk, wanted in zip(chunks, expected, strict=True):
        [(kind, value)] = wanted.items()
        assert list(chunk) == [kind]
        if kind == "turnEnd":
            if "finishReason" in value:
                assert chunk[kind].get("finishReason") == value["finishReason"]
        elif kind == "customPatch":
            assert [(operation["op"], operation["path"]) for operation in chunk[kind]] == [
                (operation["op"], operation["path"]) for operation in value
            ]
            require(chunk[kind], value)
        else:
            require(chunk[kind], value)


def _check_output(output: dict[str, Any], expected: dict[str, Any]) -> None:
    require(output.get("message"), expected.get("message"))
    require(output.get("state"), expected.get("stateContains"))
    require(output.get("artifacts"), expected.get("artifactsContain"))
    if "finishReason" in expected:
        assert output["finishReason"] == expected["finishReason"]
    if expected.get("hasSnapshotId"):
        assert output["snapshotId"]
    if expected.get("hasSessionId"):
        assert output["sessionId"]
    wanted = expected.get("errorContains") or {}
    if wanted:
        assert output["error"]["status"] == wanted.get("status", output["error"]["status"])
        assert wanted.get("message", "") in output["error"]["message"]


def require(actual: Any, expected: Any) -> None:
    """AssertionError where `actual` does not contain `expected`."""
    if expected is None:
        return
    if isinstance(expected, dict):
        assert isinstance(actual, dict), actual
        for name, value in expected.items():
            require(actual.get(name), value)
    elif isinstance(expected, list):
        assert isinstance(actual, list), actual
        rest = iter(actual)
        for item in expected:
            assert any(_contains(found, item) for found in rest), f"{item} is not in {actual}, or not there"
    else:
        assert actual == expected


def _contains(actual: Any, expected: Any) -> bool:
    try:
        require(actual, expected)
    except AssertionError:
        return False
    return True
