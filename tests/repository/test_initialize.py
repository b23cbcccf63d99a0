from __future__ import annotations

import threading

import pytest

from icectl.errors import RefusedError, StorageError, UsageError
from icectl.model.ids import INITIAL_SNAPSHOT_ID
from icectl.repository.config import read_config
from icectl.repository.initialize import initialize_repository
from icectl.repository.open import open_repository
from icectl.repository.ops_log import read_ops_log
from icectl.storage.local import LocalStorage
from icectl.storage.memory import MemoryStorage
from tests.failures import raises
from tests.faults.storage import FaultyStorage, fail_after

CONFIG = {"inline_chunk_threshold_bytes": 7}


@pytest.mark.parametrize("spec_version", [1, 2])
def test_the_official_package_commits_to_it(tmp_path, spec_version):
    official = pytest.importorskip("tests.official")
    storage = LocalStorage(str(tmp_path / "new" / "repo"))
    initialize_repository(storage, spec_version=spec_version, config=CONFIG)
    repository = open_repository(storage)
    assert repository.spec_version == spec_version
    assert repository.branches() == {"main": INITIAL_SNAPSHOT_ID}
    assert read_config(repository) == CONFIG

    theirs = official.open_official(tmp_path / "new" / "repo")
    assert theirs.spec_version == spec_version
    assert theirs.config.inline_chunk_threshold_bytes == 7
    session = theirs.writable_session("main")
    import zarr

    array = zarr.create_array(session.store, name="a", shape=(4,), chunks=(2,), dtype="i4")
    array[:] = 5
    tip = session.commit("theirs")
    if spec_version == 2:
        assert len(list(theirs.ops_log())) == 2

    repository = open_repository(storage)
    history = list(repository.ancestry(repository.branches()["main"]))
    assert [info.message for info in history] == ["theirs", "Repository initialized"]
    assert str(history[0].id) == tip


@pytest.mark.parametrize("spec_version", [1, 2])
def test_the_same_files_as_the_official_package(tmp_path, spec_version):
    official = pytest.importorskip("tests.official")
    ours = LocalStorage(str(tmp_path / "ours"))
    initialize_repository(ours, spec_version=spec_version)
    theirs = tmp_path / "theirs"
    official.ic.Repository.create(official.storage_of(theirs), spec_version=spec_version)
    names = sorted(info.path for info in ours.list("", with_info=False))
    assert names == sorted(str(p.relative_to(theirs)) for p in theirs.rglob("*") if p.is_file())
    snapshots = [
        open_repository(LocalStorage(str(tmp_path / which))).read_snapshot(INITIAL_SNAPSHOT_ID)
        for which in ("ours", "theirs")
    ]
    assert snapshots[0].metadata == snapshots[1].metadata
    assert snapshots[0].message == snapshots[1].message


def test_metadata_to_start_with(tmp_path):
    official = pytest.importorskip("tests.official")
    initialize_repository(LocalStorage(str(tmp_path)), metadata={"owner": "us", "n": [1, None]})
    assert official.open_official(tmp_path).metadata == {"owner": "us", "n": [1, None]}


def test_wrong_wishes():
    storage = FaultyStorage(MemoryStorage("wishes"))
    with pytest.raises(UsageError):
        initialize_repository(storage, spec_version=3)
    with pytest.raises(UsageError):
        initialize_repository(storage, spec_version=1, metadata={"a": 1})
    assert storage.requests == []


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_place_that_holds_something_is_refused(spec_version):
    storage = MemoryStorage(f"something {spec_version}")
    storage.put_if_absent("notes.txt", b"mine")
    with pytest.raises(RefusedError, match=r"notes\.txt"):
        initialize_repository(storage, spec_version=spec_version)
    assert [info.path for info in storage.list("")] == ["notes.txt"]


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("second", [1, 2])
def test_a_repository_is_not_made_again(first, second):
    storage = MemoryStorage(f"again {first} {second}")
    initialize_repository(storage, spec_version=first)
    before = {info.path: storage.read(info.path) for info in storage.list("")}
    with pytest.raises(RefusedError):
        initialize_repository(storage, spec_version=second)
    assert {info.path: storage.read(info.path) for info in storage.list("")} == before


def test_who_loses_is_not_told_to_delete_the_repository_of_the_other():
    storage = MemoryStorage("another version")
    initialize_repository(storage, spec_version=1)
    for _ in storage.delete_many(["refs/branch.main/ref.json"]):
        pass
    with raises(
        RefusedError,
        remedy="finish-init",
        location="memory://another version",
        spec_version="1",
    ):
        initialize_repository(storage, spec_version=2)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_of_two_at_once_one_wins(tmp_path, spec_version):
    for attempt in range(5):
        storage = LocalStorage(str(tmp_path / str(attempt)))
        barrier = threading.Barrier(4)
        results: list[Exception | None] = []

        def initialize(storage=storage, barrier=barrier, results=results):
            barrier.wait()
            try:
                initialize_repository(storage, spec_version=spec_version)
                results.append(None)
            except RefusedError as error:
                results.append(error)

        threads = [threading.Thread(target=initialize) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results.count(None) == 1
        assert len(results) == 4
        repository = open_repository(storage)
        snapshot = repository.read_snapshot(INITIAL_SNAPSHOT_ID)
        assert repository.snapshot_info(INITIAL_SNAPSHOT_ID).flushed_at == snapshot.flushed_at


@pytest.mark.parametrize("spec_version", [1, 2])
def test_an_attempt_that_broke_off_does_not_stand_in_the_way(spec_version):
    for count in range(20):
        inner = MemoryStorage(f"broken {spec_version} {count}")
        try:
            initialize_repository(
                FaultyStorage(inner, before=fail_after(count)), spec_version=spec_version
            )
        except StorageError:
            initialize_repository(inner, spec_version=spec_version)
            complete = False
        else:
            complete = True
        repository = open_repository(inner)
        snapshot = repository.read_snapshot(INITIAL_SNAPSHOT_ID)
        assert repository.snapshot_info(INITIAL_SNAPSHOT_ID).flushed_at == snapshot.flushed_at
        if repository.info:
            assert len(list(read_ops_log(inner, repository.info))) == 1
        if complete:
            break
    assert 3 < count < 19


def test_the_other_version_is_not_mixed_into_what_broke_off():
    inner = MemoryStorage("mixed")
    with pytest.raises(StorageError):
        initialize_repository(FaultyStorage(inner, before=fail_after(4)), spec_version=2)
    with raises(RefusedError, remedy="finish-init", spec_version="2"):
        initialize_repository(inner, spec_version=1)
