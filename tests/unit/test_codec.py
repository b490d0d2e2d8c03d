"""Stored bytes: compressed where that is smaller, checked against their digest, damage named."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import DataLossError
from store.layout.codec import JSON, ZSTD, Stored, decode, decode_checked, digest_of, encode, seal, unseal

NAME = "snapshots/acme/row"
NOISE = random.Random(1).randbytes(500)


@given(st.binary(max_size=300) | st.binary(max_size=30).map(lambda text: text * 20))
def test_what_is_encoded_is_decoded(text: bytes) -> None:
    stored = encode(text)
    assert decode(stored.codec, stored.content, NAME) == text
    assert unseal(seal(stored), NAME) == text
    assert len(stored.content) <= len(text)


def test_compression_is_used_only_where_it_helps() -> None:
    assert encode(b"a" * 1000).codec == ZSTD
    assert encode(b"a" * 63) == Stored(JSON, b"a" * 63)  # a frame costs more than it could gain
    assert encode(NOISE) == Stored(JSON, NOISE)
    assert encode(b"") == Stored(JSON, b"")


@pytest.mark.parametrize(
    ("codec", "content", "reason"),
    [
        (JSON, "text", "not bytes"),
        (ZSTD, None, "not bytes"),
        ("lzma", b"x", "unknown codec 'lzma'"),
        (None, b"x", "unknown codec None"),
        (ZSTD, b"plain", "cannot be decompressed"),
        (ZSTD, encode(b"a" * 1000).content[:-1], "cannot be decompressed"),
        (ZSTD, b"", "cannot be decompressed"),
    ],
)
def test_bytes_that_cannot_be_decoded_are_damage_of_their_document(codec: object, content: object, reason: str) -> None:
    with pytest.raises(DataLossError, match=reason) as caught:
        decode(codec, content, NAME)
    assert caught.value.document == NAME


def fields_of(stored: Stored) -> dict[str, object]:
    return {"chunk": stored.content, "codec": stored.codec, "digest": stored.digest}


def test_checked_bytes_are_decoded() -> None:
    assert decode_checked(fields_of(encode(b"a" * 1000)), "chunk", "digest", NAME) == b"a" * 1000


@pytest.mark.parametrize("at", [0, 5, -1])
def test_one_changed_bit_is_noticed(at: int) -> None:
    stored = encode(b"a" * 1000)
    changed = bytearray(stored.content)
    changed[at] ^= 1
    with pytest.raises(DataLossError, match="does not match its digest"):
        decode_checked(fields_of(stored) | {"chunk": bytes(changed)}, "chunk", "digest", NAME)


@pytest.mark.parametrize("missing", ["chunk", "digest", "codec"])
def test_a_missing_field_is_damage(missing: str) -> None:
    fields = fields_of(encode(b"a" * 1000))
    del fields[missing]
    with pytest.raises(DataLossError) as caught:
        decode_checked(fields, "chunk", "digest", NAME)
    assert caught.value.document == NAME


def test_the_digest_is_of_what_is_stored() -> None:
    stored = encode(b"a" * 1000)
    assert stored.digest == digest_of(stored.content) != digest_of(b"a" * 1000)


@pytest.mark.parametrize("sealed", [None, "json:x", b"", b"x", b"lzma:x", b"zstd:x", b"\xff:x"])
def test_a_value_that_was_not_sealed_here_is_damage(sealed: object) -> None:
    with pytest.raises(DataLossError) as caught:
        unseal(sealed, NAME)
    assert caught.value.document == NAME
