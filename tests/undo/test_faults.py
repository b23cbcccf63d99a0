"""Killed processes, lost races, lost responses, and a collection at the same time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from icectl.errors import ConflictError, PreconditionFailedError
from icectl.model.repo import GCRanUpdate
from icectl.ops.undo.run import UndoOptions, UndoResult, execute_undo, plan_restore, plan_undo
from icectl.pipeline.progress import Progress
from icectl.repository.open import open_repository
from icectl.repository.ops_log import OpsLogEntry, read_ops_log, read_repo
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from tests.faults.killing import MOST_STEPS, kill_at_every_step
from tests.faults.storage import FaultyStorage, Request, before_the_write, fail_once
from tests.official import copied, ic, linear_history, open_official
from tests.official.histories import commit
from tests.undo.states import official_state, own_state, undo


def expired(where: Path, *, with_branch: bool = False) -> None:
    """Five commits, of which three were released; the undo needs four entries or more."""
    repo = linear_history(where, 5)
    if with_branch:
        repo.create_branch("old", list(repo.ancestry(branch="main"))[3].id)
    moment = repo.lookup_snapshot(repo.lookup_branch("main")).written_at
    assert len(repo.expire_snapshots(moment, delete_expired_branches=True)) >= 3


def restore(storage: Storage) -> UndoResult:
    """The state before the last operation."""
    repository = open_repository(storage)
    plan = plan_restore(repository, "@1", int, UndoOptions(), Progress())
    return execute_undo(repository, plan, UndoOptions(), Progress())


Way = Callable[[Storage], UndoResult]
WAYS = pytest.mark.parametrize("way", [undo, restore])


@pytest.mark.parametrize("operation", ["undo", "restore@1"])
def test_killed_at_every_step(tmp_path: Path, operation: str) -> None:
    original = tmp_path / "original"
    expired(original, with_branch=True)
    copies = [copied(original, tmp_path / str(step)) for step in range(MOST_STEPS)]
    roots = kill_at_every_step(operation, copies)
    states = [own_state(read_repo(LocalStorage(root))) for root in roots]
    old, new = own_state(read_repo(LocalStorage(original))), states[-1]
    assert states == [old] * states.count(old) + [new] * states.count(new)
    assert states.count(old) > 3 and new != old
    shutil.rmtree(original)
    for root in roots[:: max(1, len(roots) // 8)] + roots[-1:]:
        official_state(root)
        repo = open_official(root)
        with commit(repo, "afterwards") as group:
            group.attrs["after"] = 1
        storage = LocalStorage(root)
        log = list(read_ops_log(storage, read_repo(storage)))
        assert all(isinstance(entry, OpsLogEntry) for entry in log)


@WAYS
def test_a_lost_response(tmp_path: Path, way: Way) -> None:
    expired(tmp_path)
    num_updates = len(read_repo(LocalStorage(tmp_path)).latest_updates)
    storage = FaultyStorage(LocalStorage(tmp_path), after=fail_once("put_if_match", "repo"))
    done = way(storage)
    info = read_repo(LocalStorage(tmp_path))
    assert len(info.latest_updates) == num_updates + len(done.changes.added_snapshots)
    times = [update.updated_at for update in info.latest_updates]
    assert times == sorted({*times}, reverse=True)


def commit_on(where: Path, branch: str) -> None:
    with commit(open_official(where), "meanwhile", branch=branch) as root:
        root.attrs["meanwhile"] = True


def test_a_lost_race_with_a_commit(tmp_path: Path) -> None:
    """What others committed stays, and the expiration below it is undone."""
    expired(tmp_path)
    hook = before_the_write(lambda: commit_on(tmp_path, "main"))
    done = undo(FaultyStorage(LocalStorage(tmp_path), before=hook))
    messages = [info.message for info in open_official(tmp_path).ancestry(branch="main")]
    assert (
        messages[0] == "meanwhile" and len(messages) == 7 and len(done.changes.added_snapshots) >= 3
    )


@WAYS
def test_a_lost_race_with_a_conflict(tmp_path: Path, way: Way) -> None:
    """A restore would release the new commit as well, which nobody confirmed."""
    linear_history(tmp_path, 3)
    hook = before_the_write(lambda: commit_on(tmp_path, "main"))
    with pytest.raises(ConflictError):
        way(FaultyStorage(LocalStorage(tmp_path), before=hook))
    messages = [info.message for info in open_official(tmp_path).ancestry(branch="main")]
    assert len(messages) == 5
    named = {one.backup_path for one in read_repo(LocalStorage(tmp_path)).latest_updates} - {None}
    assert {path.name for path in (tmp_path / "overwritten").iterdir()} == named


def test_the_plan_is_another_one_by_then(tmp_path: Path) -> None:
    """A tag keeps the commit in the list: that is not what was confirmed."""
    linear_history(tmp_path, 3)

    def tag() -> None:
        repo = open_official(tmp_path)
        repo.create_tag("meanwhile", repo.lookup_branch("main"))

    with pytest.raises(ConflictError, match="since the plan was made"):
        undo(FaultyStorage(LocalStorage(tmp_path), before=before_the_write(tag)))
    assert open_official(tmp_path).lookup_tag("meanwhile")


@WAYS
def test_a_writer_that_always_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    monkeypatch.setattr("icectl.repository.update.MAX_ATTEMPTS", 3)
    expired(tmp_path)
    before = (tmp_path / "repo").read_bytes()

    def lose(request: Request) -> None:
        if request.method == "put_if_match":
            raise PreconditionFailedError(request.path)

    with pytest.raises(ConflictError):
        way(FaultyStorage(LocalStorage(tmp_path), before=lose))
    assert (tmp_path / "repo").read_bytes() == before


def test_a_collection_takes_what_comes_back(tmp_path: Path) -> None:
    expired(tmp_path)
    released = {path.name for path in (tmp_path / "snapshots").iterdir()} - {
        one["id"] for one in open_official(tmp_path).inspect_repo_info()["snapshots"]
    }

    def collect() -> None:
        for name in released:
            (tmp_path / "snapshots" / name).unlink()

    storage = FaultyStorage(LocalStorage(tmp_path), before=before_the_write(collect))
    done = undo(storage)
    assert {*done.missing} == {f"snapshots/{name}" for name in released}
    undo(LocalStorage(tmp_path))
    assert ic.Repository.open(ic.local_filesystem_storage(str(tmp_path)))


@pytest.mark.parametrize("others", [0, 5], ids=["newest", "in a backup"])
def test_a_collection_ran_since_the_plan(tmp_path: Path, others: int) -> None:
    """Its entry in the ops log says so, before anything is written, wherever the entry is."""
    expired(tmp_path)
    config = open_official(tmp_path).config
    config.num_updates_per_repo_info_file = 3
    open_official(tmp_path).reopen(config=config).save_config()
    undone = "@1"
    repository = open_repository(LocalStorage(tmp_path))
    plan = plan_undo(repository, undone, int, UndoOptions(), Progress())
    repo = open_official(tmp_path)
    moment = repo.lookup_snapshot(repo.lookup_branch("main")).written_at
    assert repo.garbage_collect(moment + timedelta(minutes=1)).snapshots_deleted >= 3
    for number in range(others):
        repo.update_metadata({"number": number})
    latest = read_repo(LocalStorage(tmp_path)).latest_updates
    assert any(isinstance(one.update_type, GCRanUpdate) for one in latest) == (not others)
    before = (tmp_path / "repo").read_bytes()
    with pytest.raises(ConflictError, match="garbage collection"):
        execute_undo(repository, plan, UndoOptions(), Progress())
    assert (tmp_path / "repo").read_bytes() == before
