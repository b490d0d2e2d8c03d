"""Models of what callers send, and one clear message for what does not fit.

Pydantic checks Python objects that our own codec has parsed; it never parses JSON text and never dumps a payload, since
it would turn NaN into null and lone surrogates into errors of its own.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from store.errors import InvalidRequestError
from store.ids import MAX_MESSAGE_ID_CHARACTERS, require_id

MAX_SHOWN: Final = 40  # characters of a caller's own text in a message
MAX_MODEL_CHARACTERS: Final = 256


class WireModel(BaseModel):
    """Strict, frozen, camelCase, no unknown members, and no explicit null except where `nullable` names the member."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True
    )
    nullable: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _refuse_null(cls, value: Any) -> Any:
        for name in value if isinstance(value, dict) else ():
            if value[name] is None and name not in cls.nullable and name in cls.member_names():
                raise problem("must be left out rather than null", name)
        return value

    @classmethod
    def member_names(cls) -> frozenset[str]:
        """The members' names on the wire."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())


_Model = TypeVar("_Model", bound=WireModel)


def require_model(model: type[_Model], value: object) -> _Model:
    """`value` as a `model`; InvalidRequestError names the path of the first member that does not fit."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        path, reason = _first_problem(error)
        # Without the cause, which would carry the whole input into a log.
        raise InvalidRequestError(f"{path or 'The request'} {reason}.") from None


def fitting(model: type[WireModel], value: object) -> None:
    """For a validator that keeps the object it was given: fails, with the path, where `value` is no `model`."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        path, reason = _first_problem(error)
        raise problem(reason, path) from None


def problem(reason: str, path: str = "") -> PydanticCustomError:
    """For a validator: an error whose message is `reason`, written to follow the path of the member at fault."""
    return PydanticCustomError("problem", "{reason}", {"reason": reason, "path": path})


def shown(text: str) -> str:
    """A caller's own text in a message: escaped where unprintable, at most 40 characters of it."""
    cut = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in cut)


def id_named(name: str) -> AfterValidator:
    """The check that a member called `name` is an id the store can keep."""
    return AfterValidator(lambda value: require_id(value, name))


def require_printable(value: str, most: int) -> str:
    """For a validator: `value` if it has 1 to `most` characters, all printable."""
    if not 1 <= len(value) <= most or not value.isprintable():
        raise problem(f"must be 1 to {most} printable characters")
    return value


def require_unicode(value: str) -> str:
    """For a validator: `value` without lone surrogates, which pydantic lets through and no database keeps."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise problem("must not contain lone surrogates") from None
    return value


SessionId = Annotated[str, id_named("sessionId")]
SnapshotId = Annotated[str, id_named("snapshotId")]
MessageId = Annotated[str, AfterValidator(lambda value: require_printable(value, MAX_MESSAGE_ID_CHARACTERS))]
ModelName = Annotated[str, AfterValidator(lambda value: require_printable(value, MAX_MODEL_CHARACTERS))]


_REASONS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "string_type": "must be a string",
    "string_unicode": "must not contain lone surrogates",
    "string_too_short": "must not be empty",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be an array",
    "literal_error": "must be {expected}",
    "too_short": "must not be empty",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
}
"""What is said of each of pydantic's own errors. Their texts are not used: some quote the input."""


def _first_problem(error: ValidationError) -> tuple[str, str]:
    first = error.errors(include_url=False, include_input=False)[0]
    path, context = _path(first["loc"]), first.get("ctx", {})
    if first["type"] == "problem":
        return _joined(path, context["path"]), context["reason"]
    return path, _REASONS.get(first["type"], "is not valid").format(**context)


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path = _joined(path, f"[{step}]" if isinstance(step, int) else shown(step))
    return path


def _joined(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer and inner and not inner.startswith("[") else outer + inner
