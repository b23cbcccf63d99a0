"""Repairs that are killed, lose a race, or lose the answer to a write."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from icectl.errors import IcectlError, StorageError
from icectl.ops.repair.run import RepairOptions, execute_repair, plan_repair
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from tests.faults.storage import FaultyStorage, Request, fail_once
from tests.official.histories import commit
from tests.repair.helpers import LOSSY, content, findings, official, repair, versions
from tests.repetition import repeated
from tests.validate.damage import Patient, copied_with_source
from tests.validate.damages import DAMAGES

WRITES = ("put_if_absent", "put_if_match")
BREAKDOWNS = ("ICE0001", "ICE0020", "ICE0101", "ICE0202", "ICE0301", "ICE0401", "lost lines")
"""One of each kind of step."""


def hurt(where: Path, code: str) -> None:
    if code == "lost lines":
        lose_two_lines(where)
    else:
        DAMAGES[code](Patient(where))


def lose_two_lines(where: Path) -> None:
    """Two lost lines, one with a tag of an old commit and one of its own, and a newer history."""
    old = (where / "repo").read_bytes()
    for line in ("first", "second"):
        repo = official(where)
        repo.create_tag(f"{line}-old", list(repo.ancestry(branch="main"))[2].id)
        for number in range(3):
            with commit(official(where), f"{line} {number}") as root:
                root.attrs["number"] = number
            if number == 0:
                repo = official(where)
                repo.create_tag(f"{line}-new", repo.lookup_branch("main"))
        (where / "repo").write_bytes(old)
    with commit(official(where), "newer") as root:
        root.attrs["number"] = 10


def mend(storage: Storage) -> None:
    plan = plan_repair(storage, RepairOptions(chosen=LOSSY), storage.read_clock())
    execute_repair(storage, plan)


class KilledError(BaseException):
    """Ends everything, as `kill -9` does: nobody catches it."""


@pytest.mark.parametrize("code", BREAKDOWNS)
@pytest.mark.parametrize("moment", repeated(["before"], ["after"]))
def test_killed_at_every_write(code: str, moment: str, whole: Path, tmp_path: Path) -> None:
    """The repository is no worse, and the next repair finishes.

    What a kill after a write leaves is what a kill before the next one leaves.
    """
    damaged = copied_with_source(whole, tmp_path / "damaged")
    hurt(damaged, code)
    expected = copied_with_source(damaged, tmp_path / "expected")
    mend(LocalStorage(expected))
    surviving = {
        id_: data for id_, data in versions(official(expected)).items() if id_ in known(whole)
    }
    number = 0
    while True:
        number += 1
        where = copied_with_source(damaged, tmp_path / str(number))
        left = [number]

        def kill(request: Request, left: list[int] = left) -> None:
            if request.method in WRITES:
                left[0] -= 1
                if left[0] == 0:
                    raise KilledError

        storage = FaultyStorage(LocalStorage(where), **{moment: kill})
        try:
            mend(storage)
        except KilledError:
            pass
        else:
            break
        before = content(damaged)
        after = content(where)
        if "repo" in before and code != "ICE0001":
            official(where)  # opens
        # Files that were there are there, changed only by the steps that replace damaged ones.
        assert before.keys() <= after.keys()
        mend(LocalStorage(where))
        assert findings(where) == []
        read = versions(official(where))
        assert all(read[id_] == data for id_, data in surviving.items())
        if code == "lost lines":
            # A lost ref may stay lost if another recovered branch has its commits.
            assert refs_of(where).items() <= refs_of(expected).items()
            assert {*refs_of(expected).values()} <= read.keys()
        shutil.rmtree(where)
    assert number > 1


def refs_of(where: Path) -> dict[str, str]:
    repo = official(where)
    return {name: repo.lookup_branch(name) for name in repo.list_branches()}


def known(where: Path) -> set[str]:
    return {path.name for path in (where / "snapshots").iterdir()}


@pytest.mark.parametrize("code", BREAKDOWNS)
@pytest.mark.parametrize("method", WRITES)
def test_the_answer_to_a_write_is_lost(code: str, method: str, whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    hurt(where, code)
    storage = FaultyStorage(LocalStorage(where), after=fail_once(method))
    try:
        mend(storage)
    except IcectlError as error:
        assert isinstance(error, StorageError)
        mend(LocalStorage(where))
    assert findings(where) == []


def test_another_writer_commits_meanwhile(whole: Path, tmp_path: Path) -> None:
    """The branch is never moved back: the repair stops, and the next one finds the new tip."""
    where = copied_with_source(whole, tmp_path / "repo")
    Patient(where).chunk_of("/g/native").unlink()
    others = [1]

    def commit_first(request: Request) -> None:
        if request.method == "put_if_match" and others:
            others.pop()
            with commit(official(where), "somebody else's") as root:
                root.attrs["theirs"] = 1

    storage = FaultyStorage(LocalStorage(where), before=commit_first)
    with pytest.raises(IcectlError) as error:
        mend(storage)
    assert error.value.kind == "conflict"
    repo = official(where)
    assert next(repo.ancestry(branch="main")).message == "somebody else's"
    mend(LocalStorage(where))
    assert findings(where) == []
    messages = [one.message for one in official(where).ancestry(branch="main")]
    assert messages[0].startswith("Drop references")


def test_somebody_else_restores_the_repo_file_first(whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    original = (where / "repo").read_bytes()
    (where / "repo").write_bytes(b"")

    def restore(request: Request) -> None:
        if request.method == "put_if_match":
            (where / "repo").write_bytes(original)

    with pytest.raises(IcectlError) as error:
        mend(FaultyStorage(LocalStorage(where), before=restore))
    assert error.value.kind == "conflict"
    assert (where / "repo").read_bytes() == original
    assert repair(where).steps == ()


def test_a_missing_file_comes_back_first(whole: Path, tmp_path: Path) -> None:
    """A file that somebody copied back is never overwritten."""
    where = copied_with_source(whole, tmp_path / "repo")
    path = where / "transactions" / Patient(where).tip
    original = path.read_bytes()
    path.unlink()

    def restore(request: Request) -> None:
        if request.method == "put_if_absent":
            path.write_bytes(original)

    with pytest.raises(IcectlError) as error:
        mend(FaultyStorage(LocalStorage(where), before=restore))
    assert error.value.kind == "conflict"
    assert path.read_bytes() == original
    assert findings(where) == []
