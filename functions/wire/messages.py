"""The messages and parts that callers send. Their shape is checked; what is kept is the very object that was parsed,
with its key order and whatever else its parts hold."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, model_validator

from functions.wire.validation import MessageId, WireModel, fitting, problem, require_unicode
from store.canonical import Json

SERVERS_OWN_METADATA: Final = "isCompaction"


class PartModel(WireModel):
    """A part of a known kind; members besides are kept as given."""

    model_config = ConfigDict(extra="allow")
    metadata: dict[str, Any] | None = Field(None, description="Kept as given.")


class TextPart(PartModel):
    """Text."""

    text: str


class ReasoningPart(PartModel):
    """What a model thought."""

    reasoning: str


class Media(WireModel):
    """Where a medium is; the URL may be a data URL."""

    model_config = ConfigDict(extra="allow")
    url: str = Field(min_length=1)
    content_type: str | None = None


class MediaPart(PartModel):
    """A picture, a sound, a file."""

    media: Media


class DataPart(PartModel):
    """Any JSON value."""

    nullable: ClassVar[frozenset[str]] = frozenset({"data"})
    data: Any


class ToolRequest(WireModel):
    """A call that the model asks for."""

    model_config = ConfigDict(extra="allow")
    nullable: ClassVar[frozenset[str]] = frozenset({"input"})
    name: str = Field(min_length=1)
    ref: str = Field(min_length=1, description="Pairs the response with its request.")
    input: Any


class ToolResponse(WireModel):
    """The result of a call."""

    model_config = ConfigDict(extra="allow")
    nullable: ClassVar[frozenset[str]] = frozenset({"output"})
    name: str = Field(min_length=1)
    ref: str = Field(min_length=1, description="The `ref` of the request that this answers.")
    output: Any


class ToolRequestPart(PartModel):
    """A part that asks for a call."""

    tool_request: ToolRequest


class ToolResponsePart(PartModel):
    """A part that answers a call."""

    tool_response: ToolResponse


KINDS: Final[dict[str, type[PartModel]]] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "media": MediaPart,
    "data": DataPart,
    "toolRequest": ToolRequestPart,
    "toolResponse": ToolResponsePart,
}
"""The known kinds of parts by the member that makes a part one of them."""

MODELS_OWN_KINDS: Final = frozenset({"toolRequest", "toolResponse"})

DescribedPart: TypeAlias = TextPart | ReasoningPart | MediaPart | DataPart | dict[str, Any]
"""For the description only: what a user may send; a part of a kind that is unknown here is any object."""


def _user_part(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise problem("must be an object")
    if MODELS_OWN_KINDS & value.keys():
        raise problem("must not be a tool request or response; answer those by resume")
    for kind, model in KINDS.items():
        if kind in value:
            fitting(model, value)
    return value


UserPart = Annotated[dict[str, Any], PlainValidator(_user_part, json_schema_input_type=DescribedPart)]


def _user_metadata(value: dict[str, Json]) -> dict[str, Json]:
    if SERVERS_OWN_METADATA in value:
        raise problem("is the server's alone", SERVERS_OWN_METADATA)
    return value


class UserMessage(WireModel):
    """A user's message in full."""

    id: MessageId | None = Field(None, description="Minted by the server when absent. The same id is the same send.")
    role: Literal["user"]
    content: list[UserPart] = Field(min_length=1)
    metadata: Annotated[dict[str, Any], AfterValidator(_user_metadata)] | None = Field(
        None, description="Kept as given; `isCompaction` is the server's alone."
    )


class Resume(WireModel):
    """Answers the open tool requests of an interrupted turn: their results, or the requests that shall run again."""

    respond: list[ToolResponsePart] | None = Field(None, description="Results, by the requests' `ref`.")
    restart: list[ToolRequestPart] | None = Field(None, description="Requests to run again, by their `ref`.")

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.respond or self.restart):
            raise problem("must have at least one entry in respond or restart")
        return self


def _message(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        return {"role": "user", "content": [{"text": _text(value)}]}
    fitting(UserMessage, value)
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise problem("must be a string or an object")
    if not value:
        raise problem("must not be empty")
    return require_unicode(value)


def _resume(value: Json) -> dict[str, Json]:
    fitting(Resume, value)
    return dict(value)


GivenMessage = Annotated[
    dict[str, Any], PlainValidator(_message, json_schema_input_type=Annotated[str, Field(min_length=1)] | UserMessage)
]
"""The message as it was sent; a plain string becomes a message with one text part."""

GivenResume = Annotated[dict[str, Any], PlainValidator(_resume, json_schema_input_type=Resume)]
"""The resume object as it was sent."""
