"""Repositories on a shared disk that somebody prepared: links, pipes, sparse files, held locks.

Nothing outside the repository is read, written or deleted, and no command hangs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icectl.errors import UsageError
from icectl.ops.files import check_writable, write_shared
from icectl.storage import lock
from icectl.storage.local import LocalStorage
from icectl.storage.lock import LOCK_NAME
from tests.command_line import Icectl, Outcome
from tests.gc.repositories import age_all, files, messy_repository
from tests.hostile.running import require_harmless, run_measured
from tests.official import built, copied
from tests.patience import PATIENCE_SECONDS

OPT_IN = "follow_links=true"
GC = ("gc", "--older-than", "7d", "--yes", "--json")
DIRECTORIES = ("chunks", "manifests", "snapshots", "transactions", "overwritten")


def make(tmp_path_factory: pytest.TempPathFactory, where: Path, spec_version: int = 2) -> Path:
    mine = copied(built(tmp_path_factory, messy_repository, spec_version), where)
    age_all(mine, 30 * 86400)
    return mine


@pytest.fixture
def repository(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory, tmp_path / "repository")


@pytest.fixture
def old_repository(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory, tmp_path / "repository", 1)


def all_files(where: Path) -> dict[str, bytes]:
    return {str(p.relative_to(where)): p.read_bytes() for p in where.rglob("*") if p.is_file()}


def link_elsewhere(path: Path) -> Path:
    """Move it out of the repository and leave a link."""
    elsewhere = path.parents[1] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    return elsewhere


def check_refused(outcome: Outcome, path: Path) -> None:
    assert outcome.code == 14, outcome
    assert outcome.error["kind"] == "storage"
    assert str(path) in outcome.error["message"]
    assert OPT_IN in outcome.error["hint"]


class TestLinks:
    @pytest.mark.parametrize("name", DIRECTORIES)
    def test_gc_deletes_nothing_of_another_repository(
        self,
        icectl: Icectl,
        repository: Path,
        tmp_path: Path,
        tmp_path_factory: pytest.TempPathFactory,
        name: str,
    ) -> None:
        victim = make(tmp_path_factory, tmp_path / "victim")
        before = all_files(victim)
        shutil.rmtree(repository / name)
        (repository / name).symlink_to(victim / name)
        own = files(repository)
        check_refused(icectl(*GC, "-r", str(repository)), repository / name)
        assert all_files(victim) == before
        assert files(repository) == own

    def test_gc_follows_a_link_with_the_opt_in(self, icectl: Icectl, repository: Path) -> None:
        elsewhere = link_elsewhere(repository / "chunks")
        before = len(all_files(elsewhere))
        outcome = icectl(*GC, "-r", str(repository), "--storage-option", OPT_IN)
        assert outcome.code == 0, outcome.err
        deleted = outcome.document["chunks_deleted"]
        assert deleted > 0 and len(all_files(elsewhere)) == before - deleted
        valid = icectl(
            *("validate", "--level", "data", "-r", str(repository), "--storage-option", OPT_IN)
        )
        assert valid.code == 0, valid

    def test_a_link_that_appears_while_gc_runs(self, repository: Path, tmp_path: Path) -> None:
        """Between the listing and the deletion."""
        storage = LocalStorage(repository)
        paths = [info.path for info in storage.list("chunks")]
        victim = tmp_path / "victim"
        shutil.copytree(repository / "chunks", victim)
        shutil.rmtree(repository / "chunks")
        (repository / "chunks").symlink_to(victim)
        before = all_files(victim)
        outcome = dict(storage.delete_many(paths))
        assert outcome.keys() == set(paths) and all(outcome.values())
        assert all_files(victim) == before

    def test_a_linked_object_is_not_read_and_only_the_link_is_deleted(self, tmp_path: Path) -> None:
        target = tmp_path / "private"
        target.write_bytes(b"secret")
        root = tmp_path / "root"
        (root / "chunks").mkdir(parents=True)
        (root / "chunks" / "A").symlink_to(target)
        storage = LocalStorage(root)
        ((_, failure),) = storage.read_many(["chunks/A"])
        assert isinstance(failure, Exception) and "symbolic link" in str(failure)
        assert list(storage.delete_many(["chunks/A"])) == [("chunks/A", None)]
        assert target.read_bytes() == b"secret" and not (root / "chunks" / "A").is_symlink()

    def test_the_repo_file(self, icectl: Icectl, repository: Path) -> None:
        elsewhere = link_elsewhere(repository / "repo")
        before, copies = elsewhere.read_bytes(), set((repository / "overwritten").iterdir())
        for words in (("tag", "create", "new", "main"), ("log",), GC[:-1]):
            check_refused(icectl(*words, "--json", "-r", str(repository)), repository / "repo")
        assert elsewhere.read_bytes() == before
        assert set((repository / "overwritten").iterdir()) == copies

    def test_the_config_file(self, icectl: Icectl, old_repository: Path, tmp_path: Path) -> None:
        private = tmp_path / "private.yaml"
        private.write_text("virtual_chunk_containers: null\n")
        config = old_repository / "config.yaml"
        config.unlink(missing_ok=True)
        config.symlink_to(private)
        before = all_files(old_repository)
        for words in (("config", "set", "inline_chunk_threshold_bytes", "7"), ("config", "get")):
            check_refused(icectl(*words, "--json", "-r", str(old_repository)), config)
        assert private.read_text() == "virtual_chunk_containers: null\n"
        assert all_files(old_repository) == before

    @pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
    def test_copies_are_not_written_elsewhere(
        self, icectl: Icectl, repository: Path, tmp_path: Path, target: str
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        shutil.rmtree(repository / "overwritten")
        (repository / "overwritten").symlink_to(tmp_path / target)
        repo = (repository / "repo").read_bytes()
        outcome = icectl("tag", "create", "new", "main", "--json", "-r", str(repository))
        check_refused(outcome, repository / "overwritten")
        assert (repository / "repo").read_bytes() == repo
        assert list((tmp_path / "elsewhere").iterdir()) == []
        assert not (tmp_path / "nowhere").exists()

    def test_refs_are_not_written_elsewhere(
        self, icectl: Icectl, old_repository: Path, tmp_path: Path
    ) -> None:
        refs = link_elsewhere(old_repository / "refs")
        before = all_files(refs)
        outcome = icectl("tag", "create", "new", "main", "--json", "-r", str(old_repository))
        check_refused(outcome, old_repository / "refs")
        assert all_files(refs) == before

    def test_the_root_may_be_a_link(self, icectl: Icectl, repository: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(repository)
        assert icectl("tag", "create", "new", "main", "-r", str(tmp_path / "link")).code == 0
        assert icectl(*GC, "-r", str(tmp_path / "link")).code == 0

    def test_a_link_beside_the_directories_is_not_walked(
        self, icectl: Icectl, repository: Path
    ) -> None:
        (repository / "everything").symlink_to("/")
        paths = {info.path for info in LocalStorage(repository).list("")}
        assert "everything" in paths and not any(path.startswith("everything/") for path in paths)
        assert icectl(*GC, "-r", str(repository)).code == 0


class TestLocks:
    def create(self, icectl: Icectl, repository: Path) -> Outcome:
        return icectl("tag", "create", "new", "main", "--json", "-r", str(repository))

    def test_a_link_creates_nothing(self, icectl: Icectl, repository: Path, tmp_path: Path) -> None:
        (repository / LOCK_NAME).unlink(missing_ok=True)
        (repository / LOCK_NAME).symlink_to(tmp_path / "nologin")
        outcome = self.create(icectl, repository)
        assert outcome.code == 14 and LOCK_NAME in outcome.error["message"]
        assert not (tmp_path / "nologin").exists()

    @pytest.mark.parametrize("kind", ["fifo", "socket", "directory"])
    def test_what_is_not_a_file(self, icectl: Icectl, repository: Path, kind: str) -> None:
        (repository / LOCK_NAME).unlink(missing_ok=True)
        SPECIAL[kind](repository / LOCK_NAME)
        outcome = self.create(icectl, repository)
        assert outcome.code == 14 and LOCK_NAME in outcome.error["message"]

    def test_a_lock_that_is_never_released(
        self, icectl: Icectl, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lock, "LOCK_SECONDS", 0.5)
        holder = subprocess.Popen(
            [
                *(sys.executable, "-c"),
                "import fcntl, sys; lock = open(sys.argv[1], 'a'); fcntl.flock(lock, 2);"
                "print(flush=True); sys.stdin.read()",
                str(repository / LOCK_NAME),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdin is not None and holder.stdout is not None
        try:
            holder.stdout.readline()
            begin = time.monotonic()
            outcome = self.create(icectl, repository)
            assert outcome.code == 14 and time.monotonic() - begin < PATIENCE_SECONDS
            assert LOCK_NAME in outcome.error["hint"]
        finally:
            holder.communicate(timeout=PATIENCE_SECONDS)
        assert self.create(icectl, repository).code == 0

    def test_a_short_wait_is_not_a_failure(self, icectl: Icectl, repository: Path) -> None:
        with (repository / LOCK_NAME).open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            waiting = subprocess.Popen(
                [
                    *(sys.executable, "-m", "icectl.cli.main", "tag", "create", "new", "main"),
                    *("-r", str(repository)),
                ],
            )
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(1.5)
        assert waiting.wait(PATIENCE_SECONDS) == 0

    @pytest.mark.parametrize(
        ("directory", "expected"), [(0o755, 0o600), (0o2775, 0o660), (0o777, 0o666)]
    )
    def test_only_writers_can_open_it(
        self, icectl: Icectl, repository: Path, directory: int, expected: int
    ) -> None:
        (repository / LOCK_NAME).unlink(missing_ok=True)
        repository.chmod(directory)
        assert self.create(icectl, repository).code == 0
        status = (repository / LOCK_NAME).stat()
        assert stat.S_IMODE(status.st_mode) == expected
        assert status.st_gid == repository.stat().st_gid

    def test_one_of_an_earlier_version_is_closed_to_readers(
        self, icectl: Icectl, repository: Path
    ) -> None:
        (repository / LOCK_NAME).touch()
        (repository / LOCK_NAME).chmod(0o644)
        repository.chmod(0o777)
        assert self.create(icectl, repository).code == 0
        assert stat.S_IMODE((repository / LOCK_NAME).stat().st_mode) == 0o644  # all may write
        repository.chmod(0o755)
        assert icectl("tag", "create", "newer", "main", "-r", str(repository)).code == 0
        assert stat.S_IMODE((repository / LOCK_NAME).stat().st_mode) == 0o600

    def test_a_file_with_another_name_keeps_its_mode(
        self, icectl: Icectl, repository: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "other").write_bytes(b"1")
        (tmp_path / "other").chmod(0o644)
        (repository / LOCK_NAME).unlink(missing_ok=True)
        (repository / LOCK_NAME).hardlink_to(tmp_path / "other")
        assert self.create(icectl, repository).code == 0
        assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o644


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_rewritten_file_keeps_mode_owner_and_group(
    icectl: Icectl, repository: Path, mode: int
) -> None:
    repo = repository / "repo"
    if os.geteuid() == 0:
        os.chown(repo, 4321, 4322)
    repo.chmod(mode)
    before, inode = repo.stat(), repo.stat().st_ino
    assert icectl("tag", "create", "new", "main", "-r", str(repository)).code == 0
    after = repo.stat()
    assert after.st_ino != inode
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


@contextmanager
def another_user() -> Iterator[None]:
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(4321, 4321, 0)
    os.setresuid(4321, 4321, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    "words",
    [
        ["metrics", "-r", "mine", "--textfile"],
        ["report", "-r", "mine", "--html"],
        ["stats", "-r", "mine", "--plot"],
        ["maintain", "mine", "--yes", "--metrics"],
    ],
)
@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_that_cannot_be_replaced_is_found_before_the_work(
    icectl: Icectl, repository: Path, words: list[str], is_link: bool
) -> None:
    """Its directory counts, not the file itself; and that of its target if it is a link."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        root.chmod(0o777)
        closed = root / "closed"
        closed.mkdir(0o755)
        file = named = closed / "file.svg"
        if is_link:
            named = root / "link.svg"
            named.symlink_to(file)
        config = root / "config.toml"
        config.write_text(
            f'[repositories.mine]\nlocation = "{repository}"\nmaintenance = {{validate = "refs"}}\n'
        )
        given = [*words, str(named), "--json"]
        # As root, who may do everything; what is imported now, another user need not read.
        assert icectl(*given, ICECTL_CONFIG=str(config)).code == 0
        file.chmod(0o666)
        before = file.stat().st_mtime_ns
        with another_user():
            refused = icectl(*given, ICECTL_CONFIG=str(config))
        assert (refused.code, refused.error["kind"]) == (2, "usage")
        assert words[-1] in refused.error["hint"]
        assert file.stat().st_mtime_ns == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_is_replaced_by_whoever_may_write_its_directory() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        closed = Path(place, "closed")
        closed.mkdir(0o700)
        file = Path(place, "page.html")
        file.write_text("mine")
        with another_user():
            for absent in (closed / "page.html", closed / "absent" / "page.html"):
                with pytest.raises(UsageError):
                    check_writable("--html", absent, is_replaced=True)
            with pytest.raises(UsageError):
                check_writable("--junit", file)
            check_writable("--html", file, is_replaced=True)
            write_shared(file, b"theirs")
        assert file.read_bytes() == b"theirs"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_group_gets_no_more_than_everybody() -> None:
    """The writer is not in the group of the file, and cannot give the new one to it."""
    with tempfile.TemporaryDirectory() as place:  # other users may pass through its parents
        root = Path(place)
        storage = LocalStorage(root)
        version = storage.put_if_absent("repo", b"1")
        os.chown(root, 4321, 4321)
        os.chown(root / LOCK_NAME, 4321, 4321)
        os.chown(root / "repo", 4321, 4322)
        (root / "repo").chmod(0o664)
        with another_user():
            storage.put_if_match("repo", b"2", version)
        found = (root / "repo").stat()
        assert (root / "repo").read_bytes() == b"2"
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o644, 4321)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def make_sparse_below_the_limit(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "socket": make_socket,
    "directory": Path.mkdir,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "sparse": make_sparse,
    "sparse-1GiB": make_sparse_below_the_limit,
}


COMMANDS = (
    ("log", "--all"),
    ("tag", "create", "new", "main"),
    ("validate", "--level", "data"),
    GC,
)


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("place", ["repo", "snapshots", "transactions", "manifests", "chunks"])
def test_no_command_hangs_or_takes_all_memory(
    repository: Path, tmp_path: Path, place: str, kind: str
) -> None:
    """The files of one kind are all replaced by what cannot be read to its end."""
    there = repository / place
    replaced = sorted(there.iterdir()) if there.is_dir() else [there]
    for path in replaced:
        path.unlink()
        SPECIAL[kind](path)
    for words in COMMANDS:
        outcome = run_measured(*words, "-r", str(repository), home=tmp_path)
        require_harmless(outcome, f"{words}")
        if place == "repo":
            assert outcome.code in (3, 10, 13, 14), (words, outcome)
    if place == "repo" and kind not in ("directory", "fifo", "endless"):
        outcome = run_measured("inspect-file", str(there), home=tmp_path)
        require_harmless(outcome, "inspect-file")
        assert outcome.code >= 2, outcome
    # gc had nothing to go by, and deleted nothing.
    assert all(os.path.lexists(path) for path in replaced)
