from __future__ import annotations

import shutil
from itertools import islice

import pytest

from icectl.errors import (
    FormatError,
    ObjectNotFoundError,
    RefNotFoundError,
    Remedy,
    RepositoryNotFoundError,
    UnsupportedError,
)
from icectl.format.envelope import Generation
from icectl.format.repo import encode_repo
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.ops.log import read_changes_if_there
from icectl.repository import settings
from icectl.repository.config import read_config
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from icectl.storage.memory import MemoryStorage
from tests.failures import raises
from tests.faults.storage import FaultyStorage, flip_bit
from tests.repository.builders import make_info, memory_repository, sid

GENERATIONS = {
    "test-repo-alpha4": Generation.ALPHA_RAW,
    "test-repo-alpha8": Generation.ALPHA_RAW,
    "test-repo-alpha15": Generation.ALPHA_BINARY,
    "test-repo-0.1.0": Generation.ALPHA_BINARY,
    "test-repo-v1": Generation.V1,
    "test-repo-v2": Generation.V2,
    "test-repo-v2-migrated": Generation.V2,
    "split-repo-v2": Generation.V2,
}


@pytest.mark.parametrize("name", GENERATIONS)
def test_the_generation_is_told_from_the_content(shared_fixtures, name):
    repository = open_repository(LocalStorage(str(shared_fixtures / name)))
    assert repository.generation is GENERATIONS[name]
    assert (repository.info is not None) == (repository.generation is Generation.V2)
    assert "main" in repository.branches()
    history = list(repository.ancestry(repository.branches()["main"]))
    assert history[-1].parent_id is None
    assert [info.id for info in history[1:]] == [info.parent_id for info in history[:-1]]
    assert isinstance(read_config(repository), dict)


@pytest.mark.parametrize("name", [name for name in GENERATIONS if name != "split-repo-v2"])
def test_the_same_history_in_every_generation(shared_fixtures, name):
    """The releases wrote the same commits, branches and tags."""
    repository = open_repository(LocalStorage(str(shared_fixtures / name)))
    assert set(repository.branches()) == {"main", "my-branch"}
    assert set(repository.tags()) == {"it also works!", "it works!"}
    deleted = () if "alpha" in name else ("deleted",)
    assert repository.deleted_tags() == deleted
    main = [info.message for info in repository.ancestry(repository.branches()["main"])]
    side = [info.message for info in repository.ancestry(repository.branches()["my-branch"])]
    assert main[-1] == "Repository initialized" == side[-1]
    assert len(side) - len(main) in (1, 2)
    everything = {info.id for info in repository.all_snapshots()}
    for info in repository.all_snapshots():
        snapshot = repository.read_snapshot(info.id)
        assert (snapshot.id, snapshot.message) == (info.id, info.message)
    assert {*repository.branches().values(), *repository.tags().values()} <= everything


@pytest.mark.parametrize(
    "name", ["test-repo-alpha8", "test-repo-alpha15", "test-repo-0.1.0", "test-repo-v1"]
)
def test_logs_and_manifests_of_every_generation_are_readable(shared_fixtures, name):
    repository = open_repository(LocalStorage(str(shared_fixtures / name)))
    tip = repository.branches()["main"]
    assert repository.read_transaction_log(tip).id == tip
    manifests = {
        info.id
        for snapshot in repository.all_snapshots()
        for info in repository.read_snapshot(snapshot.id).all_manifest_files
    }
    if repository.is_writable:
        assert all(repository.read_manifest(id_).id == id_ for id_ in manifests)
    else:
        assert all(repository.read_legacy_manifest(id_).refs for id_ in manifests)


@pytest.mark.parametrize("name", ["test-repo-alpha8", "test-repo-0.1.0"])
def test_a_legacy_repository_is_never_changed(shared_fixtures, name):
    repository = open_repository(LocalStorage(str(shared_fixtures / name)))
    tip = repository.branches()["main"]
    for change in (
        lambda: repository.refs.create_branch("x", tip),
        lambda: repository.refs.reset_branch("main", tip),
        lambda: repository.refs.delete_branch("my-branch"),
        lambda: repository.refs.create_tag("x", tip),
        lambda: repository.refs.delete_tag("it works!"),
        lambda: settings.set_metadata(repository, {"a": 1}),
    ):
        with pytest.raises(UnsupportedError) as raised:
            change()
        assert raised.value.hint


def test_version_2_is_one_read():
    storage = FaultyStorage(memory_repository(make_info({1: None, 2: 1}, branches={"main": 2})))
    repository = open_repository(storage)
    assert repository.resolve("main~1").snapshot_id == sid(1)
    assert len(list(repository.ancestry(sid(2)))) == 3
    assert len(list(repository.all_snapshots())) == 3
    assert [(r.method, r.path) for r in storage.requests] == [("read", "repo")]


def test_version_1_reads_each_snapshot_once(shared_fixtures):
    storage = FaultyStorage(LocalStorage(str(shared_fixtures / "test-repo-v1")))
    repository = open_repository(storage)
    assert storage.methods().count("list") == 1
    opening = len(storage.requests)
    for _ in range(3):
        count = len(list(repository.ancestry(repository.branches()["main"])))
    assert len(storage.requests) - opening == count


def test_nothing_there():
    with pytest.raises(RepositoryNotFoundError) as raised:
        open_repository(MemoryStorage("nothing"))
    assert raised.value.hint == Remedy("create-repository", {"location": "memory://nothing"})
    assert raised.value.exit_code == 10


def test_a_directory_above_a_repository(tmp_path):
    (tmp_path / "here" / "snapshots").mkdir(parents=True)
    (tmp_path / "here" / "repo").write_bytes(encode_repo(make_info()))
    with pytest.raises(RepositoryNotFoundError) as raised:
        open_repository(LocalStorage(str(tmp_path)))
    assert "further down" in raised.value.hint


def test_a_lost_repo_file(tmp_path):
    (tmp_path / "overwritten").mkdir()
    (tmp_path / "overwritten" / "repo.1.x").write_bytes(b"x")
    with pytest.raises(RepositoryNotFoundError) as raised:
        open_repository(LocalStorage(str(tmp_path)))
    assert raised.value.has_remains


def test_a_damaged_repo_file_is_named():
    storage = FaultyStorage(memory_repository(), alter=lambda path, data: data[:50])
    with raises(FormatError, path="repo"):
        open_repository(storage)


def test_a_loop_in_the_ancestry_ends():
    info = make_info({1: 2, 2: 3, 3: 1}, branches={"main": 1})
    repository = open_repository(memory_repository(info))
    with raises(FormatError, path="repo"):
        list(repository.ancestry(sid(1)))
    assert len(list(islice(repository.ancestry(sid(1)), 3))) == 3


def test_a_file_in_the_wrong_place_is_told(shared_fixtures, tmp_path):
    path = shutil.copytree(shared_fixtures / "test-repo-v1", tmp_path / "repo")
    repository = open_repository(LocalStorage(str(path)))
    tip = repository.branches()["main"]
    other = repository.snapshot_info(tip).parent_id
    for directory in ("snapshots", "transactions"):
        shutil.copyfile(path / directory / str(tip), path / directory / str(other))
    with raises(FormatError, path=f"snapshots/{other}"):
        repository.read_snapshot(other)
    with raises(FormatError, path=f"transactions/{other}"):
        repository.read_transaction_log(other)


def test_a_damaged_snapshot_is_named_and_the_refs_stay_listed(shared_fixtures):
    inner = LocalStorage(str(shared_fixtures / "test-repo-v1"))
    repository = open_repository(FaultyStorage(inner, alter=flip_bit("snapshots/", 8)))
    tip = repository.branches()["main"]
    with raises(FormatError, path=f"snapshots/{tip}"):
        repository.snapshot_info(tip)
    assert repository.generation is Generation.V1


def test_a_damaged_ref_is_named_with_what_it_should_hold(shared_fixtures, tmp_path):
    path = shutil.copytree(shared_fixtures / "test-repo-v1", tmp_path / "repo")
    ref = path / "refs" / "branch.main" / "ref.json"
    ref.write_text('{"snapshot":"bad"}')
    with raises(FormatError, path="refs/branch.main/ref.json", remedy="rewrite-ref"):
        open_repository(LocalStorage(str(path)))


def test_an_unknown_snapshot():
    repository = open_repository(memory_repository())
    with pytest.raises(RefNotFoundError):
        repository.snapshot_info(sid(5))
    with pytest.raises(ObjectNotFoundError):
        repository.read_snapshot(INITIAL_SNAPSHOT_ID)


def test_the_draft_layout():
    """The early specification: one-letter directories, ids of 16 bytes as lists of numbers."""
    storage = MemoryStorage("draft")
    new, old = bytes(range(16)), bytes(range(1, 17))
    ref = '{{"snapshot":{},"timestamp":"2024-09-01T00:00:00Z","properties":{{}}}}'
    storage.put_if_absent("r/main/ZZZZZZZY.json", ref.format(list(new)).encode())
    storage.put_if_absent("r/main/ZZZZZZZZ.json", ref.format(list(old)).encode())
    storage.put_if_absent("r/v1.json", ref.format(list(old)).encode())
    repository = open_repository(storage)
    assert repository.branches() == {"main": SnapshotId(new)}
    assert repository.tags() == {"v1": SnapshotId(old)}
    assert not repository.is_writable
    with pytest.raises(UnsupportedError):
        repository.read_transaction_log(SnapshotId(new))
    info = SnapshotInfo(SnapshotId(new), SnapshotId(old), 0, "")
    assert read_changes_if_there(repository, info) is None


@pytest.mark.parametrize("for_good", [False, True])
def test_a_branch_file_that_is_deleted_after_it_was_listed(for_good):
    """Before spec version 2: it is a branch that somebody deleted, unless it is listed again."""
    storage = MemoryStorage(f"ref-race-{for_good}")
    for name in ("main", "other"):
        storage.put_if_absent(
            f"refs/branch.{name}/ref.json", b'{"snapshot":"%s"}' % str(sid(1)).encode()
        )

    def delete(request):
        if request.path == "refs/branch.other/ref.json" and request.method == "read":
            if for_good:
                raise ObjectNotFoundError(request.path)
            list(storage.delete_many([request.path]))

    faulty = FaultyStorage(storage, before=delete)
    if for_good:
        with pytest.raises(ObjectNotFoundError):
            open_repository(faulty)
    else:
        assert open_repository(faulty).branches() == {"main": sid(1)}
