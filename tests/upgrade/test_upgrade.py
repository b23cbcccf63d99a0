"""`icectl upgrade` makes what the official upgrade makes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from icectl.format.refs import encode_ref
from icectl.model.ids import SnapshotId
from icectl.model.repo import NewDetachedSnapshotUpdate
from icectl.ops.upgrade import BACKUP, CLOSED
from icectl.repository.initialize import initialize_repository
from icectl.repository.ops_log import read_repo
from icectl.storage.local import LocalStorage
from tests.command_line import Icectl
from tests.official import (
    build_zoo,
    built,
    copied,
    ic,
    linear_history,
    many_commits,
    open_official,
    random_history,
    read_everything,
)
from tests.official.histories import commit, create
from tests.upgrade.repositories import (
    official_view,
    small,
    upgrade,
    upgrade_officially,
    upgraded_state,
)

pytest.importorskip("tests.official")


def empty(where: Path) -> None:
    create(where, 1)


def without_config(where: Path) -> None:
    initialize_repository(LocalStorage(str(where)), spec_version=1)


def expired(where: Path) -> None:
    repo = linear_history(where, 6, 1)
    middle = list(repo.ancestry(branch="main"))[2]
    repo.expire_snapshots(middle.written_at)


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, small)


@pytest.fixture(
    params=["empty", "without_config", "expired", "small", "zoo", "random-1", "random-2", "fixture"]
)
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name, _, seed = request.param.partition("-")
    if name == "fixture":
        fixtures: Path = request.getfixturevalue("shared_fixtures")
        return fixtures / "test-repo-v1"
    if name == "zoo":
        return built(tmp_path_factory, build_zoo, 1)
    if name == "random":
        return built(tmp_path_factory, random_history, int(seed), 60, 1)
    builders = {"empty": empty, "without_config": without_config, "expired": expired}
    return built(tmp_path_factory, builders.get(name, small))


def test_equals_the_official_upgrade(repository: Path, tmp_path: Path, icectl: Icectl) -> None:
    ours, theirs = copied(repository, tmp_path / "ours"), copied(repository, tmp_path / "theirs")
    before = read_everything(open_official(ours))
    upgrade_officially(theirs)
    done = icectl("upgrade", "-r", str(ours), "--yes", "--json")
    assert (done.code, done.err) == (0, "")
    assert upgraded_state(ours) == upgraded_state(theirs)
    assert official_view(ours) == official_view(theirs)
    assert not [path for path in (ours / "refs").rglob("*") if path.is_file()]
    assert not (ours / "config.yaml").exists()
    after = read_everything(open_official(ours))
    assert all(after[name] == content for name, content in before.items())
    checked = icectl("validate", "-r", str(ours), "--level", "data", "--fail-on", "warning")
    assert checked.code == 0, checked.out
    again = icectl("upgrade", "-r", str(ours), "--json")
    assert (again.code, again.document["from_generation"]) == (0, "v2")


def test_equals_the_migrated_fixture(shared_fixtures: Path, tmp_path: Path) -> None:
    ours = copied(shared_fixtures / "test-repo-v1", tmp_path / "ours")
    upgrade(ours)
    theirs = shared_fixtures / "test-repo-v2-migrated"
    assert upgraded_state(ours)[0] == upgraded_state(theirs)[0]


@pytest.mark.parametrize("keep_detached", [False, True])
def test_life_goes_on(original: Path, tmp_path: Path, icectl: Icectl, keep_detached: bool) -> None:
    path = copied(original, tmp_path / "repo")
    upgrade(path, keep_detached=keep_detached)
    collected = icectl("gc", "-r", str(path), "--older-than", "0s", "--allow-recent", "--yes")
    assert collected.code == 0, collected.err
    repo = open_official(path)
    with commit(repo, "afterwards") as root:
        root.attrs["after"] = True
    with commit(repo, "amended", amend=True) as root:
        root.attrs["after"] = "amended"
    repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    repo.garbage_collect(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    assert next(repo.ancestry(branch="main")).message == "amended"
    assert icectl("log", "-r", str(path)).code == 0
    checked = icectl("validate", "-r", str(path), "--level", "data", "--fail-on", "warning")
    assert checked.code == 0, checked.out
    collected = icectl("gc", "-r", str(path), "--older-than", "0s", "--allow-recent", "--yes")
    assert collected.code == 0, collected.err


def test_dry_run_lists_what_no_ref_reaches(original: Path, tmp_path: Path, icectl: Icectl) -> None:
    path = copied(original, tmp_path / "repo")
    files = {one: one.read_bytes() for one in path.rglob("*") if one.is_file()}
    plan = icectl("upgrade", "-r", str(path), "--dry-run", "--json").document
    [detached] = plan["detached"]
    assert (detached["message"], detached["error"]) == ("detached", None)
    assert plan["unreachable_snapshots"] == [detached["id"]]
    assert [len(plan[kind]) for kind in ("branches", "tags", "deleted_tags")] == [3, 2, 2]
    assert "main" in plan["branches"]
    assert (plan["from_generation"], plan["to_spec_version"]) == ("v1", 2)
    assert plan["dry_run"] is True
    assert detached["id"] in icectl("upgrade", "-r", str(path), "--dry-run").out
    refused = icectl("upgrade", "-r", str(path))
    assert refused.code == 16
    assert files == {one: one.read_bytes() for one in path.rglob("*") if one.is_file()}
    done = icectl("upgrade", "-r", str(path), "--yes", "--json").document
    assert done == {**plan, "dry_run": False}


def test_keep_detached(original: Path, tmp_path: Path, icectl: Icectl) -> None:
    path = copied(original, tmp_path / "repo")
    [detached] = upgrade(path, keep_detached=True).detached
    updates = read_repo(LocalStorage(str(path))).latest_updates
    types = [update.update_type for update in updates]
    assert types.count(NewDetachedSnapshotUpdate(detached.id)) == 1
    checked = icectl("validate", "-r", str(path), "--level", "data", "--fail-on", "warning")
    assert checked.code == 0, checked.out
    repo = open_official(path)
    assert repo.lookup_snapshot(str(detached.id)).message == "detached"
    repo.create_branch("rescued", str(detached.id))
    assert [one.message for one in repo.ancestry(branch="rescued")][:2] == ["detached", "commit 2"]


def test_keep_a_detached_snapshot_whose_parent_is_gone(tmp_path: Path, icectl: Icectl) -> None:
    path = tmp_path / "repo"
    repo = linear_history(path, 3, 1)
    initial = list(repo.ancestry(branch="main"))[-1].id
    parent, tip = (one.id for one in list(repo.ancestry(branch="main"))[1::-1])
    repo.reset_branch("main", initial)
    (path / "snapshots" / parent).unlink()
    (path / "snapshots" / "0123456789ABCDEFGHJ0").write_bytes(b"damaged")
    result = upgrade(path, keep_detached=True)
    assert [one.error is None for one in result.detached] == [True, True, False]
    info = next(one for one in open_official(path).ancestry(snapshot_id=tip))
    assert info.parent_id == initial
    checked = icectl("validate", "-r", str(path), "--fail-on", "warning")
    assert checked.code == 0, checked.out


@pytest.mark.parametrize("directory", ["manifests", "transactions"])
def test_a_detached_snapshot_that_lost_files_is_left_out(
    directory: str, tmp_path: Path, icectl: Icectl
) -> None:
    path = tmp_path / "repo"
    repo = create(path, 1)
    before = {*(path / directory).iterdir()} if (path / directory).exists() else set()
    with commit(repo, "lost") as root:
        root.create_array("a", shape=(4,), chunks=(2,), dtype="i8")[:] = 7
    (lost,) = {*(path / directory).iterdir()} - before
    first, *_ = repo.ancestry(branch="main")
    with commit(repo, "kept") as root:
        root.attrs["x"] = 1
    kept, *_ = repo.ancestry(branch="main")
    repo.reset_branch("main", [*repo.ancestry(branch="main")][-1].id)
    lost.unlink()
    result = upgrade(path, keep_detached=True)
    errors = {str(one.id): one.error for one in result.detached}
    assert lost.name in (errors[first.id] or "")
    # Both have the manifest, and each has its own log.
    assert (errors[kept.id] is None) == (directory == "transactions")
    assert result.snapshots == (2 if directory == "transactions" else 1)
    checked = icectl("validate", "-r", str(path), "--level", "data", "--fail-on", "warning")
    assert checked.code == 0, checked.out


def test_damage_is_refused(original: Path, tmp_path: Path, icectl: Icectl) -> None:
    repo = open_official(original)
    tip, tagged = repo.lookup_branch("main"), repo.lookup_tag("alone")
    for number, (file, content) in enumerate(
        {
            "refs/branch.a/ref.json": b"{}",
            "refs/tag.alone/ref.json": encode_ref(SnapshotId(b"nowhere 0123")),
            f"snapshots/{tip}": b"damaged",
            f"snapshots/{tagged}": None,
            "refs/branch.main/ref.json": None,
            "config.yaml": b"[",
        }.items()
    ):
        path = copied(original, tmp_path / str(number))
        if content is None:
            (path / file).unlink()
        else:
            (path / file).write_bytes(content)
        files = sorted(path.rglob("*"))
        done = icectl("upgrade", "-r", str(path), "--yes", "--json")
        assert done.code == 13, (file, done)
        named = "nowhere" if content and b"snapshot" in content else file.split("/")[-2:][0]
        assert named in done.err or "snapshots/" in done.err
        assert sorted(path.rglob("*")) == files


def test_a_client_of_version_1_fails_fast(original: Path, tmp_path: Path) -> None:
    path = copied(original, tmp_path / "repo")
    old = open_official(path)
    sessions = [old.writable_session(branch) for branch in ("main", "a")]
    upgrade(path)
    state = upgraded_state(path)
    for session in sessions:
        with pytest.raises(ic.IcechunkError):
            session.commit("too late", allow_empty=True)
    with pytest.raises(ic.IcechunkError):
        old.lookup_branch("main")
    assert not [one for one in (path / "refs").rglob("*") if one.is_file()]
    assert upgraded_state(path) == state


def test_the_way_back(original: Path, tmp_path: Path) -> None:
    path = copied(original, tmp_path / "repo")
    before = read_everything(open_official(path))
    upgrade(path)
    for file in [one for one in (path / BACKUP).rglob("*") if one.is_file()]:
        shutil.copy(file, path / file.relative_to(path / BACKUP))
    (path / "repo").unlink()
    repo = open_official(path)
    assert repo.spec_version == 1
    assert read_everything(repo) == before


@pytest.mark.parametrize(
    "content", ["# {}", '{{"a": "{}"}}', '{{"closed_at": 1, "b": "{}"}}', '["{}"]']
)
def test_the_mark_of_closed_branches_in_other_files(
    original: Path, tmp_path: Path, icectl: Icectl, content: str
) -> None:
    path = copied(original, tmp_path / "repo")
    (path / "refs" / "stray").write_text(content.format(CLOSED))
    with (path / "config.yaml").open("a") as config:
        config.write(f"# {CLOSED}\n")
    assert icectl("upgrade", "-r", str(path), "--yes").code == 0
    assert (path / "refs" / "stray").read_text() == content.format(CLOSED)


def test_version_2_is_left_alone(tmp_path: Path, icectl: Icectl) -> None:
    path = tmp_path / "repo"
    linear_history(path, 2)
    stray = path / "refs" / "branch.main" / "ref.json"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"{}")
    files = sorted(path.rglob("*"))
    assert icectl("upgrade", "-r", str(path), "--yes").code == 0
    assert sorted(path.rglob("*")) == files


def test_an_alpha_repository_is_unsupported(shared_fixtures: Path, icectl: Icectl) -> None:
    path = shared_fixtures / "test-repo-alpha8"
    assert icectl("upgrade", "-r", str(path), "--dry-run").code == 15


def test_a_long_history(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    original = built(tmp_path_factory, many_commits, 1500, 1)
    ours, theirs = copied(original, tmp_path / "ours"), copied(original, tmp_path / "theirs")
    upgrade_officially(theirs)
    upgrade(ours)
    assert upgraded_state(ours) == upgraded_state(theirs)
    # More entries than fit are kept by both: none of them is in a backup.
    repo = open_official(ours)
    with commit(repo, "one more") as root:
        root.attrs["more"] = True
    assert len(list(repo.ops_log())) == 1503
