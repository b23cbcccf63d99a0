"""A copy that is killed leaves no repository or the old one, and the next run finishes it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from icectl.errors import FormatError, RepositoryNotFoundError, StorageError
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.copy.repositories import assert_equal, assert_sound, copy
from tests.faults.storage import FaultyStorage, fail_after
from tests.gc.repositories import files, messy_repository
from tests.official import built, copied, open_official
from tests.official.histories import commit, create


@pytest.mark.parametrize("version", [1, 2])
def test_kill_and_resume(
    version: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = copied(built(tmp_path_factory, messy_repository, version), tmp_path / "source")
    target = tmp_path / "target"
    for round_ in range(2):
        before = open_repository(LocalStorage(target)).branches() if round_ else None
        for _ in range(4):
            kill_copy(source, target)
            try:
                found = open_repository(LocalStorage(target)).branches()
            except RepositoryNotFoundError:
                found = None
            assert found in (before, open_repository(LocalStorage(source)).branches()) or (
                version == 1  # a file for each ref
            )
        there = len(files(target))
        done = copy(source, target)
        assert done.is_up_to_date or done.objects <= len(files(target)) - there + 1
        assert_equal(source, target)
        assert_sound(target)
        with commit(open_official(source), "more") as root:
            root["a"][:] = round_ + 50


def kill_copy(source: Path, target: Path) -> None:
    """At a random moment after the first object was written."""
    command = [sys.executable, "-m", "icectl.cli.main", "copy", str(source), str(target)]
    process = subprocess.Popen([*command, "--bandwidth-limit", "20kB", "--quiet"])
    begin = len(files(target)) if target.exists() else 0
    while process.poll() is None and (len(files(target)) if target.exists() else 0) == begin:
        time.sleep(0.005)
    time.sleep(random.random() * 0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("version", [1, 2])
def test_failures_at_every_request(version: int, tmp_path: Path) -> None:
    """The storage of the target fails for good at some request; the next copy finishes."""
    source = tmp_path / "source"
    repo = create(source, version)
    with commit(repo, "data") as root:
        root.create_array("a", shape=(8,), chunks=(4,), dtype="i8", compressors=None)[:] = 7
    for name in ("one", "two"):
        repo.create_tag(name, repo.lookup_branch("main"))
        repo.create_branch(name, repo.lookup_branch("main"))
    repo.delete_tag("two")
    for number in count(1):
        target = tmp_path / f"target-{number}"
        try:
            copy(source, FaultyStorage(LocalStorage(target), before=fail_after(number)))
        except StorageError:
            copy(source, target)
            assert_equal(source, target)
            continue
        break
    assert number > 10


@pytest.mark.parametrize("version", [1, 2])
def test_cut_uploads(version: int, tmp_path: Path) -> None:
    """Some servers store an empty object when a client is killed during an upload."""
    source, target = tmp_path / "source", tmp_path / "target"
    repo = create(source, version)
    with commit(repo, "data") as root:
        root.create_array("a", shape=(8,), chunks=(4,), dtype="i8", compressors=None)[:] = 7
    repo.create_tag("one", repo.lookup_branch("main"))
    repo.create_branch("two", repo.lookup_branch("main"))
    copy(source, target)
    deciding = {target / "repo"} if version == 2 else {*target.glob("refs/*/*")}
    for path in deciding:
        path.write_bytes(b"")
        copy(source, target)
        assert_equal(source, target)
    for path in deciding | {target / name for name in files(target)}:
        path.write_bytes(b"")
    copy(source, target)
    assert_equal(source, target)
    assert_sound(target)


def test_a_lost_repo_is_not_a_cut_upload(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    repo = create(source)
    copy(source, target)
    with commit(repo, "data") as root:
        root.create_group("a")
    copy(source, target)
    (target / "repo").write_bytes(b"")
    before = files(target)
    with pytest.raises(FormatError):
        copy(source, target)
    assert files(target) == before
