"""What only local disk has: a lock, a rename, a process that is killed in between."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from icectl.errors import ObjectNotFoundError, PreconditionFailedError, Remedy, StorageError
from icectl.storage import bounded, local
from icectl.storage.contract import Version
from icectl.storage.local import LocalStorage
from icectl.storage.local_writes import TEMPORARY_PREFIX
from icectl.storage.lock import LOCK_NAME
from icectl.storage.publish import TEMPORARY_NAME
from tests.failures import raises
from tests.patience import PATIENCE_SECONDS

APPENDER = """
import sys
from icectl.errors import PreconditionFailedError
from icectl.storage.local import LocalStorage
storage = LocalStorage(sys.argv[1])
for turn in range(25):
    while True:
        old = storage.read_versioned("repo")
        try:
            storage.put_if_match("repo", old.data + f"{sys.argv[2]}.{turn} ".encode(), old.version)
        except PreconditionFailedError:
            continue
        break
"""

REPLACER = """
import sys
from icectl.storage.local import LocalStorage
storage = LocalStorage(sys.argv[1])
version = storage.read_versioned("repo").version
print("ready", flush=True)
turn = 0
while True:
    version = storage.put_if_match("repo", bytes([turn % 256]) * 300_000, version)
    storage.put_if_absent(f"overwritten/{sys.argv[2]}.{turn}", b"x" * 50_000)
    turn += 1
"""


def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE)


def test_processes_lose_no_update(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("repo", b"")
    writers = [start(APPENDER, str(tmp_path), str(number)) for number in range(6)]
    for writer in writers:
        writer.communicate(timeout=PATIENCE_SECONDS)
        assert writer.returncode == 0
    expected = Counter(f"{writer}.{turn}".encode() for writer in range(6) for turn in range(25))
    assert Counter(storage.read("repo").split()) == expected


def test_kill_leaves_the_old_or_the_new_and_no_lock(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("repo", b"\0" * 300_000)
    for attempt in range(12):
        writer = start(REPLACER, str(tmp_path), str(attempt))
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(0.003 * attempt)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        found = storage.read_versioned("repo")
        assert len(found.data) == 300_000 and len(set(found.data)) == 1
        # The lock went with its process, or this would wait for ever.
        storage.put_if_match("repo", b"\0" * 300_000, found.version)
        for info in storage.list("overwritten"):
            assert storage.read(info.path) == b"x" * 50_000
    assert {info.path.split("/")[0] for info in storage.list("")} <= {"repo", "overwritten"}


def test_a_temporary_file_that_is_still_linked_is_not_written_through(tmp_path: Path) -> None:
    """A kill between the link of a new object and the removal of its temporary name."""
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("a", b"first")
    (tmp_path / TEMPORARY_NAME).hardlink_to(tmp_path / "a")
    storage.put_if_absent("b", b"second")
    assert (storage.read("a"), storage.read("b")) == (b"first", b"second")
    assert not (tmp_path / TEMPORARY_NAME).exists()


def test_private_files_are_not_listed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("repo", b"1")
    (tmp_path / TEMPORARY_NAME).write_bytes(b"half")
    assert (tmp_path / LOCK_NAME).exists()
    assert [info.path for info in storage.list("")] == ["repo"]
    assert [info.path for info in storage.list("", with_info=False)] == ["repo"]


def test_listing_without_information_does_not_stat(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("chunks/a", b"1")
    (info,) = storage.list("chunks", with_info=False)
    assert (info.size, info.created_at) == (None, None)
    assert storage.listing_shards() == 1


def test_an_empty_directory_has_nothing_below_it(tmp_path: Path) -> None:
    (tmp_path / "refs" / "branch.gone" / "deeper").mkdir(parents=True)
    storage = LocalStorage(tmp_path)
    assert list(storage.list_directories("refs")) == []
    storage.put_if_absent("refs/branch.gone/deeper/x", b"1")
    assert list(storage.list_directories("refs")) == ["branch.gone"]


def test_each_failed_delete_is_told(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("a", b"1")
    too_long = "n" * 300
    outcome = dict(storage.delete_many(["a", too_long]))
    assert outcome["a"] is None
    assert isinstance(outcome[too_long], StorageError)
    assert "cannot be deleted: file name too long" in str(outcome[too_long])


def test_a_failed_put_changes_nothing(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    version = storage.put_if_absent("repo", b"1")
    with pytest.raises(StorageError, match="repo/below"):
        storage.put_if_absent("repo/below", b"2")
    with pytest.raises(PreconditionFailedError):
        storage.put_if_absent("repo", b"2")
    assert storage.read_versioned("repo").version == version


def test_no_permission(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("repo", b"1")
    (tmp_path / "repo").chmod(0)
    user = os.geteuid()
    if user == 0:  # who is refused nothing
        os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match="permission denied") as caught:
            storage.read("repo")
    finally:
        os.seteuid(user)
    assert caught.value.exit_code == 14 and caught.value.hint


def test_the_clock_of_a_place_that_is_not_there(tmp_path: Path) -> None:
    before = time.time()
    clock = LocalStorage(tmp_path / "nothing").read_clock()
    assert before - 2 < clock / 1e6 < time.time() + 2


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("snapshots/a",)])
def test_a_loop_of_links_ends_a_listing(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "snapshots").mkdir()
    for name in names:
        (tmp_path / name).symlink_to(".")
    assert {info.path for info in LocalStorage(tmp_path).list("")} == set(names)
    following = LocalStorage(tmp_path, follow_links=True)
    assert len(list(following.list(""))) <= 4
    (tmp_path / "self").symlink_to("self")
    named = {"self", *(name.partition("/")[0] for name in names)}
    assert set(LocalStorage(tmp_path).list_directories("")) == named
    with pytest.raises(StorageError, match="too many levels of symbolic links"):
        list(following.list_directories(""))


def test_many_reads_from_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They go on on threads: each file is read, or told to be missing, once."""
    monkeypatch.setattr(local, "LONG_READ", -1.0)
    storage = LocalStorage(tmp_path)
    paths = [f"files/{number}" for number in range(100)]
    for path in paths[::2]:
        storage.put_if_absent(path, path.encode())
    found = list(storage.read_many(paths))
    assert sorted(path for path, _ in found) == sorted(paths)
    there = {path: data for path, data in found if isinstance(data, bytes)}
    assert there == {path: path.encode() for path in paths[::2]}
    assert all(isinstance(d, ObjectNotFoundError) for p, d in found if p not in there)


def test_many_writes_to_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads and measured samples take turns: each file is written once."""
    monkeypatch.setattr(local, "LONG_WRITE", -1.0)
    monkeypatch.setattr(bounded, "SAMPLES_APART", 2)
    items = {f"files/{number}": str(number).encode() for number in range(1000)}
    sizes = [(path, len(data)) for path, data in items.items()]
    one, other = LocalStorage(tmp_path / "one"), LocalStorage(tmp_path / "other")
    assert sorted(one.write_many(items.items())) == [(path, None) for path in sorted(items)]
    assert sorted(other.copy_from(one, sizes)) == [(path, None) for path in sorted(items)]
    assert dict(other.read_many(items)) == items


def test_temporary_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    list(storage.write_many([("files/1", b"1")]))
    old, new = (tmp_path / f"{TEMPORARY_PREFIX}{name}" for name in ("old", "new"))
    for path, age in ((old, 2 * 3600), (new, 0)):
        path.write_bytes(b"x")
        os.utime(path, (time.time() - age,) * 2)
    storage.sync()
    assert not old.exists()
    assert new.exists()


def test_links(tmp_path: Path) -> None:
    """With the opt-in a directory may lie elsewhere; a link inside one is never walked."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"1")
    root = tmp_path / "repo"
    root.mkdir()
    (root / "chunks").symlink_to(tmp_path / "elsewhere")
    (root / "chunks" / "loop").symlink_to(root)
    storage = pickle.loads(pickle.dumps(LocalStorage(root, follow_links=True)))
    expected = {"chunks/file", "chunks/loop"}
    assert {info.path for info in storage.list("chunks")} == expected
    assert {info.path for info in storage.list("")} == expected
    names = {name for batch in storage.list_names("chunks") for name in batch}
    assert names == {"file", "loop"}
    assert storage.read("chunks/file") == b"1"

    strict = LocalStorage(root)
    assert {info.path for info in strict.list("")} == {"chunks"}
    for call in (
        lambda: list(strict.list("chunks")),
        lambda: list(strict.list_names("chunks")),
        lambda: list(strict.list_directories("chunks")),
        lambda: list(strict.read_sizes_and_times("chunks", ["file"])),
        lambda: strict.info("chunks/file"),
        lambda: strict.read("chunks/file"),
        lambda: strict.read_range("chunks/file", 0, 1),
        lambda: strict.put_if_absent("chunks/new", b""),
        lambda: strict.put_if_absent("chunks/below/new", b""),
    ):
        with raises(StorageError, remedy="follow-links"):
            call()
    ((_, failure),) = strict.delete_many(["chunks/file"])
    assert failure is not None and failure.hint == Remedy("follow-links")
    assert {path.name for path in (tmp_path / "elsewhere").iterdir()} == {"file", "loop"}


def test_descriptors_are_closed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("a/b/c", b"1")
    (tmp_path / "link").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "a" / "fifo")
    before = set(Path("/dev/fd").iterdir())
    for path in ("a/b/c", "a/b/none", "a/none/c", "a/b/c/d", "a", "a/fifo", "link/a", "link"):
        for call in (
            storage.read,
            storage.info,
            lambda path: storage.read_range(path, 0, 1),
            lambda path: storage.put_if_absent(path, b""),
            lambda path: storage.put_if_match(path, b"", Version("other")),
            lambda path: list(storage.list(path)),
        ):
            with suppress(StorageError):
                call(path)
    list(storage.delete_many(["a/b/c", "a/none/c", "link/a"]))
    assert set(Path("/dev/fd").iterdir()) == before
