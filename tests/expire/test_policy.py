"""Retention rules: what each keeps, and how kept snapshots are joined. Pure."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from icectl.errors import RefusedError, UsageError
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.ops.expire.plan import plan_expiration
from icectl.ops.expire.policy import Policy
from icectl.repository.history import State
from tests.failures import raises

DAY = 24 * 3600 * 1_000_000
START = int(datetime(2024, 1, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000


def snapshot_id(number: int) -> SnapshotId:
    return INITIAL_SNAPSHOT_ID if number == 0 else SnapshotId(number.to_bytes(12, "big"))


def line(days: list[float], **refs: dict[str, int]) -> State:
    """A linear history: snapshot 0 is the root, the others were flushed so many days later."""
    snapshots = [SnapshotInfo(snapshot_id(0), None, START, "root")]
    for number, day in enumerate(days, 1):
        flushed_at = START + int(day * DAY)
        snapshots.append(
            SnapshotInfo(snapshot_id(number), snapshot_id(number - 1), flushed_at, f"{number}")
        )
    return State(
        snapshots,
        {name: snapshot_id(at) for name, at in refs.get("branches", {"main": len(days)}).items()},
        {name: snapshot_id(at) for name, at in refs.get("tags", {}).items()},
    )


def kept(history: State, policy: Policy) -> list[int]:
    plan = plan_expiration(history, policy)
    numbers = {key: number for number, key in enumerate(sorted_ids(history))}
    return [numbers[key] for key in sorted_ids(history) if key not in plan.released]


def sorted_ids(history: State) -> list[SnapshotId]:
    return sorted(history.snapshots, key=lambda key: history.snapshots[key].flushed_at)


def test_last() -> None:
    assert kept(line([1, 2, 3, 4, 5]), Policy(keep_last=2)) == [0, 4, 5]


def test_hourly_keeps_the_newest_of_each_hour() -> None:
    hours = [0.01, 0.02, 0.05, 0.06, 0.1]
    assert kept(line(hours), Policy(keep_hourly=2)) == [0, 4, 5]


def test_daily_counts_days_that_have_a_snapshot() -> None:
    history = line([1, 1.1, 2, 7, 7.1, 9])
    assert kept(history, Policy(keep_daily=2)) == [0, 5, 6]
    assert kept(history, Policy(keep_daily=3)) == [0, 3, 5, 6]


def test_weekly_monthly_yearly() -> None:
    history = line([1, 8, 15, 22, 40, 70, 100, 200, 300, 400])
    assert kept(history, Policy(keep_weekly=1)) == [0, 10]
    assert kept(history, Policy(keep_monthly=3)) == [0, 8, 9, 10]
    assert kept(history, Policy(keep_yearly=2)) == [0, 9, 10]


def test_within_counts_back_from_the_newest() -> None:
    assert kept(line([1, 5, 9, 10]), Policy(keep_within=2 * DAY)) == [0, 3, 4]


def test_any_rule_keeps() -> None:
    history = line([1, 2, 3, 4, 40, 41])
    assert kept(history, Policy(keep_last=1, keep_monthly=2)) == [0, 4, 6]


def test_older_than_narrows_the_rules() -> None:
    policy = Policy(keep_last=1, older_than=START + int(2.5 * DAY))
    assert kept(line([1, 2, 3, 4, 5]), policy) == [0, 3, 4, 5]


def test_tips_of_tags_stay_and_keep_tagged_says_so() -> None:
    history = line([1, 2, 3, 4], tags={"v1": 2, "scratch": 1})
    assert kept(history, Policy(keep_last=1)) == [0, 1, 2, 4]
    policy = Policy(keep_last=1, keep_tagged=("v*",), delete_expired_tags=True)
    plan = plan_expiration(history, policy)
    assert plan.deleted_tags == ("scratch",)
    assert kept(history, policy) == [0, 2, 4]
    assert plan.reasons[snapshot_id(2)] == ("tagged v1", "tag v1")


def test_rules_per_branch() -> None:
    history = line([1, 2, 3, 4, 5], branches={"main": 3, "dev": 5})
    assert kept(history, Policy(keep_last=1)) == [0, 3, 5]
    assert kept(history, Policy(keep_last=1, branch=("main",))) == [0, 1, 2, 3, 4, 5]
    assert kept(history, Policy(keep_last=1, protect=("main",))) == [0, 1, 2, 3, 5]


def test_a_protected_tag_is_not_deleted() -> None:
    history = line([1, 2, 3], tags={"v1": 1})
    policy = Policy(keep_last=1, delete_expired_tags=True, protect=("v*",))
    assert plan_expiration(history, policy).deleted_tags == ()
    assert kept(history, policy) == [0, 1, 3]


def test_kept_snapshots_join_their_nearest_kept_ancestor() -> None:
    history = line([1, 2, 3, 4, 5], tags={"v1": 2})
    plan = plan_expiration(history, Policy(keep_last=1))
    assert plan.parents == {
        snapshot_id(2): snapshot_id(0),
        snapshot_id(5): snapshot_id(2),
    }


def test_what_no_ref_reaches_is_left_to_gc() -> None:
    history = line([1, 2, 3], branches={"main": 2})
    assert kept(history, Policy(keep_last=1)) == [0, 2, 3]
    assert kept(history, Policy(keep_last=1, older_than=START + 10 * DAY)) == [0, 2]


def test_an_empty_policy_is_refused() -> None:
    with raises(RefusedError, remedy="give-expire-policy"):
        plan_expiration(line([1]), Policy())
    with raises(RefusedError, remedy="give-expire-policy"):
        plan_expiration(line([1]), Policy(branch=("main",), delete_expired_tags=True))


def test_a_policy_that_keeps_nothing_is_refused() -> None:
    with raises(RefusedError, remedy="check-keep-rules"):
        plan_expiration(line([1]), Policy(keep_tagged=("v*",)))
    with pytest.raises(UsageError):
        plan_expiration(line([1]), Policy(keep_last=0))


def test_a_hundred_thousand_snapshots_are_planned_in_seconds() -> None:
    history = line([number / 100 for number in range(1, 100_001)])
    begun = time.process_time()
    plan = plan_expiration(history, Policy(keep_last=10, keep_daily=365, keep_monthly=100))
    assert len(plan.released) > 99_000
    assert time.process_time() - begun < 10
