"""gc after an undo: what the undo did is explained, and damage still is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.format.repo import encode_repo
from icectl.model.repo import RepoInfo
from icectl.repository import past
from icectl.repository.ops_log import read_repo
from icectl.storage.local import LocalStorage
from tests.gc.damaged_states import (
    bend_parent,
    check_every_bit,
    check_refused,
    damage_by_chance,
    decide,
    lose_branch,
    move_branch_back,
    planned_paths,
)
from tests.gc.repositories import collect, files, live
from tests.official import open_official
from tests.official.histories import commit, create
from tests.undo.states import undo

LATER = pytest.mark.parametrize("later", [0, 2], ids=["newest", "writers went on"])


def undone(where: Path, later: int) -> None:
    """An undone expiration, an undone commit, and unreachable commits of a reset."""
    repo = create(where)
    for number in range(6):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
        if number == 3:
            repo.create_branch("other", repo.lookup_branch("main"))
    with commit(repo, "other", branch="other") as root:
        root.attrs["number"] = 9
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[1].id)
    with commit(repo, "undone") as root:
        root.attrs["number"] = 10
    undo(LocalStorage(where))
    repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    undo(LocalStorage(where))
    repo = open_official(where)
    for number in range(later):
        with commit(repo, f"later {number}") as root:
            root.attrs["number"] = number


@LATER
def test_gc_accepts_it(tmp_path: Path, later: int) -> None:
    where = tmp_path / "repo"
    undone(where, later)
    before, there = live(where), files(where)
    collect(where)
    assert live(where) == before and files(where) < there


@LATER
@pytest.mark.parametrize("damage", [bend_parent, move_branch_back, lose_branch])
def test_damage_is_found(
    tmp_path: Path, damage: Callable[[RepoInfo], RepoInfo], later: int
) -> None:
    where = tmp_path / "repo"
    undone(where, later)
    (where / "repo").write_bytes(encode_repo(damage(read_repo(LocalStorage(where)))))
    check_refused(where, commits=later)


@LATER
def test_some_bits(tmp_path: Path, later: int) -> None:
    undone(tmp_path / "repo", later)
    check_every_bit(tmp_path / "repo", 61)


@LATER
def test_random_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int) -> None:
    """Nothing that is needed is planned, and a run is judged as each of its operations."""
    where = tmp_path / "repo"
    undone(where, later)
    needed = files(where) - planned_paths(where)
    info = read_repo(LocalStorage(where))
    refused = 0
    for seed in range(80):
        damaged = damage_by_chance(info, random.Random(seed))
        (where / "repo").write_bytes(encode_repo(damaged))
        found = decide(where)
        with monkeypatch.context() as closely:
            closely.setattr(past.PastStates, "end_of_run", lambda log, start, releases: start)
            assert decide(where) == found, seed
        refused += isinstance(found, str)
        is_same_log = damaged.latest_updates == info.latest_updates
        assert isinstance(found, str) or not is_same_log or not found & needed, seed
    assert refused
