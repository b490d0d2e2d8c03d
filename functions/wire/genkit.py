"""Bodies of Genkit's agent protocol: `{data, init?}`. Members that are unknown here are ignored, as its servers do."""

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, PlainValidator, model_validator

from functions.dialects.genkit import message_in
from functions.wire.messages import Resume, UserMessage
from functions.wire.queries import require_one
from functions.wire.validation import SessionId, SnapshotId, WireModel, fitting, problem
from store.canonical import Json


class GenkitModel(WireModel):
    """Ignores what it does not know."""

    model_config = ConfigDict(extra="ignore")


def _message(value: Json) -> Json:
    """A user's message; `metadata.id` is its id."""
    message = message_in(value)
    fitting(UserMessage, message)
    return message


def _resume(value: Json) -> Json:
    fitting(Resume, value)
    return dict(value)


class AgentInput(GenkitModel):
    """One turn's input."""

    message: Annotated[dict[str, Any], PlainValidator(_message, json_schema_input_type=UserMessage)] | None = Field(
        None, description="What the user says, its id in `metadata.id`; instead of `resume`."
    )
    resume: Annotated[dict[str, Any], PlainValidator(_resume, json_schema_input_type=Resume)] | None = Field(
        None, description="Answers to open tool requests; instead of `message`."
    )
    detach: bool = Field(False, description="Answer at once; the turn runs on.")

    @model_validator(mode="after")
    def _one_purpose(self) -> Self:
        if (self.message is None) == (self.resume is None):
            raise problem("must have either message or resume")
        return self


class AgentInit(GenkitModel):
    """What the turn goes on with: a snapshot, a session, or a state that the client keeps itself."""

    session_id: SessionId | None = None
    snapshot_id: SnapshotId | None = None
    state: dict[str, Any] | None = None


class AgentCall(GenkitModel):
    """`POST /agents/{name}`."""

    data: AgentInput
    init: AgentInit = Field(default_factory=AgentInit)


class SnapshotLookup(GenkitModel):
    """Which snapshot: this one, or the session's latest."""

    snapshot_id: SnapshotId | None = None
    session_id: SessionId | None = None
    metadata_only: bool = False

    @model_validator(mode="after")
    def _one_selector(self) -> Self:
        return require_one(self, self.snapshot_id, self.session_id)


class SnapshotCall(GenkitModel):
    """`POST /agents/{name}/getSnapshot`."""

    data: SnapshotLookup


class OneSnapshot(GenkitModel):
    """One snapshot."""

    snapshot_id: SnapshotId


class OneSnapshotCall(GenkitModel):
    """`POST /agents/{name}/abort` and `/waitForSnapshot`."""

    data: OneSnapshot
