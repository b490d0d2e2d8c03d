"""The caller, and what a request's headers claim of it. With AUTH=none they are believed: for the own machine only."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from store.errors import InvalidRequestError
from store.ids import require_id

TENANT_HEADER: Final = "x-tenant-id"
USER_HEADER: Final = "x-user-id"
NOBODY_IN_PARTICULAR: Final = "local"


class Caller(NamedTuple):
    """The tenant and user that a request acts for, both valid ids, and whether it may change what is the tenant's."""

    tenant: str
    user: str
    is_admin: bool = False


def caller_of(headers: Mapping[str, str]) -> Caller:
    """The caller that the headers claim, `local` where they claim none; an administrator too, there being no proof.

    `headers` is looked up by lower-case name; InvalidRequestError where a header holds no valid id. A header that is
    there but blank is refused: falling back to `local` would mix a misconfigured client's sessions with others'.
    """
    return Caller(_id(headers, TENANT_HEADER), _id(headers, USER_HEADER), is_admin=True)


def _id(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    return NOBODY_IN_PARTICULAR if value is None else require_id(_as_utf8(value, name), name)


def _as_utf8(value: str, name: str) -> str:
    """The server decodes header bytes as Latin-1, clients send UTF-8. Bytes that are not UTF-8 are refused, since
    two spellings of one name would be two users."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeEncodeError:
        return value  # not decoded as Latin-1 in the first place
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{name} is not UTF-8.") from error
