"""Backups that a lifecycle rule of the bucket cleared by age: a healthy repository."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icectl.format.repo import encode_repo
from tests.gc.place import Place
from tests.gc.repositories import age_all
from tests.official import ic
from tests.repetition import repeated

DAY = 86400
GC = ("gc", "--older-than", "7d", "--yes")


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    """A log in several files, whose last operations release two commits."""
    place = Place(tmp_path / "repo", capsys, num_updates_per_repo_info_file=8)
    place.commit(*range(30))
    repo = place.official()
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[2].id)
    place.commit(*range(30, 33))
    age_all(place.where, 30 * DAY)
    return place


def clear(place: Place, left: int) -> None:
    names = [name for name in place.backups() if name.startswith("repo.")]
    for name in names[left:]:
        (place.where / "overwritten" / name).unlink()


def findings(place: Place) -> list[dict[str, Any]]:
    code, document = place.run("validate", "--fail-on", "warning")
    assert code == 0, document
    found: list[dict[str, Any]] = document["findings"]
    return found


@pytest.mark.parametrize("left", repeated([0, 1, 7, 8, 9], [2, 5, 20]))
def test_all_before_some_operation_are_gone(place: Place, left: int) -> None:
    there = len(place.backups())
    clear(place, left)
    found = findings(place)
    assert [(one["code"], one["severity"]) for one in found] == [("ICE0014", "info")]
    code, log = place.run("ops-log")
    assert code == 0
    assert len(log["updates"]) < there + 1
    assert log["beyond_reach"]["is_cleared"] is True
    code, document = place.run(*GC)
    assert code == 0 and document["snapshots_deleted"] == 2
    assert place.run(*GC)[0] == 0
    assert place.run("tag", "create", "new")[0] == 0
    assert place.run(*GC)[0] == 0
    findings(place)


@pytest.mark.parametrize("left", repeated([1, 8, 9, 30], [5, 17]))
def test_gc_trims_behind_any_cut(place: Place, left: int) -> None:
    """Inside the window of `repo` (8 entries) and far behind it; writers go on afterwards."""
    young, old = place.backups()[:left], place.backups()[left:]
    for name in young:
        os.utime(place.where / "overwritten" / name)
    trim = (*GC, "--overwritten-older-than", "7d")
    code, document = place.run(*trim)
    assert code == 0 and document["backups_deleted"] == 0
    code, document = place.run(*trim, "--truncate-ops-log")
    assert code == 0 and document["backups_deleted"] == len(old)
    assert {*young} < {*place.backups()} and not {*old} & {*place.backups()}
    for round_ in range(2):
        assert {one["severity"] for one in findings(place)} <= {"info"}
        code, log = place.run("ops-log")
        assert code == 0
        assert log["beyond_reach"] is None or log["beyond_reach"]["is_cleared"]
        repo = place.official()
        assert len(list(repo.ops_log())) == len(log["updates"])
        assert repo.inspect_repo_info()
        for number in range(12):
            repo.create_tag(f"t{round_}-{number}", repo.lookup_branch("main"))
        place.commit(100 + round_)
        now = datetime.now(UTC)
        repo = place.official()
        assert len(list(repo.ancestry(branch="main"))) > 1
        repo.expire_snapshots(now)
        repo.garbage_collect(now)
        assert place.run(*GC)[0] == 0
    assert place.run(*trim, "--truncate-ops-log")[0] == 0


def test_a_copy_that_is_younger_than_it_says_keeps_the_older_ones(place: Place) -> None:
    """Without those between, the log would have a gap."""
    *_, older, oldest = place.backups()
    os.utime(place.where / "overwritten" / oldest)
    for name in place.backups()[:12]:
        os.utime(place.where / "overwritten" / name)
    trim = ("--overwritten-older-than", "7d", "--truncate-ops-log")
    code, document = place.run(*GC, *trim)
    assert code == 0 and document["backups_deleted"] == 0
    assert {older, oldest} < {*place.backups()}
    assert findings(place) == []


def test_the_whole_log_is_there(place: Place) -> None:
    assert findings(place) == []
    code, log = place.run("ops-log")
    assert code == 0 and log["beyond_reach"] is None


def test_one_count_for_very_many(place: Place) -> None:
    repo = place.official()
    for number in range(200):
        repo.create_tag(f"t{number}", repo.lookup_branch("main"))
    place.run("config", "set", "num_updates_per_repo_info_file", "1000")
    repo = place.official()
    for number in range(200, 400):
        repo.create_tag(f"t{number}", repo.lookup_branch("main"))
    named = len(place.info().latest_updates) - 1
    clear(place, 20)
    (found,) = findings(place)
    assert (found["code"], found["severity"]) == ("ICE0014", "info")
    # And the one where the log goes on.
    assert found["detail"].startswith(f"{named - 20 + 1} ")


def test_a_cleared_one_has_the_millisecond_of_the_oldest_left(place: Place) -> None:
    """Their names do not tell which of the two is older."""
    page = place.info().repo_before_updates
    assert page is not None
    number = place.backups().index(page)
    clear(place, number + 1)
    oldest = place.backups()[number - 1]
    twin = ".".join((*page.split(".")[:2], oldest.split(".")[2]))
    # The oldest that is left gets the time of the page, and the page is cleared.
    data = (place.where / "overwritten" / oldest).read_bytes()
    (place.where / "overwritten" / twin).write_bytes(data)
    (place.where / "overwritten" / page).unlink()
    assert [one["severity"] for one in findings(place)] == ["info"]
    code, log = place.run("ops-log")
    assert code == 0 and log["beyond_reach"]["is_cleared"] is True
    assert place.run(*GC)[0] == 0


def test_a_hole_is_not_cleared_by_age(place: Place) -> None:
    page = place.info().repo_before_updates
    assert page is not None
    (place.where / "overwritten" / page).unlink()
    code, document = place.run("validate", "--fail-on", "warning")
    assert code == 3
    assert [(one["code"], one["severity"]) for one in document["findings"]] == [
        ("ICE0014", "warning")
    ]
    code, log = place.run("ops-log")
    assert code == 3 and log["beyond_reach"]["is_cleared"] is False
    place.check_refused(*GC)


@pytest.mark.parametrize("commits", [0, 1, 3])
@pytest.mark.parametrize("how", ["reset", "expire", "delete"])
def test_a_migrated_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str, commits: int
) -> None:
    """The migration writes an operation for each commit, and none of them has a backup."""
    place = Place(tmp_path / "repo", capsys, spec_version=1)
    place.commit(*range(3))
    repo = place.official()
    repo.create_branch("other", repo.lookup_branch("main"))
    session = repo.writable_session("other")
    session.commit("other", allow_empty=True)
    ic.upgrade_icechunk_repository(repo, dry_run=False)
    repo = place.official()
    if how == "reset":
        repo.reset_branch("other", repo.lookup_branch("main"))
    elif how == "delete":
        repo.delete_branch("other")
    else:
        repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    clear(place, 0)
    place.commit(*range(10, 10 + commits))
    age_all(place.where, 30 * DAY)
    code, document = place.run(*GC)
    assert code == 0, document
    assert document["snapshots_deleted"] == (2 if how == "expire" else 1)
    findings(place)


@pytest.mark.parametrize("cleared", [False, True])
def test_a_branch_of_a_migrated_repository_got_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cleared: bool
) -> None:
    """The backup from before shows that no operation deleted it."""
    place = Place(tmp_path / "repo", capsys, spec_version=1)
    place.commit(*range(3))
    repo = place.official()
    repo.create_branch("other", repo.lookup_branch("main"))
    repo.writable_session("other").commit("other", allow_empty=True)
    ic.upgrade_icechunk_repository(repo, dry_run=False)
    place.commit(*range(10, 13))
    info = place.info()
    damaged = replace(info, branches=tuple(one for one in info.branches if one.name == "main"))
    (place.where / "repo").write_bytes(encode_repo(damaged))
    age_all(place.where, 30 * DAY)
    if cleared:
        clear(place, 1)
    place.check_refused(*GC)
