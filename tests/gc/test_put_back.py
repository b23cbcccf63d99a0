"""An older `repo` that somebody put back: nothing of the newer commits may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.errors import FormatError
from icectl.model.repo import RepoInfo
from icectl.pipeline.objects import ObjectKind
from icectl.repository.backups import backup_name, check_newest
from icectl.repository.ops_log import read_repo
from icectl.storage.contract import ObjectInfo, Storage
from icectl.storage.local import LocalStorage
from tests.failures import raises
from tests.faults.storage import FaultyStorage, Request
from tests.gc.repositories import age_all, collect, files, live, now
from tests.official import open_official
from tests.official.histories import commit, create

DAY = 86400 * 1_000_000


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """Four commits, a day old; `repo` is the one after the first of them."""
    where = tmp_path / "repo"
    repo = create(where, inline_chunk_threshold_bytes=0)
    old = b""
    for number in range(4):
        if number == 1:
            old = (where / "repo").read_bytes()
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
            root.create_array(f"a{number}", shape=(4,), chunks=(2,), dtype="i8")[:] = number + 1
    age_all(where, 2 * 86400)
    (where / "repo").write_bytes(old)
    return where


def check_refused(
    where: Path,
    remedy: str = "return-or-accept-older-repo",
    path: str = "repo",
    **options: object,
) -> None:
    before = {path.relative_to(where) for path in where.rglob("*")}
    with raises(FormatError, path=path, remedy=remedy):
        collect(where, now() - DAY, **options)
    assert {path.relative_to(where) for path in where.rglob("*")} == before


def test_it_is_refused_until_the_newer_history_is_given_up(where: Path) -> None:
    check_refused(where)
    open_official(where).create_tag("again", open_official(where).lookup_branch("main"))
    check_refused(where, "return-or-abandon-history")
    lost = sorted(path.name for path in (where / "overwritten").iterdir())[1]
    _, deleted = collect(where, abandon_history=(lost,))
    assert deleted.count[ObjectKind.SNAPSHOT] == 3


def test_only_chunks_are_old_enough(where: Path) -> None:
    for kind in ("snapshots", "transactions", "manifests"):
        age_all(where / kind, -2 * 86400)
    check_refused(where)


@pytest.mark.parametrize("truncate", [False, True])
def test_the_copies_are_to_go_and_nothing_else_is_old(where: Path, truncate: bool) -> None:
    for kind in ("snapshots", "transactions", "manifests", "chunks"):
        age_all(where / kind, -2 * 86400)
    check_refused(where, backups_older_than=now() - DAY, truncate_ops_log=truncate)


def test_a_writer_died_after_its_copy(where: Path) -> None:
    """The newest copy is of the state that was put back, and an older one is newer."""
    (where / "overwritten" / backup_name(now())).write_bytes((where / "repo").read_bytes())
    check_refused(where)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:50]])
def test_the_newest_copy_cannot_be_read(where: Path, damage: Callable[[bytes], bytes]) -> None:
    newest = min((where / "overwritten").iterdir())
    newest.write_bytes(damage(newest.read_bytes()))
    check_refused(where, "check-ops-log-or-known-missing", f"overwritten/{newest.name}")
    known = frozenset({f"overwritten/{newest.name}"})
    check_refused(where, known_missing=known)


def test_a_copy_that_a_writer_makes_just_now(tmp_path: Path) -> None:
    """It is of the state that `repo` has, or of one that `repo` has since its first look."""
    where = tmp_path / "repo"
    repo = create(where)
    for number in range(3):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[1].id)
    (where / "overwritten" / backup_name(now())).write_bytes((where / "repo").read_bytes())
    before = live(where)

    def commit_meanwhile(request: Request) -> None:
        if (
            request.method == "list"
            and request.path == "overwritten"
            and len(files(where)) == there
        ):
            for number in range(2):
                with commit(open_official(where), f"meanwhile {number}") as root:
                    root.attrs["number"] = -number

    there = len(files(where))
    storage: Storage = FaultyStorage(LocalStorage(where), before=commit_meanwhile)
    _, deleted = collect(storage)
    assert deleted.count[ObjectKind.SNAPSHOT] == 1
    assert before["snapshots"].items() <= live(where)["snapshots"].items()


def test_of_very_many_copies_only_the_newest_are_listed(where: Path) -> None:
    """A shard ends where a day before the newest update begins; what is newer is in it."""
    names = sorted(path.name for path in (where / "overwritten").iterdir())
    info = read_repo(LocalStorage(where))
    assert check_newest_lists(LocalStorage(where), info) == names
    month = 30 * DAY
    later = replace(
        info,
        latest_updates=(
            replace(info.latest_updates[0], updated_at=info.latest_updates[0].updated_at + month),
        ),
    )
    assert check_newest_lists(LocalStorage(where), later) == []


def check_newest_lists(storage: Storage, info: RepoInfo) -> list[str]:
    listed: list[str] = []

    class Counting(LocalStorage):
        def list(self, prefix: str, **options: object) -> Iterator[ObjectInfo]:
            for one in super().list(prefix, **options):
                listed.append(one.path.rpartition("/")[2])
                yield one

    with suppress(FormatError):
        check_newest(Counting(storage.location), info)
    return sorted(listed)
