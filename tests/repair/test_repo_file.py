"""A `repo` file that is missing, damaged or old: a backup replaces it, and commits come back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.faults.lost_repo import LOSSES
from tests.official import ic
from tests.official.histories import commit
from tests.repair.helpers import (
    commits_work,
    content,
    findings,
    official,
    read_version,
    repair,
    versions,
)


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """Commits with chunks; the last operation is a commit, which no backup lists."""
    place = tmp_path / "repo"
    repo = ic.Repository.create(ic.local_filesystem_storage(str(place)))
    with commit(repo, "arrays") as root:
        root.create_array("a", shape=(64,), chunks=(8,), dtype="i4")[:] = range(64)
        root.create_array("b", shape=(8,), chunks=(8,), dtype="i4")[:] = 1
    repo.create_branch("dev", repo.lookup_branch("main"))
    repo.create_tag("v1", repo.lookup_branch("main"))
    with commit(repo, "more") as root:
        root["a"][:8] = 5
    with commit(repo, "last") as root:
        root["a"][8:16] = 7
        root.create_group("g")
    return place


@pytest.mark.parametrize("loss", LOSSES)
def test_the_newest_backup_replaces_it(where: Path, loss: str) -> None:
    before = versions(official(where))
    tip = official(where).lookup_branch("main")
    parent = list(official(where).ancestry(branch="main"))[1].id
    LOSSES[loss](where / "repo")
    damaged = content(where)
    plan = repair(where, dry_run=True)
    assert content(where) == damaged
    assert [step.action for step in plan.steps] == ["restore_repo", "recover_branch"]
    chosen = [one for one in plan.backups if one.chosen]
    assert chosen == [plan.backups[0]]
    assert chosen[0].branches[1] == f"main at {parent}"
    done = repair(where)
    assert done.left == ()
    repo = official(where)
    # The last commit has a branch of its own, and no branch moved by itself.
    assert repo.lookup_branch("main") == parent
    assert repo.lookup_branch(f"recovered-main-{tip[:8]}") == tip
    assert versions(repo) == before
    assert findings(where) == []
    kept = [path for path in (where / "overwritten").iterdir() if "damaged" in path.name]
    assert [path.read_bytes() for path in kept] == [
        damaged[name] for name in ("repo",) if name in damaged
    ]
    assert repair(where).steps == ()
    commits_work(where)
    assert findings(where) == []
    repo = official(where)
    repo.reset_branch("main", tip)
    assert read_version(repo, branch="main") == before[tip]


def test_a_commit_of_another_branch_is_recognized(where: Path) -> None:
    repo = official(where)
    with commit(repo, "on dev", branch="dev") as root:
        root["b"][:] = 3
    tip = repo.lookup_branch("dev")
    (where / "repo").unlink()
    repair(where)
    assert official(where).lookup_branch(f"recovered-dev-{tip[:8]}") == tip


def test_an_abandoned_session_is_not_a_commit(where: Path) -> None:
    """A snapshot file without a log that leads to it is left for `branch create --adopt`."""
    repo = official(where)
    tip = repo.lookup_branch("main")
    (where / "transactions" / tip).unlink()
    (where / "repo").unlink()
    done = repair(where)
    assert [step.action for step in done.steps] == ["restore_repo"]
    assert official(where).list_branches() == {"main", "dev"}


def test_damaged_backups_are_passed_over(where: Path) -> None:
    (where / "repo").unlink()
    newest = min((where / "overwritten").iterdir())
    newest.write_bytes(b"")
    plan = repair(where, dry_run=True)
    assert [one.state for one in plan.backups[:2]] == ["damaged", "sound"]
    assert plan.backups[1].chosen
    repair(where)
    # Two commits followed: both are on the recovered branch.
    repo = official(where)
    (name,) = repo.list_branches() - {"main", "dev"}
    messages = [one.message for one in repo.ancestry(branch=name)]
    assert messages[:2] == ["last", "more"]


def test_without_any_backup_nothing_is_changed(where: Path) -> None:
    (where / "repo").write_bytes(b"")
    shutil.rmtree(where / "overwritten")
    before = content(where)
    done = repair(where)
    assert (done.steps, [one.code for one in done.left]) == ((), ["ICE0001"])
    assert content(where) == before


def test_an_old_repo_that_was_put_back(where: Path) -> None:
    before = versions(official(where))
    old = sorted((where / "overwritten").iterdir())[2].read_bytes()
    (where / "repo").write_bytes(old)
    assert [one[0] for one in findings(where)] == ["ICE0020"]
    done = repair(where)
    assert done.left == ()
    assert [step.action for step in done.steps] == ["restore_repo", "recover_branch"]
    assert versions(official(where)) == before
    assert findings(where) == []
    commits_work(where)


def test_a_history_that_was_continued_after_an_old_repo(where: Path) -> None:
    """Both lines stay: the lost one gets branches."""
    before = versions(official(where))
    tip = official(where).lookup_branch("main")
    old = sorted((where / "overwritten").iterdir())[1].read_bytes()
    (where / "repo").write_bytes(old)
    with commit(official(where), "another line") as root:
        root["b"][:] = 9
    assert [one[0] for one in findings(where)] == ["ICE0020"]
    now = official(where).lookup_branch("main")
    done = repair(where)
    assert done.left == (), done
    assert {step.action for step in done.steps} == {"recover_branch"}
    repo = official(where)
    assert repo.lookup_branch("main") == now
    after = versions(repo)
    assert tip in after  # though it is in no backup
    assert all(after[id_] == before[id_] for id_ in before)
    assert findings(where) == []
    commits_work(where)
    info = open_repository(LocalStorage(where)).info
    assert info is not None
