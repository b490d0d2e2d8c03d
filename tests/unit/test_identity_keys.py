"""The public keys: how long they are kept, and when they are fetched again."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from functions.identity.keys import GRACE, PAUSE, PAUSE_AFTER_FAILURE, KeysAnswer, PublicKeys, lifetime_of, read_keys
from store.errors import UnavailableError
from tests.unit.token_issuer import Issuer, key_set

FIRST, SECOND = Issuer("first"), Issuer("second")
AN_HOUR = {"Cache-Control": "public, max-age=3600, must-revalidate"}


class Address:
    """What is at the keys' address, and how often it was asked; the time is set by hand."""

    def __init__(self, *issuers: Issuer, headers: Mapping[str, str] = AN_HOUR) -> None:
        self.body = key_set(*issuers)
        self.headers = headers
        self.failure: Exception | None = None
        self.asked = 0
        self.now = 1000.0
        self.keys = PublicKeys("https://keys.example.com", self.fetch, lambda: self.now)

    async def fetch(self, url: str) -> KeysAnswer:
        self.asked += 1
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return KeysAnswer(self.body, self.headers)

    async def knows(self, key_id: str) -> bool:
        return await self.keys.find(key_id) is not None


async def test_nothing_is_fetched_before_the_first_token() -> None:
    assert Address(FIRST).asked == 0


async def test_keys_are_kept_for_as_long_as_their_answer_says() -> None:
    address = Address(FIRST)
    assert await address.knows("first")
    address.now += 3599
    assert await address.knows("first")
    assert address.asked == 1
    address.now += 1
    assert await address.knows("first")
    assert address.asked == 2


async def test_many_tokens_at_once_fetch_once() -> None:
    address = Address(FIRST)
    assert all(await asyncio.gather(*(address.knows("first") for _ in range(50))))
    assert address.asked == 1


async def test_a_new_key_is_found_before_the_old_ones_have_expired() -> None:
    address = Address(FIRST)
    assert await address.knows("first")
    address.body = key_set(FIRST, SECOND)
    address.now += PAUSE
    assert await address.knows("second")
    assert await address.knows("first")
    assert address.asked == 2


async def test_a_key_that_was_withdrawn_is_known_no_longer() -> None:
    address = Address(FIRST)
    assert await address.knows("first")
    address.body = key_set(SECOND)
    address.now += 3600
    assert await address.knows("second")
    assert not await address.knows("first")


async def test_made_up_key_ids_cannot_make_us_ask_for_ever() -> None:
    address = Address(FIRST)
    for number in range(100):
        assert not await address.knows(f"made-up-{number}")
    assert address.asked == 1
    address.now += PAUSE
    for number in range(100):
        assert not await address.knows(f"made-up-{number}")
    assert address.asked == 2


@pytest.mark.parametrize("failure", [OSError("no route"), ValueError("no JSON")])
async def test_without_keys_nobody_is_judged_and_the_fetch_is_tried_again_soon(failure: Exception) -> None:
    address = Address(FIRST)
    address.failure = failure
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await address.keys.find("first")
    assert address.asked == 1
    address.failure = None
    address.now += PAUSE_AFTER_FAILURE
    assert await address.knows("first")


async def test_known_keys_outlive_an_outage_for_an_hour_and_no_longer() -> None:
    address = Address(FIRST)
    assert await address.knows("first")
    address.failure = OSError("no route")
    address.now += 3600 + GRACE - 1
    assert await address.knows("first")
    address.now += 1
    with pytest.raises(UnavailableError):
        await address.keys.find("first")


async def test_an_unknown_key_is_no_verdict_during_an_outage() -> None:
    address = Address(FIRST)
    assert await address.knows("first")
    address.failure = OSError("no route")
    address.now += PAUSE
    with pytest.raises(UnavailableError):
        await address.keys.find("second")


async def test_a_caller_who_leaves_during_the_fetch_does_not_spoil_it_for_others() -> None:
    address = Address(FIRST)
    leaving = asyncio.create_task(address.keys.find("first"))
    staying = asyncio.create_task(address.keys.find("first"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying is not None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Cache-Control": "public, max-age=21600"}, 21600),
        ({"Cache-Control": "MAX-AGE=60"}, 60),
        ({"Cache-Control": "max-age=21600", "Age": "600"}, 21000),
        ({"Cache-Control": "max-age=60", "Age": "600"}, 1),
        ({"Cache-Control": "max-age=60", "Age": "old"}, 60),
        ({"Cache-Control": "max-age=999999999"}, 86400),
        ({"Cache-Control": "s-maxage=60"}, 300),
        ({"Cache-Control": "no-store"}, 300),
        ({}, 300),
    ],
)
def test_the_lifetime_is_what_is_left_of_max_age_within_reason(headers: Mapping[str, str], seconds: float) -> None:
    assert lifetime_of(headers) == seconds


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"keys": []}',
        b'{"keys": 1}',
        b'{"keys": [{"kty": "oct"}]}',
        b'{"keys": [1]}',
        b"[" * 5000,
    ],
)
async def test_an_answer_without_keys_counts_as_an_outage(body: bytes) -> None:
    address = Address(FIRST)
    address.body = body
    with pytest.raises(UnavailableError):
        await address.keys.find("first")


def test_only_rsa_keys_with_an_id_are_taken() -> None:
    nameless = {name: value for name, value in FIRST.public_key.items() if name != "kid"}
    secret = {"kty": "oct", "kid": "secret", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC0xMjM0NQ"}
    body = json.dumps({"keys": [nameless, secret, SECOND.public_key]}).encode()
    assert list(read_keys(body)) == ["second"]
