from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.format.values import encode_flexbuffers
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.repository import edits
from icectl.repository.ops_log import OpsLogBeyondReach, OpsLogEntry, read_ops_log, read_repo
from icectl.repository.update import update_repo
from icectl.storage.local import LocalStorage
from tests.faults.storage import FaultyStorage
from tests.repository.builders import make_info, memory_repository, sid


def short_log(limit=2):
    """A repository whose log of several changes is spread over backups."""
    config = encode_flexbuffers({"num_updates_per_repo_info_file": limit})
    info = make_info({1: None, 2: 1}, branches={"main": 2})
    storage = memory_repository(replace(info, config=config))
    for change in (
        lambda info: edits.create_branch(info, "dev", sid(1)),
        lambda info: edits.reset_branch(info, "dev", sid(2)),
        lambda info: edits.create_tag(info, "gone", sid(1)),
        lambda info: edits.reset_branch(info, "dev", INITIAL_SNAPSHOT_ID),
        lambda info: edits.delete_tag(info, "gone"),
        lambda info: edits.delete_branch(info, "dev"),
        lambda info: edits.create_branch(info, "dev", sid(2)),
    ):
        update_repo(storage, change)
    return storage


TARGETS = [
    ("branch_created", sid(2)),
    ("branch_deleted", None),
    ("tag_deleted", None),
    ("branch_reset", INITIAL_SNAPSHOT_ID),
    ("tag_created", sid(1)),
    ("branch_reset", sid(2)),
    ("branch_created", sid(1)),
    ("repo_initialized", None),
]


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_every_target_is_told_from_the_log_itself(limit):
    storage = FaultyStorage(short_log(limit))
    info = read_repo(storage)
    log = list(read_ops_log(storage, info))
    assert [(entry.update.update_type.kind, entry.target) for entry in log] == TARGETS
    if limit == 1000:
        assert storage.methods() == ["read"]


def test_it_reads_only_as_far_as_asked():
    storage = FaultyStorage(short_log(2))
    log = read_ops_log(storage, read_repo(storage))
    for _ in range(2):
        next(log)
    assert storage.methods() == ["read"]
    next(log)
    assert storage.methods() == ["read", "read"]


def test_a_missing_backup_ends_the_walk_with_a_statement():
    storage = short_log(2)
    complete = list(read_ops_log(storage, read_repo(storage)))
    lost = f"overwritten/{complete[4].update.backup_path}"
    list(storage.delete_many([lost]))
    *entries, end = read_ops_log(storage, read_repo(storage))
    assert entries == complete[:4]
    assert isinstance(end, OpsLogBeyondReach)
    assert end.path == lost and isinstance(end.error, ObjectNotFoundError)


def test_a_damaged_backup_ends_the_walk_with_a_statement():
    storage = short_log(2)
    complete = list(read_ops_log(storage, read_repo(storage)))
    lost = f"overwritten/{complete[2].update.backup_path}"
    damaged = FaultyStorage(storage, alter=lambda path, data: b"x" if path == lost else data)
    *entries, end = read_ops_log(damaged, read_repo(damaged))
    assert entries == complete[:2]
    assert end.path == lost and isinstance(end.error, FormatError)


def test_a_chain_that_comes_back_ends():
    storage = short_log(2)
    info = read_repo(storage)
    first = info.repo_before_updates
    looping = FaultyStorage(
        storage,
        alter=lambda path, data: (
            storage.read(f"overwritten/{first}") if path.startswith("overwritten/") else data
        ),
    )
    *_, end = read_ops_log(looping, info)
    assert isinstance(end, OpsLogBeyondReach) and isinstance(end.error, FormatError)
    assert end.error.path == end.path


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """What the official package wrote, with what it says the targets were."""
    official = pytest.importorskip("tests.official")
    path = tmp_path_factory.mktemp("busy") / "repo"
    config = official.ic.RepositoryConfig(num_updates_per_repo_info_file=4)
    repository = official.ic.Repository.create(official.storage_of(path), config=config)
    expected = []

    def commit(branch):
        session = repository.writable_session(branch)
        return session.commit("x", allow_empty=True)

    first = commit("main")
    repository.create_branch("dev", first)
    expected.append(("branch_created", first))
    second = commit("dev")
    third = commit("dev")
    repository.reset_branch("main", third)
    expected.append(("branch_reset", third))
    repository.create_tag("t", second)
    expected.append(("tag_created", second))
    commit("main")
    repository.reset_branch("dev", first)
    expected.append(("branch_reset", first))
    repository.delete_tag("t")
    repository.delete_branch("dev")
    return path, expected


def test_targets_in_what_the_official_package_wrote(busy):
    path, expected = busy
    storage = LocalStorage(str(path))
    log = list(read_ops_log(storage, read_repo(storage)))
    assert all(isinstance(entry, OpsLogEntry) for entry in log)
    targets = [(e.update.update_type.kind, str(e.target)) for e in log if e.target]
    assert targets == list(reversed(expected))


def test_the_same_entries_as_the_official_log(busy):
    official = pytest.importorskip("tests.official")
    path, _ = busy
    storage = LocalStorage(str(path))
    ours = [
        (entry.update.updated_at, entry.update.backup_path)
        for entry in read_ops_log(storage, read_repo(storage))
    ]
    theirs = [
        (round(entry.updated_at.timestamp() * 1_000_000), entry.backup_path)
        for entry in official.open_official(path).ops_log()
    ]
    assert ours == theirs


def test_it_works_when_every_snapshot_is_gone(busy, tmp_path):
    path, expected = busy
    copy = shutil.copytree(path, tmp_path / "copy")
    shutil.rmtree(copy / "snapshots")
    storage = LocalStorage(str(copy))
    log = list(read_ops_log(storage, read_repo(storage)))
    assert [str(e.target) for e in log if e.target] == [text for _, text in reversed(expected)]


def test_a_branch_target_before_a_commit_needs_the_backup():
    """The parent in the newest state is no witness: expiration may have changed it."""
    from icectl.model.repo import BranchCreatedUpdate, NewCommitUpdate

    storage = memory_repository(make_info({1: None, 2: 1}, branches={"main": 2}))
    update_repo(storage, lambda info: edits.create_branch(info, "dev", sid(1)))

    def commit(info):
        branches, _ = edits.reset_branch(info, "dev", sid(2))
        return branches, NewCommitUpdate("dev", sid(2))

    update_repo(storage, commit)
    log = list(read_ops_log(storage, read_repo(storage)))
    created = next(e for e in log if isinstance(e.update.update_type, BranchCreatedUpdate))
    assert created.target == sid(1)
    list(storage.delete_many([f"overwritten/{created.update.backup_path}"]))
    log = list(read_ops_log(storage, read_repo(storage)))
    created = next(e for e in log if isinstance(e.update.update_type, BranchCreatedUpdate))
    assert created.target is None


def test_backups_that_hold_targets_are_read_in_one_round():
    from icectl.model.repo import NewCommitUpdate
    from icectl.ops.ops_log import OpsLogOptions, read_filtered_ops_log
    from icectl.repository.open import open_repository

    class BatchCounter(FaultyStorage):
        def read_many(self, paths, **options):
            paths = [*paths]
            self.batches.append(len(paths))
            return super().read_many(paths, **options)

    storage = BatchCounter(memory_repository(make_info({1: None, 2: 1}, branches={"main": 2})))
    storage.batches = []
    for number in range(20):
        name = f"dev-{number}"
        update_repo(storage, lambda info, name=name: edits.create_branch(info, name, sid(1)))
        update_repo(
            storage,
            lambda info, name=name: (
                edits.reset_branch(info, name, sid(2))[0],
                NewCommitUpdate(name, sid(2)),
            ),
        )

    def read(**options):
        storage.batches = []
        repository = open_repository(storage)
        listed = [*read_filtered_ops_log(repository, OpsLogOptions(**options))]
        return [entry.target for entry in listed], storage.batches

    targets, batches = read()
    assert targets[1:-1:2] == [sid(1)] * 20 and batches == [20]
    assert read(kinds=["new_commit"]) == ([None] * 20, [])
    assert read(limit=2) == ([None, sid(1)], [1])


def test_the_fixtures_reach_their_first_operation(shared_fixtures):
    for name in ("test-repo-v2", "split-repo-v2", "test-repo-v2-migrated"):
        storage = LocalStorage(str(shared_fixtures / name))
        log = list(read_ops_log(storage, read_repo(storage)))
        assert all(isinstance(entry, OpsLogEntry) for entry in log), name
        assert log[-1].update.update_type.kind == "repo_initialized", name
        assert all(isinstance(e.target, SnapshotId | None) for e in log)
