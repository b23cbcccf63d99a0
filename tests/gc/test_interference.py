"""Others change the repository between plan and execution: their work is never lost."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.errors import ConflictError, FormatError
from icectl.format.snapshot import decode_snapshot
from icectl.ops.gc.run import GcOptions, PlannedRun, collect_garbage
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.repository import update
from icectl.storage.local import LocalStorage
from tests.failures import raises
from tests.faults.storage import FaultyStorage, Request
from tests.gc.repositories import collect, files, live, messy_repository, now
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


def busy(where: Path, method: str, path: str) -> FaultyStorage:
    """A storage where somebody else changes `repo` before each such request."""
    repo = open_official(where)
    numbers = itertools.count()

    def change(request: Request) -> None:
        if (request.method, request.path) == (method, path):
            repo.create_tag(f"meanwhile {next(numbers)}", repo.lookup_branch("main"))

    return FaultyStorage(LocalStorage(where), before=change)


def test_writers_that_are_always_faster(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "MAX_ATTEMPTS", 5)
    mine = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    before, copies = files(mine), len(list((mine / "overwritten").iterdir()))
    storage = busy(mine, "put_if_match", "repo")
    with pytest.raises(ConflictError) as caught:
        collect(storage)
    assert caught.value.exit_code == 11
    assert "nothing was changed" in str(caught.value.hint)
    # The plan was good still: to make it again would only take as long again.
    assert sum(request.method == "put_if_match" for request in storage.requests) == 5
    assert files(mine) == before
    assert len(list((mine / "overwritten").iterdir())) == copies + 5  # those of the tags
    collect(mine)
    assert files(mine) < before


def test_max_runtime_ends_a_race_that_is_always_lost(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "MAX_ATTEMPTS", 10**9)
    mine = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    before = files(mine)
    started = time.monotonic()
    with pytest.raises(OutOfTimeError):
        collect_garbage(
            busy(mine, "put_if_match", "repo"),
            GcOptions(cutoff=now()),
            lambda run: None,
            Progress(deadline=started + 3),
        )
    assert files(mine) == before


def test_damage_is_told_while_others_write(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """That the state changed does not make a lost file another writer's doing."""
    mine = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    collect(mine)
    lost = sorted((mine / "manifests").iterdir())[0]
    lost.unlink()
    storage = busy(mine, "list", "manifests")
    with raises(FormatError, path=f"manifests/{lost.name}") as caught:
        collect(storage)
    assert caught.value.code == "ICE0301"
    assert sum(request.path == "manifests" for request in storage.requests) == 2
