"""Each damage that repair covers: repaired, nothing is found, and what survives is unchanged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from icectl.checks import rules
from icectl.cli.main import run
from icectl.ops.repair.repo_file import DAMAGED, UNSORTED, UNUSABLE
from icectl.ops.repair.steps import DERIVABLE_LOG, LOST_CHUNK, LOST_MANIFEST, UNREADABLE_SNAPSHOT
from tests.official import ic
from tests.repair.helpers import (
    LOSSY,
    check_survivors,
    commits_work,
    content,
    findings,
    official,
    read_version,
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
OF_OBJECT_STORES = {rules.CONDITIONS_OFF.code}
"""Repaired in tests/validate/test_servers.py."""
REPAIRED_V1 = ("ICE0201", "ICE0202", "ICE0203", "ICE0204", "ICE0209")
"""Refs and snapshots of spec version 1: see test_history.py."""
DROPPED_V1 = ("ICE0301", "ICE0302", "ICE0303", "ICE0304", "ICE0309", "ICE0401", "ICE0402")
"""Only branches go on without what is lost; older versions stay, since V1 has no list of them."""


def test_every_rule_of_the_catalogue_has_a_case() -> None:
    codes = {*UNUSABLE, *DAMAGED, *UNSORTED, *UNREADABLE_SNAPSHOT}
    codes |= {*DERIVABLE_LOG, *LOST_MANIFEST, *LOST_CHUNK}
    codes |= {rules.REPO_IS_OLD.code, rules.FUTURE_TIME.code, rules.CONDITIONS_OFF.code}
    assert codes <= {*REPAIRED} | OF_OBJECT_STORES


@pytest.mark.parametrize("code", REPAIRED)
def test_damage_is_repaired(code: str, whole: Path, tmp_path: Path) -> None:
    check_repaired(copied_with_source(whole, tmp_path / "repo"), code)


@pytest.mark.parametrize("code", REPAIRED_V1)
def test_damage_is_repaired_in_v1(code: str, whole_v1: Path, tmp_path: Path) -> None:
    check_repaired(copied_with_source(whole_v1, tmp_path / "repo"), code)


@pytest.mark.parametrize("code", DROPPED_V1)
def test_branches_of_v1_go_on(code: str, whole_v1: Path, tmp_path: Path) -> None:
    """`test_each_file` compares their content."""
    where = copied_with_source(whole_v1, tmp_path / "repo")
    before = versions(official(where))
    DAMAGES[code](Patient(where))
    done = repair(where, LOSSY)
    assert {one.action for one in done.steps} == {"drop_lost_references"}
    assert done.left and any("spec version 1" in note for note in done.notes)
    repo = official(where)
    for name in repo.list_branches():
        read_version(repo, branch=name)
    for id_, expected in before.items():
        with suppress(ic.IcechunkError, ValueError):  # it is one of those that stay as they are
            assert read_version(repo, snapshot_id=id_) == expected
    assert repair(where, LOSSY).steps == ()


def check_repaired(where: Path, code: str) -> None:
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


INSTEAD = {
    "ICE0010": ("flags", "set", "move_node", "on"),
    "ICE0011": ("restore", "--to", "@1", "--only", "config", "--yes"),
    "ICE0019": ("tag", "create", "new"),
}


@pytest.mark.parametrize("code", INSTEAD)
def test_what_helps_where_no_step_does(code: str, whole: Path, tmp_path: Path) -> None:
    """As icectl-recovery(7) says."""
    where = copied_with_source(whole, tmp_path / "repo")
    before = versions(official(where))
    DAMAGES[code](Patient(where))
    assert run([*INSTEAD[code], "--quiet", "-r", str(where)], {"HOME": str(tmp_path)}) == 0
    assert findings(where) == []
    assert versions(official(where)) == before
