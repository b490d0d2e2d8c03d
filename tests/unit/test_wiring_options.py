"""Settings that the wiring hands to the store."""

from functions.settings import read_settings
from functions.wiring import make_store
from store.memory.store import MemoryStore


def options_of(**environ: str) -> object:
    store = make_store(read_settings({"STORE": "memory", **environ}))
    assert isinstance(store, MemoryStore)
    return store._shelf.options.max_persisted_chain_length


def test_the_store_keeps_chains_as_long_as_the_setting_says() -> None:
    assert options_of(MAX_CHAIN_LENGTH="3") == 3
    assert options_of() is None
