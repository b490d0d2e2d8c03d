"""The shapes of answers, as JSON Schema. Requests are not here: their models describe themselves."""

from typing import Any, Final

from store.canonical import Json

Schema = dict[str, Json]

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TIME: Final[Schema] = {"type": "string", "format": "date-time", "description": "RFC 3339, UTC, microseconds."}
ANYTHING: Final[Schema] = {}
STATUS: Final[Schema] = {
    "type": "string",
    "enum": ["pending", "aborting", "completed", "failed", "aborted", "expired"],
}
ENDED: Final[Schema] = {"type": "string", "enum": ["completed", "failed", "aborted"]}
FINISH_REASON: Final[Schema] = {
    "type": "string",
    "enum": ["stop", "length", "blocked", "interrupted", "other", "unknown", "aborted", "failed"],
}


def one_of_them(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def items(schema: Schema) -> Schema:
    """An array of `schema`."""
    return {"type": "array", "items": schema}


def members(description: str, required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object; what is optional is absent rather than null."""
    properties: dict[str, Any] = required | (optional or {})
    return {"type": "object", "description": description, "properties": properties, "required": list(required)}


TURN_ERROR: Final = members("Why a turn failed.", {"status": TEXT, "message": TEXT}, {"details": ANYTHING})

REPLIES: Final[dict[str, Schema]] = {
    "Error": members(
        "What went wrong. Act on the code. Some codes carry more members.",
        {"code": TEXT, "message": TEXT},
        {
            "sessionId": TEXT,
            "snapshotId": TEXT,
            "retryAfterSeconds": COUNT,
            "lastMessageId": TEXT,
            "model": TEXT,
            "messageId": TEXT,
            "limit": COUNT,
        },
    ),
    "AgentError": members(
        "What went wrong, in Genkit's words.", {"status": TEXT, "message": TEXT}, {"details": ANYTHING}
    ),
    "Part": {
        "anyOf": [
            *map(
                one_of_them,
                ("TextPart", "ReasoningPart", "MediaPart", "DataPart", "ToolRequestPart", "ToolResponsePart"),
            ),
            {"type": "object", "description": "A part of another kind, kept as given."},
        ]
    },
    "Message": members(
        "One message of a transcript.",
        {
            "id": TEXT,
            "role": {"type": "string", "enum": ["user", "model", "system", "tool"]},
            "content": items(one_of_them("Part")),
        },
        {"metadata": {"type": "object"}},
    ),
    "Session": members(
        "A session, without its transcript.",
        {
            "id": TEXT,
            "title": TEXT,
            "agent": TEXT,
            "createdAt": TIME,
            "updatedAt": TIME,
            "temporary": FLAG,
            "isTurnActive": FLAG,
            "messageCount": COUNT,
        },
        {
            "model": TEXT,
            "expiresAt": TIME,
            "activeSnapshotId": TEXT,
            "lastMessageId": TEXT,
            "headSnapshotId": TEXT,
            "branchedFrom": members(
                "Where this session was branched off.", {"sessionId": TEXT, "snapshotId": TEXT, "messageId": TEXT}
            ),
        },
    ),
    "Artifact": members(
        "A result besides the transcript.",
        {"name": TEXT, "parts": items(one_of_them("Part"))},
        {"metadata": {"type": "object"}},
    ),
    "State": members(
        "What a turn continues from.",
        {"messages": items(one_of_them("Message"))},
        {"custom": ANYTHING, "artifacts": items(one_of_them("Artifact"))},
    ),
    "Snapshot": members(
        "The record of one turn; `state` is absent while it runs, where it failed, and in a metadata read.",
        {
            "snapshotId": TEXT,
            "sessionId": TEXT,
            "origin": {"type": "string", "enum": ["turn", "save", "truncate", "restore", "compact", "branch"]},
            "status": STATUS,
            "createdAt": TIME,
            "updatedAt": TIME,
        },
        {
            "parentId": TEXT,
            "finishReason": FINISH_REASON,
            "error": TURN_ERROR,
            "model": TEXT,
            "heartbeatAt": TIME,
            "state": one_of_them("State"),
        },
    ),
    "TurnEnd": members(
        "How a turn ended; `status` tells whether it succeeded.",
        {"sessionId": TEXT, "snapshotId": TEXT, "status": ENDED, "finishReason": FINISH_REASON},
        {
            "lastMessageId": TEXT,
            "message": one_of_them("Message"),
            "usage": members("Tokens.", {}, {"inputTokens": COUNT, "outputTokens": COUNT, "totalTokens": COUNT}),
            "error": TURN_ERROR,
        },
    ),
    "Detached": members(
        "A turn that runs on.",
        {"sessionId": TEXT, "snapshotId": TEXT, "status": {"type": "string", "const": "pending"}},
    ),
    "QueuedTurn": members("A delivery.", {"snapshotId": TEXT, "result": TEXT}),
    "Abort": members(
        "What an abort found and what it left.", {"snapshotId": TEXT, "previousStatus": STATUS, "status": STATUS}
    ),
    "SessionPage": members("A page of sessions.", {"sessions": items(one_of_them("Session"))}, {"nextCursor": TEXT}),
    "MessagePage": members("A page of messages.", {"messages": items(one_of_them("Message"))}, {"nextCursor": TEXT}),
    "SnapshotPage": members(
        "A page of a session's tree.", {"snapshots": items(one_of_them("TreeEntry"))}, {"nextCursor": TEXT}
    ),
    "TreeEntry": members(
        "A snapshot's place in the tree.",
        {"snapshotId": TEXT, "origin": TEXT, "status": STATUS, "createdAt": TIME},
        {"parentId": TEXT, "finishReason": TEXT, "text": TEXT},
    ),
    "Retention": members("A tenant's rules.", {"maxIdleDays": COUNT, "maxCountPerUser": COUNT}),
    "Sweep": members(
        "One sweep, in sessions.",
        {"examined": COUNT, "deleted": COUNT, "spared": COUNT, "done": {"type": "boolean"}},
        {"reasons": {"type": "object", "additionalProperties": COUNT}},
    ),
    "Erasure": members("An erasure that goes on.", {"done": {"type": "boolean"}}),
    "Compaction": members("A compaction.", {"message": one_of_them("Message")}),
    "AgentAnswer": members("Genkit's envelope of an answer.", {"result": {"type": "object"}}),
    "Health": members("The server answers.", {"status": TEXT}),
    "OpenApi": {"type": "object", "description": "This document."},
}
"""Components by name."""
