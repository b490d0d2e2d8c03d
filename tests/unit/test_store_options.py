"""Every option of every store is checked when the store is made, and a wrong value is refused by its name."""

from pathlib import Path
from typing import Any

import pytest

from store.documents.shelf import Options
from store.errors import InvalidRequestError
from store.file.store import FileStore
from store.firestore.store import FirestoreStore
from store.memory.store import MemoryStore

WRONG: list[tuple[str, Any]] = [
    *(("checkpoint_interval", value) for value in (0, -1, True, 2.5, "25", None)),
    *(("shard_size", value) for value in (0, 1_000_001, True, "big")),
    *(("base_size", value) for value in (-1, 500_001, False)),
    *(("commit_size", value) for value in (65_535, 10_000_001)),
    *(("max_state_size", value) for value in (0, 1.0)),
    *(("cache_size", value) for value in (-1, None)),
    *(("lease_staleness", value) for value in (0, -1.0, True, "60", float("nan"), float("inf"))),
    *(("max_persisted_chain_length", value) for value in (0, -1, True, 1.0, "1")),
]
NO_COLLECTIONS: list[Any] = ["", " ", "a/b", ".", "..", "__x__", "a\nb", "x" * 1401, None, 1]


def made(kind: str, directory: Path, **options: Any) -> object:
    if kind == "memory":
        return MemoryStore(**options)
    if kind == "file":
        return FileStore(directory, **options)
    return FirestoreStore("demo-project", emulator_host="127.0.0.1:1", **options)


@pytest.mark.parametrize("kind", ["memory", "file", "firestore"])
@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_by_name(kind: str, name: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        made(kind, tmp_path, **{name: value})


@pytest.mark.parametrize("kind", ["file", "firestore"])
@pytest.mark.parametrize("value", NO_COLLECTIONS)
def test_a_collection_that_is_no_name_is_refused(kind: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="collection"):
        made(kind, tmp_path, collection=value)


@pytest.mark.parametrize("value", [None, True, "1", float("nan"), float("inf")])
def test_a_poll_interval_that_is_no_number_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="poll_interval"):
        made("file", tmp_path, poll_interval=value)


@pytest.mark.parametrize("kind", ["memory", "file", "firestore"])
def test_an_unknown_option_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="chekpoint_interval"):
        made(kind, tmp_path, chekpoint_interval=25)


def test_the_limits_themselves_are_accepted(tmp_path: Path) -> None:
    least: dict[str, Any] = {"checkpoint_interval": 1, "shard_size": 1, "base_size": 0, "max_persisted_chain_length": 1}
    for kind in ("memory", "file", "firestore"):
        made(kind, tmp_path, **least)
        made(kind, tmp_path, shard_size=1_000_000, base_size=500_000, commit_size=10_000_000)
    made("file", tmp_path, poll_interval=-1)


def test_the_defaults_are_those_of_the_contract() -> None:
    options = Options()
    assert (options.checkpoint_interval, options.shard_size, options.base_size) == (25, 524_288, 131_072)
    assert (options.commit_size, options.max_persisted_chain_length) == (3_145_728, None)
