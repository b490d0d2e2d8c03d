"""Google's public keys: fetched when a token needs one, kept as long as their answer allows, renewed as they rotate.

One set of keys belongs to one event loop. Nothing is fetched before the first token comes.
"""

import asyncio
import http.client
import json
import logging
import re
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from jwt import PyJWK, PyJWKSet, PyJWTError

from store.errors import UnavailableError

DEFAULT_LIFETIME: Final = 300.0  # seconds; of an answer that does not say how long it is good for
LONGEST_LIFETIME: Final = 86_400.0
GRACE: Final = 3600.0  # seconds that known keys outlive their lifetime while no new ones can be had
PAUSE: Final = 60.0  # seconds between two fetches that worked, so that made-up key ids cannot make us ask for ever
PAUSE_AFTER_FAILURE: Final = 5.0
TIMEOUT: Final = 5.0
MAX_ANSWER_BYTES: Final = 262_144

_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=\"?([0-9]{1,9})", re.IGNORECASE | re.ASCII)
_LOG = logging.getLogger("firesession.identity")


class KeysAnswer(NamedTuple):
    """A set of keys as JSON, and the answer's headers."""

    body: bytes
    headers: Mapping[str, str]


Fetch: TypeAlias = Callable[[str], Awaitable[KeysAnswer]]


async def fetch_over_http(url: str) -> KeysAnswer:
    """What is at `url`. OSError or HTTPException where nothing is. In a thread, since it blocks: this happens every few
    hours, for which another HTTP client is not worth its weight at a cold start."""
    return await asyncio.to_thread(_get, url)


def _get(url: str) -> KeysAnswer:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        return KeysAnswer(response.read(MAX_ANSWER_BYTES), response.headers)


class PublicKeys:
    """The keys at one address (a JSON Web Key Set), by id. `clock` gives seconds that only ever grow."""

    def __init__(self, url: str, fetch: Fetch = fetch_over_http, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str, PyJWK] = {}
        self._expires_at = float("-inf")
        self._next_fetch_at = float("-inf")
        self._is_current = False  # whether the last fetch worked
        self._fetching = asyncio.Lock()

    async def find(self, key_id: str) -> PyJWK | None:
        """The key of that id, None where it is known that there is none. UnavailableError where that is not known."""
        if self._should_fetch(key_id):
            async with self._fetching:
                if self._should_fetch(key_id):  # unless another request has just done it
                    await self._refresh()
        key, now = self._keys.get(key_id), self._clock()
        if key is not None and now < self._expires_at + GRACE:
            return key
        if not self._is_current or now >= self._expires_at:
            raise UnavailableError("The keys that tokens are checked with cannot be fetched.")
        return None

    def _should_fetch(self, key_id: str) -> bool:
        now = self._clock()
        return (key_id not in self._keys or now >= self._expires_at) and now >= self._next_fetch_at

    async def _refresh(self) -> None:
        try:
            answer = await self._fetch(self._url)
            keys = read_keys(answer.body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            _LOG.warning("the keys at %s cannot be fetched: %s", self._url, error)
            self._is_current = False
            self._next_fetch_at = self._clock() + PAUSE_AFTER_FAILURE
            return
        now = self._clock()
        self._keys, self._is_current = keys, True
        self._expires_at = now + lifetime_of(answer.headers)
        self._next_fetch_at = min(now + PAUSE, self._expires_at)


def read_keys(body: bytes) -> dict[str, PyJWK]:
    """The RSA keys of a JSON Web Key Set by their ids. ValueError where it has none."""
    try:
        keys = PyJWKSet.from_dict(json.loads(body)).keys
    except (PyJWTError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no set of keys ({error})") from error  # PyJWT believes what it is given to be one
    named = {key.key_id: key for key in keys if key.key_id and key.key_type == "RSA"}
    if not named:
        raise ValueError("it has no RSA key with an id")
    return named


def lifetime_of(headers: Mapping[str, str]) -> float:
    """For how many seconds, from now on, an answer with these headers may be kept."""
    found = _MAX_AGE.search(headers.get("Cache-Control") or "")
    if found is None:
        return DEFAULT_LIFETIME
    age = (headers.get("Age") or "0").strip()
    passed = int(age) if re.fullmatch(r"[0-9]{1,9}", age) else 0
    return float(min(max(int(found[1]) - passed, 1), LONGEST_LIFETIME))
