"""An upgrade that is killed, loses responses, or meets clients of both spec versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.errors import ConflictError, StorageError
from icectl.ops.upgrade import CLOSED
from icectl.repository.history import state_of
from icectl.repository.ops_log import read_repo
from icectl.storage.local import LocalStorage
from tests.command_line import Icectl
from tests.failures import raises
from tests.faults.killing import kill_at_every_step
from tests.faults.storage import FaultyStorage, Request, fail_after, fail_once
from tests.official import built, copied, ic, open_official
from tests.official.histories import commit, create
from tests.upgrade.repositories import upgrade, upgrade_officially, upgraded_state

MOST_REQUESTS = 200
MOST_STEPS = 400


def few_refs(where: Path) -> None:
    repo = create(where, 1)
    for number in range(2):
        with commit(repo, f"commit {number}") as root:
            root.attrs["number"] = number
    for name in ("side", "other"):
        repo.create_branch(name, repo.lookup_branch("main"))
    for name in ("kept", "deleted"):
        repo.create_tag(name, repo.lookup_branch("main"))
    repo.delete_tag("deleted")


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, few_refs)


@pytest.fixture(scope="session")
def expected(original: Path, tmp_path_factory: pytest.TempPathFactory) -> object:
    path = copied(original, tmp_path_factory.mktemp("expected") / "repo")
    upgrade(path)
    return upgraded_state(path)


def faulty(path: Path, **hooks: Callable[[Request], None]) -> FaultyStorage:
    return FaultyStorage(LocalStorage(str(path)), **hooks)


def old_files(path: Path) -> list[Path]:
    refs = [one for one in (path / "refs").rglob("*") if one.is_file()]
    return [*refs, *path.glob("config.yaml")]


def test_resumes_after_a_failure_at_every_request(
    original: Path, expected: object, tmp_path: Path
) -> None:
    tip = open_official(original).lookup_branch("main")
    for number in range(MOST_REQUESTS):
        path = copied(original, tmp_path / str(number))
        try:
            upgrade(faulty(path, before=fail_after(number)))
        except StorageError:
            # Whoever opens it in between sees one of the two versions.
            assert open_official(path).lookup_branch("main") == tip
            upgrade(path)
            assert (upgraded_state(path), old_files(path)) == (expected, [])
        else:
            assert number > 30
            return
    pytest.fail("the upgrade never ended")


def test_resumes_after_a_kill_at_every_step(
    original: Path, expected: object, tmp_path: Path
) -> None:
    copies = [copied(original, tmp_path / str(step)) for step in range(MOST_STEPS)]
    roots = kill_at_every_step("upgrade", copies)
    assert len(roots) > 50
    assert (upgraded_state(roots[-1]), old_files(roots[-1])) == (expected, [])
    for path in roots[:-1]:
        upgrade(path)
        assert (upgraded_state(path), old_files(path)) == (expected, [])


@pytest.mark.parametrize(
    ("method", "object_"),
    [
        ("put_if_absent", "upgrade-backup/"),
        ("put_if_absent", "repo"),
        ("put_if_match", "refs/branch.main/"),
        ("put_if_match", "refs/branch.side/"),
        ("delete_many", "refs/branch.main/"),
        ("delete_many", "refs/tag.kept/"),
        ("delete_many", "config.yaml"),
    ],
)
def test_a_lost_response(
    original: Path, expected: object, tmp_path: Path, method: str, object_: str
) -> None:
    path = copied(original, tmp_path / "repo")
    with pytest.raises(StorageError):
        upgrade(faulty(path, after=fail_once(method, object_)))
    upgrade(path)
    assert (upgraded_state(path), old_files(path)) == (expected, [])


def commit_to(branch: str) -> Callable[[ic.Repository], None]:
    def act(repo: ic.Repository) -> None:
        with commit(repo, "late", branch=branch) as root:
            root.attrs["late"] = True

    return act


ACTIONS: dict[str, Callable[[ic.Repository], object]] = {
    "commit to main": commit_to("main"),
    "commit to side": commit_to("side"),
    "create a branch": lambda repo: repo.create_branch("new", repo.lookup_branch("main")),
    "delete a branch": lambda repo: repo.delete_branch("other"),
    "create a tag": lambda repo: repo.create_tag("new", repo.lookup_branch("main")),
    "delete a tag": lambda repo: repo.delete_tag("kept"),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_client_of_version_1_at_every_request(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """What it did is in the upgraded repository, or it failed."""
    # Official clients take no lock on local disk: here they act between two requests, not during
    # one. On an object store they write conditionally, which `test_servers` has.
    monkeypatch.setattr("icectl.ops.upgrade.WORKERS", 1)
    done: list[bool] = []
    ignored: list[int] = []
    for number in range(1, MOST_REQUESTS):
        path = copied(original, tmp_path / str(number))
        theirs = open_official(path)

        def act(request: Request, number: int = number, theirs: ic.Repository = theirs) -> None:
            if request.number == number:
                try:
                    ACTIONS[action](theirs)
                except ic.IcechunkError:
                    done.append(False)
                else:
                    done.append(True)

        before = len(done)
        try:
            upgrade(faulty(path, before=act))
        except ConflictError:
            # Refused, and both sides are still there.
            assert done[-1] and old_files(path)
            continue
        if len(done) == before:
            break
        assert old_files(path) == []
        state = state_of(read_repo(LocalStorage(str(path))))
        late = [
            *(state.snapshots[id_].message for id_ in state.reachable if done[-1]),
            *({"create a branch": "new"} if "new" in state.branches else ()),
            *({"create a tag": "new"} if "new" in state.tags else ()),
            *({"delete a branch": "other"} if "other" not in state.branches else ()),
            *({"delete a tag": "kept"} if "kept" in state.deleted_tags else ()),
        ]
        found = "late" in late if action.startswith("commit") else action in late
        if action == "delete a branch" and done[-1] and not found:
            ignored.append(number)  # a branch that is deleted late stays, which loses nothing
        else:
            assert found == done[-1], (number, action)
    else:
        pytest.fail("the upgrade never ended")
    assert done[0] and 1 not in ignored, "at the first request, it can still act"
    assert not all(done), "at some request, it is too late"


def test_commits_of_both_versions(original: Path, tmp_path: Path, icectl: Icectl) -> None:
    """After commits of both, nothing is deleted until the late one has a branch."""
    path = copied(original, tmp_path / "repo")
    old = open_official(path)
    with pytest.raises(StorageError):
        upgrade(faulty(path, after=fail_once("put_if_absent", "repo")))
    commit_to("main")(old)
    late = old.lookup_branch("main")
    with commit(open_official(path), "new client") as root:
        root.attrs["new"] = True
    files = sorted(path.rglob("*"))
    with raises(ConflictError, remedy="keep-late-commit", snapshot=late):
        upgrade(path)
    assert sorted(path.rglob("*")) == files
    assert icectl("upgrade", "-r", str(path), "--yes").code == 11
    kept = icectl("branch", "create", "late", late, "--adopt", "-r", str(path))
    assert kept.code == 0, kept.err
    (path / "refs" / "branch.main" / "ref.json").unlink()
    assert icectl("upgrade", "-r", str(path), "--yes").code == 0
    assert old_files(path) == []
    repo = open_official(path)
    assert next(repo.ancestry(branch="main")).message == "new client"
    assert next(repo.ancestry(branch="late")).message == "late"


def test_a_commit_of_version_2_before_the_end(original: Path, tmp_path: Path) -> None:
    path = copied(original, tmp_path / "repo")
    with pytest.raises(StorageError):
        upgrade(faulty(path, before=fail_once("delete_many")))
    assert str(CLOSED) in (path / "refs/branch.main/ref.json").read_text()
    with commit(open_official(path), "new client") as root:
        root.attrs["new"] = True
    assert upgrade(path).resumed
    assert old_files(path) == []
    assert next(open_official(path).ancestry(branch="main")).message == "new client"


def test_an_official_upgrade_that_left_the_old_files(
    original: Path, expected: object, tmp_path: Path
) -> None:
    path = copied(original, tmp_path / "repo")
    upgrade_officially(path, delete_unused_v1_files=False)
    assert old_files(path)
    assert upgrade(path).resumed
    assert (upgraded_state(path), old_files(path)) == (expected, [])
