"""When a session is gone, when it has to go, and when the sweep looks at it again."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from store.errors import InvalidRequestError
from store.models import RetentionRules, Session
from store.rules.retention import (
    BUCKETS,
    Verdict,
    bucket_of,
    due_at,
    is_expired,
    next_due,
    require_rules,
    verdict_on,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
RULES = RetentionRules(30, 30)
SESSION = Session("s", "ann", "echo", "", NOW, NOW)
TEMPORARY = replace(SESSION, temporary=True, expires_at=NOW + DAY)


@pytest.mark.parametrize(
    ("at", "gone"), [(NOW, False), (NOW + DAY - TICK, False), (NOW + DAY, True), (NOW + 2 * DAY, True)]
)
def test_a_temporary_session_is_gone_from_its_very_moment_on(at: datetime, gone: bool) -> None:
    assert is_expired(NOW + DAY, at) is gone
    assert verdict_on(TEMPORARY, False, RULES, at) is (Verdict.EXPIRED if gone else None)
    assert not is_expired(None, at)


@pytest.mark.parametrize(
    ("idle", "goes"), [(29 * DAY, False), (30 * DAY, False), (30 * DAY + TICK, True), (400 * DAY, True)]
)
def test_a_persisted_session_goes_once_it_was_idle_for_longer_than_the_rule(idle: timedelta, goes: bool) -> None:
    assert verdict_on(SESSION, False, RULES, NOW + idle) is (Verdict.IDLE if goes else None)
    assert verdict_on(SESSION, False, replace(RULES, max_idle_days=0), NOW + idle) is None


def test_a_temporary_session_is_never_idle_and_an_interrupted_delete_always_goes_on() -> None:
    lasting = replace(TEMPORARY, expires_at=NOW + 1000 * DAY)
    assert verdict_on(lasting, False, RULES, NOW + 400 * DAY) is None
    assert verdict_on(SESSION, True, RULES, NOW) is Verdict.RESUMED


def test_a_temporary_session_that_does_not_expire_stays_whatever_the_rules() -> None:
    lasting = replace(TEMPORARY, expires_at=None)
    assert verdict_on(lasting, False, RULES, NOW + 4000 * DAY) is None
    assert next_due(lasting, RULES, NOW + 4000 * DAY) == NOW + 4030 * DAY
    assert verdict_on(lasting, True, RULES, NOW) is Verdict.RESUMED


def test_a_session_is_looked_at_when_a_rule_can_apply_first() -> None:
    assert due_at(NOW, None) == NOW + DAY
    assert due_at(NOW, NOW + timedelta(hours=1)) == NOW + timedelta(hours=1)
    assert next_due(TEMPORARY, RULES, NOW) == NOW + DAY
    assert next_due(SESSION, RULES, NOW + DAY) == NOW + 30 * DAY
    assert next_due(SESSION, RULES, NOW + 30 * DAY) == NOW + 31 * DAY  # not at once again
    assert next_due(SESSION, RetentionRules(0, 0), NOW) == NOW + 30 * DAY


def test_sessions_spread_over_all_buckets_and_keep_theirs() -> None:
    buckets = Counter(bucket_of(f"session-{n}") for n in range(1600))
    assert set(buckets) == set(range(BUCKETS))
    assert min(buckets.values()) > 60
    assert bucket_of("123456789") == 0xCBF43926 % BUCKETS  # CRC-32's check value: it is stored, hence never another


def test_rules_are_changed_one_by_one_and_switched_off_by_zero() -> None:
    assert require_rules(None, None, RULES) == RULES
    assert require_rules(14, None, RULES) == RetentionRules(14, 30)
    assert require_rules(None, 0, RULES) == RetentionRules(30, 0)
    assert require_rules(0, 100_000, RULES) == RetentionRules(0, 100_000)


@pytest.mark.parametrize("wrong", [-1, 100_001, 1.5, "1", True])
def test_a_wrong_rule_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(InvalidRequestError, match="maxIdleDays"):
        require_rules(wrong, None, RULES)
    with pytest.raises(InvalidRequestError, match="maxCountPerUser"):
        require_rules(None, wrong, RULES)
