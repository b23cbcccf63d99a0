"""Others change the repository between plan and execution: their work is never lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.errors import ConflictError
from icectl.format.snapshot import decode_snapshot
from icectl.ops.gc.collect import GcOptions, PlannedRun, collect_garbage
from icectl.ops.gc.objects import ObjectKind
from icectl.storage.local import LocalStorage
from tests.gc.repositories import live, messy_repository, now
from tests.official import built, copied, ic, open_official
from tests.official.histories import commit

Interfere = Callable[[ic.Repository, PlannedRun], None]


def tag_what_goes(repo: ic.Repository, run: PlannedRun) -> None:
    repo.create_tag("rescued", str(max(run.plan.dropped_snapshots)))


def reset_to_what_goes(repo: ic.Repository, run: PlannedRun) -> None:
    repo.reset_branch("main", str(max(run.plan.dropped_snapshots)))


def commit_on_what_goes(repo: ic.Repository, run: PlannedRun) -> None:
    repo.create_branch("again", str(max(run.plan.dropped_snapshots)))
    with commit(repo, "on top", branch="again") as root:
        root["b"][:16] = 99
    repo.delete_branch("again")
    repo.create_branch("once more", next(iter(repo.inspect_repo_info()["snapshots"]))["id"])


def commit_elsewhere(repo: ic.Repository, run: PlannedRun) -> None:
    with commit(repo, "meanwhile") as root:
        root["a"][:64] = 77
        root["b"][:] = 78


@pytest.mark.parametrize(
    "interfere", [tag_what_goes, reset_to_what_goes, commit_on_what_goes, commit_elsewhere]
)
def test_changes_between_plan_and_update(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, interfere: Interfere
) -> None:
    mine = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    repo = open_official(mine)
    plans: list[PlannedRun] = []
    after: list[object] = []

    def approve(run: PlannedRun) -> None:
        if not plans:
            interfere(repo, run)
            after.append(live(mine))
        plans.append(run)

    collect_garbage(LocalStorage(mine), GcOptions(cutoff=now()), approve)
    assert live(mine) == after[0]
    restarts = len(plans) - 1
    assert restarts == (0 if interfere is commit_elsewhere else 1)


@pytest.mark.parametrize("how", ["tag", "commit"])
def test_changes_before_deletes_v1(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    mine = copied(built(tmp_path_factory, messy_repository, 1), tmp_path / "repo")
    repo = open_official(mine)
    after: list[object] = []

    def approve(run: PlannedRun) -> None:
        if after:
            return
        if how == "tag":
            for name in run.plan.garbage[ObjectKind.SNAPSHOT].ids.to_names():
                data = (mine / "snapshots" / name).read_bytes()
                if str(decode_snapshot(data).id) == name:  # else it is an orphan
                    repo.create_tag(f"rescued-{name}", name)
        else:
            commit_elsewhere(repo, run)
        after.append(live(mine))

    collect_garbage(LocalStorage(mine), GcOptions(cutoff=now()), approve)
    assert live(mine) == after[0]


def test_endless_interference_gives_up(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mine = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    repo = open_official(mine)
    dropped: list[str] = []

    def approve(run: PlannedRun) -> None:
        dropped[:] = dropped or [str(max(run.plan.dropped_snapshots))]
        if "flicker" in repo.list_branches():
            repo.delete_branch("flicker")
            raise_again(run)
        repo.create_branch("flicker", dropped[0])

    def raise_again(run: PlannedRun) -> None:
        raise ConflictError("somebody else is faster")

    with pytest.raises(ConflictError):
        collect_garbage(LocalStorage(mine), GcOptions(cutoff=now()), approve)
    assert live(mine)
