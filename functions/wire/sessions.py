"""Bodies about sessions."""

from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import AfterValidator, Field, model_validator

from functions.wire.validation import (
    MessageId,
    ModelName,
    SnapshotId,
    WireModel,
    id_named,
    problem,
    require_unicode,
)

MAX_TITLE_CHARACTERS: Final = 100


def _trimmed(value: str) -> str:
    title = require_unicode(value).strip()
    if len(title) > MAX_TITLE_CHARACTERS:
        raise problem(f"must be at most {MAX_TITLE_CHARACTERS} characters")
    return title


def _not_blank(title: str) -> str:
    if not title:
        raise problem("must not be blank")
    return title


NewSessionId = Annotated[str, id_named("id")]


class CreateSessionRequest(WireModel):
    """Makes a session that no turn has run in yet."""

    nullable: ClassVar[frozenset[str]] = frozenset({"custom"})

    id: NewSessionId | None = Field(
        None, description="Minted by the server when absent. The same id again is the same session."
    )
    title: Annotated[str, AfterValidator(_trimmed)] = Field(
        "", description="At most 100 characters, trimmed. Blank is the same as absent: untitled."
    )
    model: ModelName | None = Field(None, description="The model of the session's turns.")
    temporary: bool = Field(
        False, description="Not listed, and gone a fixed time after its creation, where the server sets one."
    )
    custom: Any = Field(None, description="The custom state to begin with, any JSON value.")

    @property
    def has_custom(self) -> bool:
        """Whether `custom` was given; null is a value like any other."""
        return "custom" in self.model_fields_set


class PatchSessionRequest(WireModel):
    """Renames a session, or gives it another model."""

    title: Annotated[str, AfterValidator(_trimmed), AfterValidator(_not_blank)] | None = Field(
        None, description="1 to 100 characters, trimmed."
    )
    model: ModelName | None = Field(None, description="The model of the session's further turns.")

    @model_validator(mode="after")
    def _some_change(self) -> Self:
        if self.title is None and self.model is None:
            raise problem("must change the title or the model")
        return self


MAX_INSTRUCTIONS: Final = 4000


def _instructions(value: str) -> str:
    if not value.strip() or len(value) > MAX_INSTRUCTIONS:
        raise problem(f"must be 1 to {MAX_INSTRUCTIONS} characters")
    return require_unicode(value)


class TruncateRequest(WireModel):
    """Rewinds the transcript."""

    message_id: MessageId = Field(
        description="A user message goes with all after it; a model message stays with its tool messages."
    )
    last_message_id: MessageId | None = Field(None, description="Refused where this is not the last message.")


class RestoreRequest(WireModel):
    """Takes an earlier state back, whole."""

    snapshot_id: SnapshotId = Field(description="Whose state the session shall continue from.")
    last_message_id: MessageId | None = Field(None, description="Refused where this is not the last message.")


class BranchRequest(WireModel):
    """Makes a session with a prefix of this one's transcript."""

    message_id: MessageId = Field(description="A user message is left out, a model message is the last one taken.")
    id: NewSessionId | None = Field(
        None, description="The new session's id, minted when absent. The same call again gives the same branch."
    )


class CompactRequest(WireModel):
    """Sums the transcript up for the turns to come."""

    instructions: Annotated[str, AfterValidator(_instructions)] | None = Field(
        None, description="What the summary shall mind in particular."
    )
