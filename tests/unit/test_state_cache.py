"""The cache of states: bounded in bytes, the least used go first, and nothing outdated stays."""

import pytest

from store.documents.cache import StateCache
from store.layout.chain import Ground, Shape, plan_storage
from store.state import State


def ground(row_id: str, size: int = 0, token: str = "t") -> Ground:
    """A row's state of about `size` bytes."""
    state = State.of({"custom": "x" * size})
    return plan_storage(Shape(), row_id, token, None, state).ground(state)


def kept(cache: StateCache, *row_ids: str) -> list[bool]:
    return [cache.get("acme", row_id) is not None for row_id in row_ids]


def test_what_was_put_is_there_for_its_tenant_alone() -> None:
    cache, one = StateCache(1000), ground("a")
    cache.put("acme", one)
    assert cache.get("acme", "a") is one
    assert cache.get("other", "a") is None
    assert cache.get("acme", "b") is None


def test_the_states_used_longest_ago_go_first() -> None:
    cache = StateCache(1000)
    for row_id in ("a", "b", "c"):
        cache.put("acme", ground(row_id, 300))
    assert cache.get("acme", "a") is not None
    cache.put("acme", ground("d", 300))
    assert kept(cache, "a", "b", "c", "d") == [True, False, True, True]


@pytest.mark.parametrize("limit", [0, 100])
def test_a_state_over_the_limit_is_not_kept(limit: int) -> None:
    cache = StateCache(limit)
    cache.put("acme", ground("a", 200))
    assert kept(cache, "a") == [False]


def test_a_row_that_was_kept_while_it_ran_is_replaced_once_it_has_settled() -> None:
    """Otherwise the present one would be read from the database every time."""
    cache, settled = StateCache(1000), ground("a", 200, token="two")
    cache.put("acme", ground("a", 400, token="one"))
    cache.put("acme", settled)
    assert cache.get("acme", "a") is settled
    cache.put("acme", ground("b", 600))
    assert kept(cache, "a", "b") == [True, True]  # the bytes of the former one are free again


def test_a_new_head_takes_the_place_of_the_one_before() -> None:
    cache = StateCache(1000)
    cache.replace_head("acme", "s", ground("a", 300))
    cache.replace_head("acme", "s", ground("b", 600))
    assert kept(cache, "a", "b") == [False, True]
    assert cache.has_head("acme", "s")
    assert not cache.has_head("acme", "t")
    assert not cache.has_head("other", "s")


def test_a_session_whose_head_was_dropped_has_none() -> None:
    cache = StateCache(1000)
    cache.replace_head("acme", "s", ground("a", 600))
    cache.put("acme", ground("b", 600))
    assert not cache.has_head("acme", "s")
    cache.replace_head("acme", "s", ground("c", 300))
    assert cache.has_head("acme", "s")
