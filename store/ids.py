"""Which ids are accepted, and how new ones are made. Pure: checks happen before any I/O."""

import re
import unicodedata
import uuid

from store.errors import InvalidRequestError

MAX_ID_BYTES = 1400  # Firestore takes 1,500; the rest is left for the suffix of a segment's id, or a session's
MAX_SESSION_ID_BYTES = 1420  # of a stored one, which may end with its user (`store.adapters.own_ids`)
MAX_MESSAGE_ID_CHARACTERS = 128

_RESERVED = re.compile(r"__.*__", re.DOTALL)
_SESSIONS = uuid.UUID("6c1b0c52-8f5e-5d0a-9a55-0f6d3f0f7a11")  # our own namespace, so that no other UUIDv5 collides


def require_session_id(value: object, name: str = "sessionId") -> str:
    """`value` as the id of a stored session."""
    return require_id(value, name, MAX_SESSION_ID_BYTES)


def require_id(value: object, name: str, most: int = MAX_ID_BYTES) -> str:
    """`value` as an id that every backend can store, of `most` bytes, or InvalidRequestError naming `name`."""
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} must be a string.")
    problem = _problem(value, most)
    if problem:
        raise InvalidRequestError(f"{name} {problem}.")
    return value


def _problem(value: str, most: int) -> str | None:
    if not value.strip():
        return "must not be blank"
    if value in (".", "..") or _RESERVED.fullmatch(value):
        return "must not be '.', '..' or of the form __x__"
    if "/" in value:
        return "must not contain '/'"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
        return "must not contain control characters or lone surrogates"
    if len(value.encode()) > most:
        return f"must not be longer than {most} bytes"
    return None


def require_message_id(value: object) -> str:
    """`value` as a message id: 1 to 128 printable characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_MESSAGE_ID_CHARACTERS or not value.isprintable():
        raise InvalidRequestError(f"message.id must be 1 to {MAX_MESSAGE_ID_CHARACTERS} printable characters.")
    return value


def session_id_of_first_message(tenant: str, user: str, message_id: str) -> str:
    """The session that a first message opens, so that its resend finds the same one (UUIDv5)."""
    return str(uuid.uuid5(_SESSIONS, f"{tenant}\n{user}\n{message_id}"))


def mint_id() -> str:
    """A fresh random id (UUIDv4)."""
    return str(uuid.uuid4())
