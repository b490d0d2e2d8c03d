"""Bodies that start a turn or stop one."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from functions.settings import DisconnectPolicy
from functions.wire.messages import GivenMessage, GivenResume
from functions.wire.queries import require_one
from functions.wire.validation import MessageId, ModelName, SessionId, SnapshotId, WireModel, id_named, problem


class ChatRequest(WireModel):
    """Starts a turn with a message, or goes on with an interrupted one."""

    nullable: ClassVar[frozenset[str]] = frozenset({"lastMessageId"})

    session_id: SessionId | None = Field(None, description="Absent, and no `snapshotId`: a session is created.")
    message: GivenMessage | None = Field(None, description="What the user says; instead of `resume`.")
    resume: GivenResume | None = Field(None, description="Answers to open tool requests; instead of `message`.")
    last_message_id: MessageId | None = Field(
        None,
        description="The caller's last message: required whenever there is one. Null is the same as absent.",
        json_schema_extra={"type": ["string", "null"]},
    )
    snapshot_id: SnapshotId | None = Field(None, description="Continue from this snapshot instead of the head.")
    model: ModelName | None = Field(None, description="Sets a new session's model, else must equal the session's.")
    detach: bool = Field(False, description="Answer 202 at once; the turn runs on.")
    on_disconnect: DisconnectPolicy | None = Field(None, description="What happens when the last reader leaves.")

    @model_validator(mode="after")
    def _one_purpose(self) -> Self:
        if (self.message is None) == (self.resume is None):
            raise problem("must have either message or resume")
        if self.resume is not None and self.session_id is None and self.snapshot_id is None:
            raise problem("must name the sessionId or the snapshotId that resume belongs to")
        return self


class AbortRequest(WireModel):
    """Stops one turn: by its snapshot, or the one that its session runs."""

    snapshot_id: SnapshotId | None = Field(None, description="This turn; instead of `sessionId`.")
    session_id: SessionId | None = Field(None, description="The turn that the session runs; instead of `snapshotId`.")

    @model_validator(mode="after")
    def _one_selector(self) -> Self:
        return require_one(self, self.snapshot_id, self.session_id)


class QueuedTurnRequest(WireModel):
    """A turn that the queue delivers."""

    tenant: Annotated[str, id_named("tenant")] = Field(description="Whose turn it is.")
    user: Annotated[str, id_named("user")] = Field(description="Whose turn it is.")
    snapshot_id: SnapshotId = Field(description="The turn.")
