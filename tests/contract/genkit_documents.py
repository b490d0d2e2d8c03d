"""Documents as Genkit's own stores write them, in each of their three dialects. Holds no test.

Made after what those stores write: the tests with the real packages compare. A conversation is a list of rows, each of
them a dict of the fields that a Genkit snapshot has, `state` included.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

import jsonpatch

from store.canonical import Json
from store.database import Kind, Path, Put, Value

Dialect: TypeAlias = Literal["go", "javascript", "python"]
DIALECTS: tuple[Dialect, ...] = ("go", "javascript", "python")
GenkitRow: TypeAlias = dict[str, Any]

TENANT = "acme"
BEGAN = datetime(2025, 12, 24, 18, 0, 0, 123_000, tzinfo=UTC)


def genkit_row(number: int, state: Json = None, **fields: Json) -> GenkitRow:
    """The row of turn `number` of a linear conversation; `fields` differ from a turn that ended well."""
    row: GenkitRow = {"snapshotId": f"row-{number}", "createdAt": BEGAN + timedelta(minutes=number), "state": state}
    if number > 0:
        row["parentId"] = f"row-{number - 1}"
    row |= {"status": "completed", "finishReason": "stop", **fields}
    return {name: value for name, value in row.items() if value is not None or name == "state"}


def conversation(turns: int, session_id: str = "s") -> list[GenkitRow]:
    """Turns that end well, with a state that keeps changing: messages, custom state and artifacts."""
    messages: list[Json] = []
    rows = []
    for number in range(turns):
        messages = [
            *messages,
            {"role": "user", "content": [{"text": f"Frage {number}: schön 日本 🙂"}]},
            {"role": "model", "content": [{"text": f"answer {number}"}], "metadata": {"n": number}},
        ]
        custom = {"count": number, "odd": {"a/b": 1, "~": [None, True, number]}}
        state: dict[str, Json] = {"sessionId": session_id, "messages": messages, "custom": custom}
        if number % 2:
            state["artifacts"] = [{"name": "doc", "parts": [{"text": f"v{number}"}]}]
        rows.append(genkit_row(number, state))
    return rows


def genkit_writes(dialect: Dialect, rows: Sequence[GenkitRow], session_id: str = "s", interval: int = 4) -> list[Put]:
    """The documents of a conversation whose last row is the one that its session document names."""
    made: dict[str, dict[str, Value]] = {}
    states = {row["snapshotId"]: row["state"] for row in rows}
    writes: list[Put] = []
    for row in rows:
        chain = _chain(row, made, interval)
        made[row["snapshotId"]] = chain
        fields = _row_fields(dialect, row, session_id) | _spelled_chain(dialect, chain)
        if chain["kind"] == "checkpoint":
            writes += _shards(row)
        else:
            patch = jsonpatch.make_patch(states[row["parentId"]], row["state"]).patch
            fields["statePatch"] = spelled_patch(dialect, patch)
        writes.append(Put(Path(Kind.SNAPSHOTS, TENANT, row["snapshotId"]), fields))
    writes.append(Put(Path(Kind.POINTERS, TENANT, session_id), _pointer(dialect, rows[-1], made)))
    return writes


def _chain(row: GenkitRow, made: dict[str, dict[str, Value]], interval: int) -> dict[str, Value]:
    parent = made.get(row.get("parentId", ""))
    if parent is None or len(parent["segmentPath"]) + 1 >= interval:
        own = {"checkpointId": row["snapshotId"], "checkpointShardCount": len(_chunks(row))}
        return own | {"kind": "checkpoint", "segmentPath": []}
    return parent | {"kind": "diff", "segmentPath": [*parent["segmentPath"], row["snapshotId"]]}


def _chunks(row: GenkitRow) -> list[bytes]:
    """Cut without regard to characters, as the real ones are."""
    text = json.dumps(row["state"], ensure_ascii=False, separators=(",", ":")).encode()
    return [text[start : start + 97] for start in range(0, len(text), 97)]


def _shards(row: GenkitRow) -> list[Put]:
    return [
        Put(Path(Kind.SHARDS, TENANT, f"{row['snapshotId']}_{index}"), {"chunk": chunk})
        for index, chunk in enumerate(_chunks(row))
    ]


def _row_fields(dialect: Dialect, row: GenkitRow, session_id: str) -> dict[str, Value]:
    fields = {name: value for name, value in row.items() if name not in ("state", "error")} | {"sessionId": session_id}
    fields.setdefault("updatedAt", fields["createdAt"])
    for name in ("createdAt", "updatedAt", "heartbeatAt"):
        if name in fields:
            fields[name] = spelled_time(dialect, fields[name])
    if "error" in row:
        fields["error"] = json.dumps(row["error"]).encode() if dialect == "go" else row["error"]
    return fields


def spelled_time(dialect: Dialect, time: datetime) -> Value:
    """A time as the dialect writes it."""
    if dialect == "go":
        return time
    if dialect == "python":
        return time.isoformat()
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def spelled_patch(dialect: Dialect, operations: list[Json]) -> Value:
    """A patch as the dialect writes it."""
    if dialect == "javascript":
        return operations
    text = json.dumps(operations, ensure_ascii=False, separators=(",", ":"))
    return text.encode() if dialect == "go" else text


def _spelled_chain(dialect: Dialect, chain: dict[str, Value]) -> dict[str, Value]:
    """Go leaves an empty list out."""
    return {name: value for name, value in chain.items() if value != [] or dialect != "go"}


def _pointer(dialect: Dialect, row: GenkitRow, made: dict[str, dict[str, Value]]) -> dict[str, Value]:
    chain = {name: value for name, value in made[row["snapshotId"]].items() if name != "kind"}
    fields = _spelled_chain(dialect, chain) | {"currentSnapshotId": row["snapshotId"]}
    fields["updatedAt"] = spelled_time(dialect, row["createdAt"])
    return fields | ({"currentCreatedAt": row["createdAt"]} if dialect == "go" else {})
