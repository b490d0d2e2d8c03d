"""Tokens: who is let in with one, and who is not."""

import base64
import json
import time
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from functions.errors import PermissionDeniedError, UnauthenticatedError
from functions.identity import Caller
from functions.identity.authentication import Believing
from functions.identity.firebase import FirebaseTokens, SchedulerTokens
from functions.identity.keys import KeysAnswer, PublicKeys
from tests.unit.token_issuer import ACCOUNT, AUDIENCE, PROJECT, Issuer, account_claims, key_set, unsigned, user_claims

ISSUER = Issuer()
STRANGER = Issuer("stranger")  # its key is not among the published ones


class FromNow(int):
    """Seconds from the moment of the test, which may come long after its collection."""


def at_once(claims: dict[str, Any]) -> dict[str, Any]:
    """The claims with times instead of offsets."""
    now = int(time.time())
    return {name: now + value if isinstance(value, FromNow) else value for name, value in claims.items()}


async def published(url: str) -> KeysAnswer:
    return KeysAnswer(key_set(ISSUER), {"Cache-Control": "max-age=3600"})


def keys() -> PublicKeys:
    return PublicKeys("https://keys.example.com", published)


def firebase(tenant_claim: str | None = None, admin_claim: str = "admin") -> FirebaseTokens:
    scheduler = SchedulerTokens(ACCOUNT, AUDIENCE, keys())
    return FirebaseTokens(PROJECT, keys(), tenant_claim=tenant_claim, admin_claim=admin_claim, scheduler=scheduler)


def bearer(token: str, **headers: str) -> Headers:
    return Headers({"authorization": f"Bearer {token}"} | headers)


async def caller(token: str, tenant_claim: str | None = None) -> Caller:
    return await firebase(tenant_claim).caller(bearer(token))


async def test_a_users_token_lets_in_and_each_user_is_a_tenant_where_no_claim_is_named() -> None:
    assert await caller(ISSUER.user("ada")) == Caller("ada", "ada", is_admin=False)


async def test_the_tenant_comes_from_the_claim_that_the_setting_names() -> None:
    assert await caller(ISSUER.user("ada", org="acme"), "org") == Caller("acme", "ada")


async def test_headers_that_name_somebody_else_have_no_say() -> None:
    headers = bearer(ISSUER.user("ada", org="acme"), **{"x-user-id": "eve", "x-tenant-id": "evil"})
    assert await firebase("org").caller(headers) == Caller("acme", "ada")


@pytest.mark.parametrize("tenant", [None, "", " ", "a/b", "..", "__x__", "a\nb", 7, True, ["acme"], {"id": "acme"}])
async def test_a_token_without_a_usable_tenant_is_refused_and_never_falls_back_to_its_user(tenant: Any) -> None:
    with pytest.raises(PermissionDeniedError):
        await caller(ISSUER.user("ada", org=tenant), "org")


@pytest.mark.parametrize("uid", ["a/b", "..", "__x__", "a\x00b"])
async def test_a_user_that_cannot_be_part_of_a_path_is_refused(uid: str) -> None:
    with pytest.raises(PermissionDeniedError):
        await caller(ISSUER.user(uid))


@pytest.mark.parametrize(
    ("value", "is_admin"), [(True, True), (False, False), ("true", False), (1, False), (None, False)]
)
async def test_only_a_claim_that_is_true_makes_an_administrator(value: Any, is_admin: bool) -> None:
    assert (await caller(ISSUER.user("ada", admin=value))).is_admin is is_admin


WRONG_CLAIMS: dict[str, dict[str, Any]] = {
    "of another project": {"aud": "demo-other"},
    "for several projects": {"aud": [PROJECT, "demo-other"]},
    "for nobody": {"aud": None},
    "of another issuer": {"iss": "https://securetoken.google.com/demo-other"},
    "of Google's accounts": {"iss": "https://accounts.google.com"},
    "without an issuer": {"iss": None},
    "without a subject": {"sub": None},
    "with an empty subject": {"sub": ""},
    "with a number as subject": {"sub": 7},
    "with a subject of 129 characters": {"sub": "x" * 129},
    "without an end": {"exp": None},
    "with a text as end": {"exp": "tomorrow"},
    "expired longer ago than clocks differ": {"exp": FromNow(-70)},
    "without a beginning": {"iat": None},
    "of the future": {"iat": FromNow(600)},
    "not valid yet": {"nbf": FromNow(600)},
    "without a sign-in": {"auth_time": None},
    "with a text as sign-in": {"auth_time": "today"},
    "with a flag as sign-in": {"auth_time": True},
    "of a sign-in to come": {"auth_time": FromNow(600)},
}


@pytest.mark.parametrize("changed", WRONG_CLAIMS.values(), ids=WRONG_CLAIMS.keys())
async def test_a_token_with_wrong_claims_is_refused(changed: dict[str, Any]) -> None:
    token = ISSUER.sign_as_it_is(user_claims(**at_once(changed)))
    with pytest.raises(UnauthenticatedError):
        await caller(token)


@pytest.mark.parametrize(
    "changed", [{"exp": FromNow(-40)}, {"iat": FromNow(40)}, {"auth_time": FromNow(40)}, {"sub": "x" * 128}]
)
async def test_clocks_may_differ_by_a_minute(changed: dict[str, Any]) -> None:
    assert (await caller(ISSUER.sign(user_claims(**at_once(changed))))).user == changed.get("sub", "ada")


def _segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _with_public_key_as_secret() -> str:
    """The classic: an HMAC whose secret is the public key, for a check that lets the token choose its algorithm."""
    head, body = _segment({"alg": "HS256", "kid": ISSUER.key_id}), _segment(user_claims())
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        f"{head}.{body}".encode(), json.dumps(ISSUER.public_key).encode()
    )
    return f"{head}.{body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def _tampered() -> str:
    head, _, signature = ISSUER.user("ada").split(".")
    return f"{head}.{_segment(user_claims('eve'))}.{signature}"


FORGED = {
    "unsigned": unsigned(user_claims()),
    "unsigned, naming a key": unsigned(user_claims(), kid=ISSUER.key_id),
    "unsigned, in capitals": unsigned(user_claims(), alg="NONE", kid=ISSUER.key_id),
    "signed by a stranger": STRANGER.user(),
    "signed by a stranger in another's name": STRANGER.sign(user_claims(), kid=ISSUER.key_id),
    "without a key id": ISSUER.sign(user_claims(), kid=None),
    "of another algorithm": ISSUER.sign(user_claims(), algorithm="RS512"),
    "of another padding": ISSUER.sign(user_claims(), algorithm="PS256"),
    "of a public secret": _with_public_key_as_secret(),
    "with other claims than were signed": _tampered(),
    "without its signature": ISSUER.user().rpartition(".")[0] + ".",
    "without a part": ISSUER.user().rpartition(".")[0],
    "with a part too many": ISSUER.user() + ".e30",
    "of the scheduler": ISSUER.account(),
    "of no token": "ada",
    "of two tokens": f"{ISSUER.user()} {ISSUER.user()}",
    "of a list as header": f"{_segment([])}.{_segment({})}.e30",
    "deep": f"{base64.urlsafe_b64encode(b'[' * 9000).decode().rstrip('=')}.e30.e30",
    "of a huge number as header": f"{base64.urlsafe_b64encode(b'1' * 9000).decode().rstrip('=')}.e30.e30",
}


@pytest.mark.parametrize("token", FORGED.values(), ids=FORGED.keys())
async def test_a_forged_token_is_refused(token: str) -> None:
    with pytest.raises(UnauthenticatedError):
        await caller(token)


@given(
    st.text(st.characters(codec="latin-1"), max_size=200)
    | st.from_regex(r"[\w-]{0,60}\.[\w-]{0,60}\.[\w-]{0,60}", alphabet=st.characters(codec="ascii"))
)
async def test_whatever_stands_in_place_of_a_token_is_refused_as_such(text: str) -> None:
    with pytest.raises(UnauthenticatedError):
        await caller(text)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer  "},
        {"authorization": f"Basic {ISSUER.user()}"},
        {"authorization": ISSUER.user()},
        {"x-user-id": "ada", "x-tenant-id": "acme"},
        {"cookie": f"token={ISSUER.user()}"},
    ],
)
async def test_without_a_bearer_token_nobody_is_let_in(headers: dict[str, str]) -> None:
    with pytest.raises(UnauthenticatedError):
        await firebase().caller(Headers(headers))


async def test_of_two_authorization_headers_neither_counts() -> None:
    raw = [(b"authorization", f"Bearer {ISSUER.user(uid)}".encode()) for uid in ("ada", "eve")]
    with pytest.raises(UnauthenticatedError):
        await firebase().caller(Headers(raw=raw))


async def test_the_scheme_is_read_as_it_is_written_anywhere() -> None:
    assert (await firebase().caller(Headers({"authorization": f"bEARER {ISSUER.user()}"}))).user == "ada"


@pytest.mark.parametrize("issuer", ["https://accounts.google.com", "accounts.google.com"])
async def test_the_schedulers_token_lets_it_in(issuer: str) -> None:
    await firebase().require_scheduler(bearer(ISSUER.account(iss=issuer)))


@pytest.mark.parametrize(
    "changed", [{"email": "eve@example.com"}, {"email": None}, {"email_verified": False}, {"email_verified": "true"}]
)
async def test_another_account_is_not_the_scheduler(changed: dict[str, Any]) -> None:
    with pytest.raises(PermissionDeniedError):
        await firebase().require_scheduler(bearer(ISSUER.sign(account_claims(**at_once(changed)))))


@pytest.mark.parametrize(
    "token",
    [
        ISSUER.account(aud="https://elsewhere.example.com"),
        ISSUER.account(iss="https://accounts.example.com"),
        ISSUER.account(exp=int(time.time()) - 70),
        STRANGER.account(),
        ISSUER.user(email=ACCOUNT, email_verified=True),
        unsigned(account_claims(), kid=ISSUER.key_id),
    ],
    ids=["for elsewhere", "of another issuer", "expired", "of a stranger", "of a user", "unsigned"],
)
async def test_a_wrong_token_is_not_the_schedulers(token: str) -> None:
    with pytest.raises(UnauthenticatedError):
        await firebase().require_scheduler(bearer(token))


async def test_nobody_is_the_scheduler_where_none_is_configured() -> None:
    alone = FirebaseTokens(PROJECT, keys(), tenant_claim=None, admin_claim="admin")
    with pytest.raises(PermissionDeniedError):
        await alone.require_scheduler(bearer(ISSUER.account()))


async def test_without_authentication_anybody_is_the_scheduler_and_whoever_they_say() -> None:
    await Believing().require_scheduler(Headers())
    assert await Believing().caller(Headers({"x-user-id": "ada"})) == Caller("local", "ada", is_admin=True)
