"""An issuer of signed tokens with a key pair of its own, for tests. Holds no test."""

import base64
import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

PROJECT = "demo-tokens"
AUDIENCE = "https://sessions.example.com/sweep"
ACCOUNT = "scheduler@demo-tokens.iam.example.com"


@cache
def private_key(key_id: str) -> rsa.RSAPrivateKey:
    """Kept, because a key pair takes a tenth of a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    """Signs with the key named `key_id`; two issuers of one name are the same."""

    def __init__(self, key_id: str = "first") -> None:
        self.key_id = key_id

    @property
    def public_key(self) -> dict[str, Any]:
        """As an entry of a JSON Web Key Set."""
        exported: dict[str, Any] = RSAAlgorithm.to_jwk(private_key(self.key_id).public_key(), as_dict=True)
        return exported | {"kid": self.key_id, "use": "sig", "alg": "RS256"}

    def sign(self, claims: dict[str, Any], *, algorithm: str = "RS256", **header: Any) -> str:
        """A token; `header` members replace or add to those that it would have, None takes one away."""
        headers = {name: value for name, value in ({"kid": self.key_id} | header).items() if value is not None}
        return jwt.encode(claims, private_key(self.key_id), algorithm=algorithm, headers=headers)

    def sign_as_it_is(self, claims: dict[str, Any]) -> str:
        """A token with claims that the library refuses to sign, being of a wrong type."""
        payload = json.dumps(claims).encode()
        return jwt.PyJWS().encode(payload, private_key(self.key_id), "RS256", headers={"kid": self.key_id})

    def user(self, uid: str = "ada", **claims: Any) -> str:
        """A Firebase ID token of a user."""
        return self.sign(user_claims(uid, **claims))

    def account(self, **claims: Any) -> str:
        """An OIDC token of the scheduler's account."""
        return self.sign(account_claims(**claims))


def key_set(*issuers: Issuer) -> bytes:
    """What the address of the keys answers."""
    return json.dumps({"keys": [issuer.public_key for issuer in issuers]}).encode()


def user_claims(uid: str = "ada", **changed: Any) -> dict[str, Any]:
    """A user's claims, valid now; None takes one away."""
    now = int(time.time())
    return without_none(
        {
            "iss": f"https://securetoken.google.com/{PROJECT}",
            "aud": PROJECT,
            "sub": uid,
            "user_id": uid,
            "auth_time": now - 60,
            "iat": now - 10,
            "exp": now + 3600,
        }
        | changed
    )


def account_claims(**changed: Any) -> dict[str, Any]:
    """The scheduler's claims, valid now; None takes one away."""
    now = int(time.time())
    return without_none(
        {
            "iss": "https://accounts.google.com",
            "aud": AUDIENCE,
            "sub": "1234567890",
            "email": ACCOUNT,
            "email_verified": True,
            "iat": now - 10,
            "exp": now + 3600,
        }
        | changed
    )


def without_none(claims: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in claims.items() if value is not None}


def unsigned(claims: dict[str, Any], **header: Any) -> str:
    """A token that nobody signed: algorithm none, as the emulators of Google's services take it."""
    parts = ({"alg": "none", "typ": "JWT"} | header, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
