"""Each damage that repair covers: repaired, nothing is found, and what survives is unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repair.helpers import (
    LOSSY,
    check_survivors,
    commits_work,
    content,
    findings,
    official,
    repair,
    versions,
)
from tests.validate.damage import Patient, copied_with_source
from tests.validate.damages import DAMAGES

REPAIRED = (
    "ICE0001", "ICE0002", "ICE0003", "ICE0004", "ICE0005", "ICE0006", "ICE0007", "ICE0008",
    "ICE0009", "ICE0013", "ICE0017", "ICE0020", "ICE0022",
    "ICE0101", "ICE0102", "ICE0103",
    "ICE0201", "ICE0202", "ICE0203", "ICE0204", "ICE0206", "ICE0209",
    "ICE0301", "ICE0302", "ICE0303", "ICE0304", "ICE0309",
    "ICE0316", "ICE0401", "ICE0402", "ICE0501",
)  # fmt: skip
REPAIRED_V1 = ("ICE0301",)


@pytest.mark.parametrize("code", REPAIRED)
def test_damage_is_repaired(code: str, whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    before = versions(official(where))
    DAMAGES[code](Patient(where))
    damaged = content(where)
    assert findings(where)
    plan = repair(where, LOSSY, dry_run=True)
    assert content(where) == damaged
    assert plan.left == (), plan
    done = repair(where, LOSSY)
    assert done.left == (), done
    assert [step.done for step in done.steps] == [True] * len(plan.steps)
    assert [(one.action, one.loses) for one in plan.steps] == [
        (one.action, one.loses) for one in done.steps
    ]
    assert findings(where) == []
    check_survivors(before, where, done)
    assert repair(where, LOSSY).steps == ()
    commits_work(where)
    assert findings(where) == []


@pytest.mark.parametrize("code", sorted(DAMAGES.keys() - set(REPAIRED)))
def test_what_cannot_be_repaired_is_left_as_it_was(code: str, whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    DAMAGES[code](Patient(where))
    damaged, found = content(where), findings(where)
    done = repair(where, LOSSY)
    assert done.steps == (), done.steps
    assert content(where) == damaged
    assert sorted((one.code, one.object, one.detail) for one in done.left) == sorted(found)


@pytest.mark.parametrize("code", REPAIRED)
def test_nothing_is_lost_that_was_not_asked_for(code: str, whole: Path, tmp_path: Path) -> None:
    """Without `--step`, tags and readable versions stay."""
    where = copied_with_source(whole, tmp_path / "repo")
    DAMAGES[code](Patient(where))
    done = repair(where)
    assert all(step.done != step.by_name for step in done.steps)
    again = repair(where)
    assert [step for step in again.steps if step.done] == []
    assert {one.code for one in again.left} == {one.code for one in done.left}
