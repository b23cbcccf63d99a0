"""The maintenance of one repository, step by step."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.checks.rules import Level
from icectl.errors import ConflictError, FormatError, RefusedError, StorageError
from icectl.model.repo import Availability
from icectl.ops.expire.policy import Policy
from icectl.ops.gc.run import GcOptions
from icectl.ops.gc.safeguards import MaxDelete
from icectl.ops.maintain import (
    BranchRule,
    MaintenancePolicy,
    MaintenanceResult,
    find_old_branches,
    maintain,
)
from icectl.ops.settings import set_status
from icectl.ops.upgrade import execute_upgrade, plan_upgrade
from icectl.ops.validate.run import ValidateOptions
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.gc.repositories import files, live_paths
from tests.maintain.repositories import check_kept, digest, read, write_repository
from tests.official import built, ic, open_official
from tests.official.histories import commit
from tests.validate.damage import Patient, build
from tests.validate.damages import DAMAGES

SOON = 1_000_000
ALL = {"delete_branches", "expire", "gc", "validate"}


@pytest.fixture(params=[2, 1])
def where(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Path:
    return copy_of(tmp_path_factory, tmp_path, request.param)


@pytest.fixture
def newest(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """Only of spec version 2."""
    return copy_of(tmp_path_factory, tmp_path, 2)


def copy_of(factory: pytest.TempPathFactory, directory: Path, spec_version: int) -> Path:
    target = directory / "repository"
    shutil.copytree(built(factory, write_repository, spec_version), target)
    return target


def everything(now: int) -> MaintenancePolicy:
    """All objects are old enough."""
    return MaintenancePolicy(
        delete_branches=(BranchRule(("tmp-*",), now + SOON),),
        protect_branches=("release-*",),
        expire=Policy(keep_last=2),
        gc=GcOptions(cutoff=now, backups_older_than=now, truncate_ops_log=True),
        validate=ValidateOptions(level=Level.DATA),
    )


def run(
    where: Path, policy: Callable[[int], MaintenancePolicy] = everything, **options: Any
) -> MaintenanceResult:
    result = MaintenanceResult(options.pop("dry_run", False))
    maintain(LocalStorage(where), policy, options.pop("progress", Progress()), result)
    assert not options
    return result


def skipped(result: MaintenanceResult) -> set[str]:
    return {one.step for one in result.skipped_steps}


def test_all_steps(where: Path) -> None:
    before = read(where)
    result = run(where)
    assert (result.failure, result.skipped_steps) == (None, [])
    assert result.seconds.keys() == {"open", *ALL}
    assert [branch.name for branch in result.deleted_branches] == ["tmp-1"]
    assert result.expire is not None and result.expire.gone_snapshots == 4
    assert result.gc is not None and result.gc.is_complete and result.gc.chunks_deleted
    assert result.validate is not None and result.validate.ok
    check_kept(before, read(where), {"tmp-1"})
    assert files(where) == live_paths(where)
    again = run(where)
    assert (again.failure, again.deleted_branches) == (None, ())
    assert again.expire is not None and again.expire.gone_snapshots == 0
    assert again.gc is not None and again.gc.num_objects == 0


def test_a_dry_run_is_the_plan_of_the_run(where: Path) -> None:
    before = digest(where)
    planned = run(where, dry_run=True)
    assert digest(where) == before
    assert (planned.failure, planned.validate, planned.validate_level) == (None, None, "data")
    done = run(where)
    assert planned.deleted_branches == done.deleted_branches
    assert planned.expire is not None and done.expire is not None
    assert planned.expire.released_snapshots == done.expire.released_snapshots
    assert planned.gc is not None and done.gc is not None
    freed = planned.expire.could_free
    assert freed is not None and freed.chunks is not None
    # The branch is deleted as well, and its chunks are not part of the estimate.
    assert planned.gc.chunks_deleted + freed.chunks <= done.gc.chunks_deleted


def test_steps_without_options_are_not_taken(where: Path) -> None:
    before = digest(where)
    result = run(where, lambda now: MaintenancePolicy(validate=ValidateOptions()))
    assert result.seconds.keys() == {"open", "validate"}
    assert digest(where) == before


# ── branches ─────────────────────────────────────────────────────────────────────────────


def old_branches(where: Path, *rules: BranchRule, protect: tuple[str, ...] = ()) -> list[str]:
    policy = MaintenancePolicy(delete_branches=rules, protect_branches=protect)
    found, _ = find_old_branches(open_repository(LocalStorage(where)), policy)
    return [branch.name for branch in found]


def tip_time(where: Path, branch: str) -> int:
    repository = open_repository(LocalStorage(where))
    return repository.snapshot_info(repository.branches()[branch]).flushed_at


def test_main_and_protected_branches_are_never_old(where: Path) -> None:
    later = LocalStorage(where).read_clock() + SOON
    assert old_branches(where, BranchRule(("*",), later)) == ["release-1", "tmp-1"]
    assert old_branches(where, BranchRule(("*",), later), protect=("rel*",)) == ["tmp-1"]
    assert old_branches(where, BranchRule(("main",), later)) == []
    assert old_branches(where, BranchRule(("x*",), later)) == []


def test_a_rule_needs_its_age(where: Path) -> None:
    tip = tip_time(where, "tmp-1")
    assert old_branches(where, BranchRule(("tmp-1",), tip)) == []
    assert old_branches(where, BranchRule(("tmp-1",), tip + 1)) == ["tmp-1"]
    # Of two rules that match, the one that deletes decides.
    assert old_branches(where, BranchRule(("*",), 0), BranchRule(("tmp-1",), tip + 1)) == ["tmp-1"]


@pytest.mark.parametrize("change", ["create", "reset"])
def test_a_branch_set_recently_to_an_old_commit_is_in_use(newest: Path, change: str) -> None:
    repo = open_official(newest)
    first = list(repo.ancestry(branch="main"))[-2].id
    cutoff = LocalStorage(newest).read_clock()
    time.sleep(0.01)
    if change == "create":
        repo.create_branch("tmp-2", first)
    else:
        repo.reset_branch("tmp-1", first)
    name = "tmp-2" if change == "create" else "tmp-1"
    assert tip_time(newest, name) < cutoff
    assert name not in old_branches(newest, BranchRule(("tmp-*",), cutoff))
    assert name in old_branches(newest, BranchRule(("tmp-*",), cutoff + 60 * SOON))


@pytest.mark.parametrize("loss", ["truncated", "cleared"])
def test_a_branch_is_kept_if_the_ops_log_no_longer_shows_its_age(newest: Path, loss: str) -> None:
    """Somebody may have created it since, at an old commit."""
    repo = open_official(newest)
    first = list(repo.ancestry(branch="main"))[-2].id
    cutoff = LocalStorage(newest).read_clock()
    time.sleep(0.01)
    repo.create_branch("tmp-2", first)
    if loss == "cleared":
        config = repo.config
        config.num_updates_per_repo_info_file = 2
        repo = open_official(newest, config)
    for number in range(4):
        repo.create_tag(f"later-{number}", first)
    if loss == "truncated":
        result = run(newest, lambda now: MaintenancePolicy(gc=everything(now).gc))
        assert result.failure is None and result.gc is not None and result.gc.backups_deleted
    else:
        for path in (newest / "overwritten").iterdir():
            path.unlink()
    rule = BranchRule(("tmp-*",), cutoff)
    assert old_branches(newest, rule) == []
    result = run(newest, lambda now: MaintenancePolicy(delete_branches=(rule,)))
    assert result.failure is None and result.deleted_branches == ()
    assert result.branches_of_unknown_age == ("tmp-1", "tmp-2")
    assert "tmp-2" in open_official(newest).list_branches()


@pytest.mark.parametrize("by_official", [False, True])
def test_a_branch_is_kept_after_an_upgrade(
    by_official: bool, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Spec version 1 did not record when the branch was created."""
    where = copy_of(tmp_path_factory, tmp_path, 1)
    before = LocalStorage(where).read_clock()
    if by_official:
        ic.upgrade_icechunk_repository(open_official(where), dry_run=False)
    else:
        storage, progress = LocalStorage(where), Progress()
        execute_upgrade(storage, plan_upgrade(open_repository(storage), progress), progress)
    policy = MaintenancePolicy(delete_branches=(BranchRule(("tmp-*",), before),))
    repository = open_repository(LocalStorage(where))
    assert find_old_branches(repository, policy) == ([], ("tmp-1",))
    after = LocalStorage(where).read_clock() + SOON
    assert old_branches(where, BranchRule(("tmp-*",), after)) == ["tmp-1"]


def test_a_branch_that_moves_meanwhile_is_kept(newest: Path) -> None:
    moved = []

    def commit_first(label: str, _total: int | None, _unit: str) -> AbstractContextManager[Any]:
        if label == "deleting branches":
            with commit(open_official(newest), "newer", branch="tmp-1") as root:
                root.attrs["newer"] = True
            moved.append(open_official(newest).lookup_branch("tmp-1"))

        class Counter:
            def advance(self, count: int = 1) -> None: ...
            def expect(self, total: int) -> None: ...

        return nullcontext(Counter())

    result = run(newest, progress=Progress(commit_first))
    assert (result.failure, result.deleted_branches) == (None, ())
    assert [open_official(newest).lookup_branch("tmp-1")] == moved


def test_idle_protection_is_reported(newest: Path) -> None:
    result = run(newest, lambda now: replace(everything(now), protect_branches=("relaese-*",)))
    assert result.idle_globs == (("protect_branches", "relaese-*"),)


# ── what goes wrong ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["manifests", "snapshots"])
def test_damage_stops_the_changes_and_not_the_validation(where: Path, kind: str) -> None:
    repository = open_repository(LocalStorage(where))
    if kind == "snapshots":
        lost = str(repository.branches()["release-1"])
    else:
        columns = repository.read_snapshot(repository.branches()["release-1"])
        lost = str(columns.all_manifest_files[0].id)
    (where / kind / lost).unlink()
    before = digest(where)
    for dry_run in (True, False):
        result = run(where, dry_run=dry_run)
        assert isinstance(result.failure, FormatError | StorageError)
        assert kind == "snapshots" or result.failed_step == "gc"
        assert skipped(result) == ALL - {"validate"} - {result.failed_step}
        assert (result.gc, result.expire, result.deleted_branches) == (None, None, ())
        assert digest(where) == before
    assert result.validate is not None and not result.validate.ok
    assert any(lost in finding.object for finding in result.validate.findings)


@pytest.mark.parametrize("code", ["ICE0001", "ICE0020", "ICE0101", "ICE0201", "ICE0301", "ICE0401"])
def test_nothing_of_a_damaged_repository_is_changed(
    code: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    where = tmp_path / "repository"
    shutil.copytree(built(tmp_path_factory, build, 2), where)
    DAMAGES[code](Patient(where))
    before = digest(where)
    result = run(where)
    assert isinstance(result.failure, FormatError)
    assert result.validate is not None and code in result.validate.by_code
    assert digest(where) == before


@pytest.mark.parametrize("expires", [False, True])
def test_without_main_no_other_branch_is_deleted(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, expires: bool
) -> None:
    """The others may be all that is left."""
    where = copy_of(tmp_path_factory, tmp_path, 1)
    (where / "refs" / "branch.main" / "ref.json").unlink()
    before = digest(where)

    def policy(now: int) -> MaintenancePolicy:
        whole = everything(now)
        return replace(whole, protect_branches=(), expire=whole.expire if expires else None)

    result = run(where, policy)
    assert isinstance(result.failure, FormatError)
    assert result.failed_step == "delete_branches"
    assert result.validate is not None and not result.validate.ok
    assert digest(where) == before


def test_a_damaged_repo_file(newest: Path) -> None:
    (newest / "repo").write_bytes((newest / "repo").read_bytes()[:-9])
    before = digest(newest)
    result = run(newest)
    assert isinstance(result.failure, FormatError) and result.failed_step == "open"
    assert skipped(result) == {"delete_branches", "expire", "gc"}
    assert result.validate is not None and not result.validate.ok
    assert digest(newest) == before


@pytest.mark.parametrize("availability", [Availability.READ_ONLY, Availability.OFFLINE])
def test_a_closed_repository_is_only_validated(newest: Path, availability: Availability) -> None:
    repository = open_repository(LocalStorage(newest))
    set_status(repository, availability, "audit")
    before = digest(newest)
    for dry_run in (True, False):
        result = run(newest, dry_run=dry_run)
        assert (result.failure, result.availability) == (None, availability)
        assert skipped(result) == {"delete_branches", "expire", "gc"}
        assert all("audit" in one.reason for one in result.skipped_steps)
    assert result.validate is not None and result.validate.ok
    assert digest(newest) == before


def test_a_limit_of_gc(where: Path) -> None:
    def limited(now: int) -> MaintenancePolicy:
        return replace(everything(now), gc=GcOptions(cutoff=now, max_delete=MaxDelete(count=1)))

    before = files(where)
    result = run(where, limited)
    assert isinstance(result.failure, RefusedError) and result.failed_step == "gc"
    assert result.expire is not None and result.validate is not None and result.validate.ok
    assert files(where) >= before


def test_no_repository(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere")
    assert result.failure is not None and result.failed_step == "open"
    assert skipped(result) == ALL
    assert not (tmp_path / "nowhere").exists()


def test_no_time(newest: Path) -> None:
    before = digest(newest)
    result = run(newest, progress=Progress(None, time.monotonic() - 1))
    assert isinstance(result.failure, OutOfTimeError)
    assert skipped(result) == ALL
    assert digest(newest) == before


def test_lost_races_end_in_time(newest: Path) -> None:
    """Writers that are always faster must not keep the run busy after its time."""
    numbers = iter(range(1000))

    def commit_first(label: str, _total: int | None, _unit: str) -> AbstractContextManager[Any]:
        if label == "reading the tips":
            with commit(open_official(newest), f"newer {next(numbers)}") as root:
                root.attrs["newer"] = True
        return Progress().phase(label)

    progress = Progress(commit_first, time.monotonic() + 2)
    result = run(
        newest, lambda _now: MaintenancePolicy(expire=Policy(keep_last=2)), progress=progress
    )
    assert isinstance(result.failure, OutOfTimeError) and result.failed_step == "expire"
    assert result.expire is None
    assert len(list(open_official(newest).ancestry(branch="main"))) == 7 + next(numbers)


def test_a_bug_ends_the_work_on_this_repository(newest: Path) -> None:
    def faulty(label: str, _total: int | None, _unit: str) -> AbstractContextManager[Any]:
        raise ZeroDivisionError

    result = run(newest, progress=Progress(faulty))
    assert isinstance(result.failure, ZeroDivisionError)
    assert not isinstance(result.failure, ConflictError)
    assert "validate" in skipped(result)
