"""Who is calling: what headers claim, and the tokens that prove it."""

from functions.identity.callers import TENANT_HEADER, USER_HEADER, Caller, caller_of

__all__ = ["TENANT_HEADER", "USER_HEADER", "Caller", "caller_of"]
