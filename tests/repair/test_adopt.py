"""`branch create --adopt`: a snapshot file that `repo` does not list gets a branch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from icectl.errors import RefusedError
from icectl.model.ids import SnapshotId
from icectl.ops.adopt import adopt_snapshot
from icectl.pipeline.progress import Progress
from icectl.repository.open import open_repository
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from tests.command_line import Icectl
from tests.faults.killing import MOST_STEPS, kill_at_every_step, state_of
from tests.faults.storage import FaultyStorage, before_the_write, fail_once
from tests.official import copied, linear_history
from tests.official.histories import commit
from tests.repair.helpers import commits_work, content, findings, official, read_version, versions


@pytest.fixture
def lost(tmp_path: Path) -> tuple[Path, str, dict]:
    """A repository that was put back by one commit, and the commit."""
    where = tmp_path / "repo"
    repo = linear_history(where, 2)
    with commit(repo, "array") as root:
        root.create_array("a", shape=(64,), chunks=(8,), dtype="i4")[:] = range(64)
    old = (where / "repo").read_bytes()
    with commit(repo, "lost") as root:
        root["a"][:8] = 7
    tip = repo.lookup_branch("main")
    content_of_tip = read_version(repo, branch="main")
    (where / "repo").write_bytes(old)
    # As if the old state were the newest: its own copy is the only trace of the commit.
    min((where / "overwritten").iterdir()).unlink()
    return where, tip, content_of_tip


def test_a_commit_is_adopted(icectl: Icectl, lost: tuple[Path, str, dict]) -> None:
    where, tip, expected = lost
    before = versions(official(where))
    done = icectl("branch", "create", "found", tip, "--adopt", "--json", "-r", str(where))
    assert done.code == 0, done.err
    assert done.document == {
        "branch": "found",
        "snapshot_id": tip,
        "previous_snapshot_id": None,
    }
    repo = official(where)
    assert read_version(repo, branch="found") == expected
    messages = [one.message for one in repo.ancestry(branch="found")][:2]
    assert messages == ["lost", "array"]
    assert all(versions(repo)[id_] == data for id_, data in before.items())
    log = icectl("ops-log", "--json", "-r", str(where)).document["updates"]
    assert [one["kind"] for one in log[:2]] == ["branch_created", "new_detached_snapshot"]
    assert findings(where) == []
    commits_work(where)
    assert findings(where) == []


@pytest.mark.parametrize("missing", ["chunks", "manifests", "transactions"])
def test_it_is_checked_first(
    icectl: Icectl,
    lost: tuple[Path, str, dict],
    missing: str,
) -> None:
    where, tip, _ = lost
    newest = max((where / missing).iterdir(), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    before = content(where)
    done = icectl("branch", "create", "found", tip, "--adopt", "--json", "-r", str(where))
    assert (done.code, done.error["kind"]) == (13, "damaged")
    assert newest.name in done.error["message"]
    assert content(where) == before


def test_a_snapshot_without_a_known_parent(
    icectl: Icectl,
    lost: tuple[Path, str, dict],
    tmp_path: Path,
) -> None:
    """From another repository, with everything it needs."""
    where, tip, expected = lost
    other = tmp_path / "other"
    linear_history(other, 1)
    for kind in ("snapshots", "transactions", "manifests", "chunks"):
        for path in (where / kind).iterdir():
            if not (other / kind / path.name).exists():
                (other / kind).mkdir(exist_ok=True)
                shutil.copy(path, other / kind)
    done = icectl("branch", "create", "found", tip, "--adopt", "--json", "-r", str(other))
    assert done.code == 0, done.err
    repo = official(other)
    assert read_version(repo, branch="found") == expected
    assert len(list(repo.ancestry(branch="found"))) == 2
    assert findings(other) == []
    commits_work(other)


def test_wrong_arguments(icectl: Icectl, lost: tuple[Path, str, dict]) -> None:
    where, tip, _ = lost
    before = content(where)
    place = ("--adopt", "--json", "-r", str(where))
    assert icectl("branch", "create", "found", tip[:8], *place).code == 2
    assert icectl("branch", "create", "found", "0" * 20, *place).code == 12
    assert icectl("branch", "create", "main", tip, *place).code == 16
    assert content(where) == before


def test_in_spec_version_1(icectl: Icectl, tmp_path: Path) -> None:
    where = tmp_path / "repo"
    repo = linear_history(where, 3, 1)
    tip = repo.lookup_branch("main")
    expected = read_version(repo, branch="main")
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[1].id)
    assert icectl("branch", "create", "found", tip, "--adopt", "-r", str(where)).code == 0
    assert read_version(official(where), branch="found") == expected
    ref = json.loads((where / "refs" / "branch.found" / "ref.json").read_text())
    assert ref == {"snapshot": tip}


def test_killed_at_every_step(lost: tuple[Path, str, dict], tmp_path: Path) -> None:
    where, tip, expected = lost
    old = state_of(where)
    copies = [copied(where, tmp_path / str(step)) for step in range(MOST_STEPS)]
    roots = kill_at_every_step(f"adopt:{tip}", copies)
    states = [state_of(root) for root in roots]
    new = states[-1]
    assert states == [old] * states.count(old) + [new] * states.count(new)
    assert states.count(old) > 3 and new != old
    for root in roots[:: max(1, len(roots) // 4)] + roots[-1:]:
        repo = official(root)
        if "adopted" in repo.list_branches():
            assert read_version(repo, branch="adopted") == expected
        commits_work(root)


def adopt(storage: Storage, tip: str) -> None:
    adopt_snapshot(open_repository(storage), "found", SnapshotId.parse(tip), Progress())


def test_the_answer_is_lost(lost: tuple[Path, str, dict]) -> None:
    where, tip, expected = lost
    adopt(FaultyStorage(LocalStorage(where), after=fail_once("put_if_match", "repo")), tip)
    assert read_version(official(where), branch="found") == expected
    assert findings(where) == []


@pytest.mark.parametrize("name", ["theirs", "found"])
def test_another_writer_is_first(lost: tuple[Path, str, dict], name: str) -> None:
    """Whatever others did stays; a branch of the same name is never moved."""
    where, tip, expected = lost

    def create_branch() -> None:
        repo = official(where)
        repo.create_branch(name, repo.lookup_branch("main"))

    storage = FaultyStorage(LocalStorage(where), before=before_the_write(create_branch))
    if name == "found":
        with pytest.raises(RefusedError):
            adopt(storage, tip)
    else:
        adopt(storage, tip)
        assert read_version(official(where), branch="found") == expected
    repo = official(where)
    assert repo.lookup_branch(name) == repo.lookup_branch("main")
    assert findings(where) == []
