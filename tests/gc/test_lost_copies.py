"""Copies of `repo` that are gone, were cleared by age, or are not what the ops log takes them for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.errors import FormatError
from icectl.format.repo import encode_repo
from icectl.model.repo import RepoInfo
from icectl.pipeline.objects import ObjectKind
from icectl.repository.backups import backup_name
from icectl.repository.ops_log import read_repo
from icectl.storage.local import LocalStorage
from tests.failures import raises
from tests.gc.repositories import collect, files, live, now
from tests.official import ic, open_official
from tests.official.histories import commit, create


def change(repo: ic.Repository, number: int, **options: Any) -> str:
    with commit(repo, f"{number}", **options) as root:
        root.attrs["number"] = number
    tip: str = repo.lookup_branch("main")
    return tip


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """Three commits that a reset let go, and two later ones."""
    repo = create(tmp_path / "repo")
    kept = change(repo, 0)
    for number in range(1, 4):
        change(repo, number)
    repo.reset_branch("main", kept)
    for number in range(4, 6):
        change(repo, number)
    return tmp_path / "repo"


def copy_after(where: Path, kind: str) -> Path:
    updates = read_repo(LocalStorage(where)).latest_updates
    update = next(update for update in updates if update.update_type.kind == kind)
    assert update.backup_path is not None
    return where / "overwritten" / update.backup_path


@pytest.mark.parametrize("how", ["lost", "of another state"])
def test_the_copy_that_would_explain(where: Path, how: str) -> None:
    """As a lost race between official clients on local disk leaves it, or somebody's hand."""
    copy = copy_after(where, "branch_reset")
    if how == "lost":
        copy.unlink()
    else:
        copy.write_bytes(copy_after(where, "config_changed").read_bytes())
    before, there = live(where), files(where)
    with raises(FormatError, remedy="restore-or-excuse-backup") as caught:
        collect(where)
    assert caught.value.path == f"overwritten/{copy.name}"
    assert str(caught.value).count(copy.name) == 1 + (how == "lost")
    assert files(where) == there
    _, deleted = collect(where, known_missing=frozenset({f"overwritten/{copy.name}"}))
    assert deleted.count[ObjectKind.SNAPSHOT] == 3
    assert live(where) == before


def test_copies_of_one_millisecond_are_cleared_in_between(where: Path) -> None:
    """All before some operation, by age; their names do not tell which of two is older."""
    repo = open_official(where)
    tips = [info.id for info in itertools.islice(repo.ancestry(branch="main"), 2)]
    for number in range(30):
        repo.reset_branch("main", tips[1 - number % 2])
    updates = read_repo(LocalStorage(where)).latest_updates
    names = [update.backup_path for update in updates if update.backup_path is not None]
    twins = [n for n in range(1, 28) if names[n].split(".")[1] == names[n - 1].split(".")[1]]
    for name in names[(twins or [10])[0] :]:
        (where / "overwritten" / name).unlink()
    before = live(where)
    collect(where)
    assert live(where) == before


def test_an_abandoned_copy_is_older_than_what_was_cleared(where: Path) -> None:
    """The ops log does not name it, so that it tells nothing about those that it names."""
    oldest = max((where / "overwritten").iterdir())
    made = int(oldest.name.split(".")[1])
    abandoned = backup_name(now()).split(".")
    abandoned[1] = str(made + 1000)
    (where / "overwritten" / ".".join(abandoned)).write_bytes(oldest.read_bytes())
    oldest.unlink()
    before = live(where)
    collect(where)
    assert live(where) == before


@pytest.mark.parametrize("level", [1, 9, 19])
def test_another_level_of_compression(where: Path, level: int) -> None:
    """The last operation is packed at another level than the copies, and is sound."""
    config = ic.RepositoryConfig(compression=ic.CompressionConfig(level=level))
    repo = open_official(where, config)
    repo.create_tag("last", repo.lookup_branch("main"))
    before = live(where)
    _, deleted = collect(where)
    assert deleted.count[ObjectKind.SNAPSHOT] == 3
    assert live(where) == before


def lose_tag(info: RepoInfo) -> RepoInfo:
    return replace(info, tags=())


def lose_branch(info: RepoInfo) -> RepoInfo:
    return replace(info, branches=tuple(ref for ref in info.branches if ref.name == "main"))


def shorten_pruned_logs(info: RepoInfo) -> RepoInfo:
    tip = next(ref.snapshot_id for ref in info.branches if ref.name == "main")
    snapshots = tuple(
        replace(one, pruned_ancestor_tx_logs=(one.pruned_ancestor_tx_logs or ())[1:] or None)
        if one.id == tip
        else one
        for one in info.snapshots
    )
    assert snapshots != info.snapshots
    return replace(info, snapshots=snapshots)


@pytest.mark.parametrize(
    ("last", "damage"),
    [
        (lambda repo, gone: repo.create_tag("keep", gone), lose_tag),
        (lambda repo, gone: repo.create_branch("keep", gone), lose_branch),
        (lambda repo, gone: change(repo, 9, amend=True), shorten_pruned_logs),
    ],
    ids=["tag", "branch", "amend"],
)
@pytest.mark.parametrize("later", [0, 2])
def test_what_the_last_operation_made_is_damaged(
    where: Path, last: Callable[[Any, str], Any], damage: Callable[[RepoInfo], RepoInfo], later: int
) -> None:
    repo = open_official(where)
    gone = next(
        str(update.update_type.previous_snap_id)
        for update in read_repo(LocalStorage(where)).latest_updates
        if update.update_type.kind == "branch_reset"
    )
    if damage is shorten_pruned_logs:
        change(repo, 7)
        repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    last(repo, gone)
    info = read_repo(LocalStorage(where))
    (where / "repo").write_bytes(encode_repo(damage(info)))
    for number in range(later):
        change(open_official(where), 10 + number)
    there = files(where)
    with raises(FormatError, path="repo", remedy="compare-repo-file"):
        collect(where)
    assert files(where) == there
