"""The explorer finds a protocol with one rule taken out: within a few runs by how rows and leases hang together, and
within some more by nothing but what clients can see."""

import pytest

from tests.properties.explorer import Explorer
from tests.properties.mutants import (
    Mutant,
    abort_releases_the_lease_only,
    abort_settles_the_row_only,
    first_message_opens_any_session,
    refused_beat_counts_as_lost,
    refused_claim_counts_as_busy,
    refused_settle_counts_as_lost,
    settle_believes_any_settled_row,
    settle_forgets_the_abort,
    settle_is_judged_by_the_session,
    settle_is_not_fenced,
    takeover_leaves_the_stale_row,
)

ENOUGH = 200  # the slowest took 68 in five series of seeds
ENOUGH_FOR_CLIENTS = 600  # the slowest took 273

MUTANTS: tuple[Mutant, ...] = (
    takeover_leaves_the_stale_row,
    abort_releases_the_lease_only,
    abort_settles_the_row_only,
    settle_is_not_fenced,
    refused_settle_counts_as_lost,
    settle_is_judged_by_the_session,
    settle_believes_any_settled_row,
    refused_claim_counts_as_busy,
    first_message_opens_any_session,
    refused_beat_counts_as_lost,
    settle_forgets_the_abort,
)
SEEN_BY_CLIENTS: tuple[Mutant, ...] = (
    takeover_leaves_the_stale_row,
    settle_is_not_fenced,
    refused_settle_counts_as_lost,
    settle_is_judged_by_the_session,
)


def is_found(explorer: Explorer, first_seed: int, runs: int) -> bool:
    _, failure = explorer.first_failure(range(first_seed, first_seed + runs))
    return failure is not None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_protocol_without_one_of_its_rules_is_found_out(monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    mutant(monkeypatch)
    assert is_found(Explorer(), 0, ENOUGH)


@pytest.mark.parametrize("mutant", SEEN_BY_CLIENTS, ids=lambda mutant: mutant.__name__)
def test_clients_are_told_what_is_not_so_by_a_protocol_without_one_of_its_rules(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    mutant(monkeypatch)
    assert is_found(Explorer(structural=False), 0, ENOUGH_FOR_CLIENTS)


def test_clients_of_the_protocol_as_it_is_are_told_nothing_that_is_not_so() -> None:
    assert not is_found(Explorer(structural=False), 0, 20)
