"""What is refused before anything is asked of a database, and what one backend alone takes."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from store.adapters.own_ids import OwnIds
from store.conformance.scopes import BY_ID, BY_OPTIONAL_ID, BY_SCOPE, WRONG_IDS
from store.database import Database
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import InvalidRequestError
from store.file.store import FileStore
from store.firestore.store import FirestoreStore
from store.memory.store import MemoryStore
from store.models import RetentionRules, Scope


class _Untouchable:
    """Fails the test that asks it anything."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the database was asked to {name}")


@pytest.fixture(params=["plain", "own ids"])
def untouched(request: pytest.FixtureRequest) -> DocumentStore:
    """A store that must not reach its database, as it is or with ids of each user's own."""
    database: Database = _Untouchable()  # type: ignore[assignment]  # offers nothing, on purpose
    store = DocumentStore(Shelf(database, Options()))
    return store if request.param == "plain" else OwnIds(store)


@pytest.mark.parametrize("name", [*BY_ID, *BY_OPTIONAL_ID])
async def test_a_wrong_id_is_refused_before_any_io(untouched: DocumentStore, name: str) -> None:
    for wrong in WRONG_IDS if name in BY_ID else set(WRONG_IDS) - {None}:
        with pytest.raises(InvalidRequestError, match=r"snapshotId|sessionId"):
            await (BY_ID | BY_OPTIONAL_ID)[name](untouched, wrong)


@pytest.mark.parametrize("name", BY_SCOPE)
async def test_a_wrong_scope_is_refused_before_any_io(untouched: DocumentStore, name: str) -> None:
    for wrong in WRONG_IDS:
        for scope, named in ((Scope(wrong, "ann"), "tenant"), (Scope("acme", wrong), "user")):
            with pytest.raises(InvalidRequestError, match=named):
                await BY_SCOPE[name](untouched, scope)


WRONG_OPTIONS: dict[str, tuple[Any, ...]] = {
    "checkpoint_interval": (0, -1, 10_001, 1.5, "25", None, True),
    "shard_size": (0, -1, 1_000_001, 1.5, "1", None, False),
    "base_size": (-1, 500_001, 1.5, None, True),
    "commit_size": (0, 65_535, 10_000_001, 1.5, None),
    "max_state_size": (0, 2**40 + 1, None),
    "max_messages": (0, -1, 100_000_001, 1.5, None, True),
    "cache_size": (-1, 2**40 + 1, None),
    "max_persisted_chain_length": (0, -1, True, 1.0, "1"),
    "lease_staleness": (0, -1, 86_401, float("nan"), float("inf"), "60", None, True),
    "share_runs": (None, 1, "yes"),
    "legacy_owner": ("", "user", None, True),
    "retention": (
        None,
        "30",
        RetentionRules(-1, 30),
        RetentionRules(30, -1),
        RetentionRules(True, 30),
        RetentionRules(30, 1.5),  # type: ignore[arg-type]  # on purpose
    ),
}
MAKERS: dict[str, Callable[..., DocumentStore]] = {
    "memory": MemoryStore,
    "file": lambda **options: FileStore("nowhere", **options),
    "firestore": lambda **options: FirestoreStore("demo", emulator_host="127.0.0.1:1", **options),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("option", WRONG_OPTIONS)
def test_a_wrong_option_is_refused_by_name_when_the_store_is_made(maker: str, option: str) -> None:
    for wrong in WRONG_OPTIONS[option]:
        with pytest.raises(InvalidRequestError, match=option):
            MAKERS[maker](**{option: wrong})


def test_no_option_is_left_out_above() -> None:
    assert set(WRONG_OPTIONS) == {field.name for field in fields(Options)}


@pytest.mark.parametrize("maker", MAKERS)
def test_an_unknown_option_is_refused_by_name(maker: str) -> None:
    with pytest.raises(TypeError, match="shard_sizes"):
        MAKERS[maker](shard_sizes=1)


@pytest.mark.parametrize("maker", ["file", "firestore"])
@pytest.mark.parametrize("wrong", ["", "a/b", "..", "__x__", " ", "a\nb", "x" * 1401, None, 1])
def test_a_wrong_collection_is_refused_by_name(maker: str, wrong: object) -> None:
    with pytest.raises(InvalidRequestError, match="collection"):
        MAKERS[maker](collection=wrong)


@pytest.mark.parametrize("wrong", [None, 1, b"sessions", "", " ", "a\0b"])
def test_a_wrong_directory_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(InvalidRequestError, match="directory"):
        FileStore(wrong)


@pytest.mark.parametrize("name", ["project", "database"])
@pytest.mark.parametrize("wrong", [None, 1, "", " ", "a/b", "..", "a\nb"])
def test_a_wrong_project_or_database_is_refused_by_name(name: str, wrong: Any) -> None:
    given: dict[str, Any] = {"project": "demo", "emulator_host": "127.0.0.1:1", name: wrong}
    with pytest.raises(InvalidRequestError, match=name):
        FirestoreStore(**given)


@pytest.mark.parametrize("wrong", [1, True, "", "localhost", "http://localhost:8080", "a b:1", ":"])
def test_a_wrong_emulator_host_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(InvalidRequestError, match="emulator_host"):
        FirestoreStore("demo", emulator_host=wrong)


@pytest.mark.parametrize("wrong", [None, True, "1", float("nan"), float("inf")])
def test_a_poll_interval_that_is_no_number_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(InvalidRequestError, match="poll_interval"):
        MAKERS["file"](poll_interval=wrong)


def test_the_defaults_are_those_of_the_contract() -> None:
    options = Options()
    assert (options.checkpoint_interval, options.shard_size, options.base_size) == (25, 524_288, 131_072)
    assert (options.commit_size, options.max_persisted_chain_length) == (3_145_728, None)
