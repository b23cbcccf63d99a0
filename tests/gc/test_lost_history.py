"""Backups outside the current line of history: their commits stay until somebody gives them up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.repository.backups import backup_name
from icectl.storage.local import LocalStorage
from tests.faults.storage import FaultyStorage, Request, fail_for_good
from tests.gc.place import Place
from tests.gc.repositories import age_all, collect, files, now
from tests.official import ic, storage_of
from tests.official.histories import commit, create
from tests.official.reading import open_official

DAY = 86400
EXPIRE = ("expire", "--keep-last", "2", "--yes")
GC = ("gc", "--older-than", "7d", "--yes")


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path / "repo", capsys)


@pytest.fixture
def put_back(place: Place) -> Place:
    """Twelve commits, a month old, and the `repo` of six commits ago."""
    place.commit(*range(6))
    old = (place.where / "repo").read_bytes()
    place.commit(*range(6, 12))
    age_all(place.where, 30 * DAY)
    (place.where / "repo").write_bytes(old)
    return place


def newest_lost(error: dict[str, Any]) -> str:
    """The backup that the message names, by its object name."""
    words = [word.strip(".,:;`'") for word in error["message"].split()]
    (name,) = {word for word in words if word.startswith("overwritten/")}
    return name.removeprefix("overwritten/")


def check_abandoned(place: Place, lost: str, num_lost: int = 6) -> None:
    """`gc` goes on once the line is given up, and needs no word after that."""
    there = len(place.snapshot_files())
    dry = (*GC[:-1], "--dry-run", "--abandon-history", lost)
    code, planned = place.run(*dry)
    assert code == 0 and planned["snapshots_deleted"] >= num_lost
    assert lost in place.backups()
    code, done = place.run(*GC, "--abandon-history", lost)
    assert code == 0, done
    assert done["snapshots_deleted"] == planned["snapshots_deleted"]
    assert done["abandoned_backups"] == planned["abandoned_backups"]
    assert done["backups_deleted"] == len(done["abandoned_backups"]) > 0
    assert lost in done["abandoned_backups"]
    assert not {*done["abandoned_backups"]} & {*place.backups()}
    assert len(place.snapshot_files()) == there - done["snapshots_deleted"]
    assert place.run(*GC)[0] == 0
    place.check_sound()


def test_the_nightly_line(put_back: Place) -> None:
    """As in the crontab that comes with the package."""
    for command in (EXPIRE, (*EXPIRE, "--dry-run"), GC, (*GC, "--dry-run")):
        put_back.check_refused(*command)
    code, document = put_back.run("doctor", "--read-only")
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert (code, states["repository"]) == (1, "failed")
    code, document = put_back.run("validate")
    assert code == 3
    assert [finding["code"] for finding in document["findings"]] == ["ICE0020"]


WRITES = (
    ("tag", "create", "new"),
    ("branch", "create", "new"),
    ("branch", "reset", "main", "main~1"),
    ("config", "set", "inline_chunk_threshold_bytes", "7"),
    ("metadata", "set", "key", "1"),
    ("flags", "set", "move_node", "off"),
    ("status", "set", "read-only"),
    EXPIRE,
)


@pytest.mark.parametrize("words", WRITES, ids=lambda words: " ".join(words[:2]))
def test_every_write_is_refused(put_back: Place, words: tuple[str, ...]) -> None:
    error = put_back.check_refused(*words)
    assert "status set online --accept-older-repo" in error["hint"]


@pytest.mark.parametrize("words", WRITES, ids=lambda words: " ".join(words[:2]))
def test_every_write_goes_on_once_the_older_state_is_accepted(
    put_back: Place, words: tuple[str, ...]
) -> None:
    assert put_back.run("status", "set", "online", "--accept-older-repo")[0] == 0
    assert put_back.run(*words)[0] == 0
    if words[0] == "status":
        put_back.run("status", "set", "online")
    # The newer commits stay all the same.
    lost = newest_lost(put_back.check_refused(*GC))
    check_abandoned(put_back, lost)


def later_commit(place: Place) -> None:
    place.commit(20)


def later_expiration(place: Place) -> None:
    repo = place.official()
    repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)


def many_operations(place: Place) -> None:
    repo = place.official()
    for number in range(300):
        repo.create_tag(f"t{number}", repo.lookup_branch("main"))


def accepted(place: Place) -> None:
    assert place.run("status", "set", "online", "--accept-older-repo")[0] == 0
    assert place.run(*EXPIRE)[0] == 0


@pytest.mark.parametrize(
    ("later", "count"),
    # Of the six the last is in no backup; what an expiration releases, the lost line lists still.
    [(later_commit, 5), (later_expiration, 10), (many_operations, 5), (accepted, 9)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_later_operations(put_back: Place, later: Callable[[Place], None], count: int) -> None:
    later(put_back)
    code, document = put_back.run("validate")
    assert code == 3
    (finding,) = document["findings"]
    assert finding["code"] == "ICE0020" and finding["object"] == "repo"
    assert f" {count} snapshots" in finding["detail"]
    for words in (
        GC,
        (*GC[:-1], "--dry-run"),
        (*GC, "--only", "chunks"),
        (*GC, "--only", "transaction_logs,manifests"),
        (*GC, "--overwritten-older-than", "7d"),
        (*GC, "--overwritten-older-than", "7d", "--truncate-ops-log"),
    ):
        error = put_back.check_refused(*words)
        assert f" {count} snapshots" in error["message"]
    check_abandoned(put_back, newest_lost(error))


@pytest.mark.parametrize("drops", [False, True])
def test_given_up_while_repo_is_still_older(place: Place, drops: bool) -> None:
    """The word of the operator is enough, whether gc has to change `repo` or not."""
    place.commit(*range(6))
    if drops:
        repo = place.official()
        repo.reset_branch("main", list(repo.ancestry(branch="main"))[2].id)
    old = (place.where / "repo").read_bytes()
    place.commit(*range(10, 16))
    age_all(place.where, 30 * DAY)
    (place.where / "repo").write_bytes(old)
    lost = newest_lost(place.check_refused(*GC))
    older = place.backups()[place.backups().index(lost) + 1]
    place.check_refused(*GC, "--abandon-history", older)
    check_abandoned(place, lost, 8 if drops else 6)
    assert place.run("tag", "create", "new")[0] == 0


def test_another_lost_line_is_newer_than_repo(put_back: Place) -> None:
    old = (put_back.where / "repo").read_bytes()
    put_back.commit(20, 21, 22)
    age_all(put_back.where, 30 * DAY)
    (put_back.where / "repo").write_bytes(old)
    second = newest_lost(put_back.check_refused(*GC))
    first = newest_lost(put_back.check_refused(*GC, "--abandon-history", second))
    assert first != second
    put_back.check_refused(*GC, "--abandon-history", first)
    words = ("--abandon-history", first, "--abandon-history", second)
    code, document = put_back.run(*GC, *words)
    assert code == 0 and document["snapshots_deleted"] == 9
    put_back.check_sound()


def test_a_lost_line_lists_what_repo_lists_and_no_ref_reaches(place: Place) -> None:
    """gc refuses to delete it, and validate says why."""
    place.commit(*range(4))
    old = (place.where / "repo").read_bytes()
    repo = place.official()
    for number in range(3):
        repo.create_tag(f"t{number}", repo.lookup_branch("main"))
    (place.where / "repo").write_bytes(old)
    repo = place.official()
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[1].id)
    place.commit(20)
    age_all(place.where, 30 * DAY)
    lost = newest_lost(place.check_refused(*GC))
    code, document = place.run("validate")
    assert code == 3
    (finding,) = (one for one in document["findings"] if one["severity"] == "error")
    assert finding["code"] == "ICE0020" and lost in finding["detail"]
    assert " 1 snapshot " in finding["detail"]
    check_abandoned(place, lost, 1)


def test_the_log_overflows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path / "repo", capsys, num_updates_per_repo_info_file=4)
    place.commit(*range(6))
    old = (place.where / "repo").read_bytes()
    place.commit(*range(6, 12))
    age_all(place.where, 30 * DAY)
    (place.where / "repo").write_bytes(old)
    place.commit(*range(12, 22))
    lost = newest_lost(place.check_refused(*GC))
    check_abandoned(place, lost)


def test_a_saved_plan(put_back: Place, tmp_path: Path) -> None:
    """Made by an icectl that did not look."""
    later_commit(put_back)
    lost = newest_lost(put_back.check_refused(*GC))
    plan = str(tmp_path / "plan.jsonl")
    assert put_back.run(*GC[:-1], "--dry-run", "--plan", plan, "--abandon-history", lost)[0] == 0
    put_back.check_refused("gc", "--apply", plan, "--yes")
    code, document = put_back.run("gc", "--apply", plan, "--yes", "--abandon-history", lost)
    assert code == 0 and document["snapshots_deleted"] == 6
    put_back.check_sound()


def test_only_chunks_are_old_enough(put_back: Place) -> None:
    later_commit(put_back)
    for kind in ("snapshots", "transactions", "manifests"):
        age_all(put_back.where / kind, -30 * DAY)
    put_back.check_refused(*GC)


def test_two_lost_lines_are_given_up_one_by_one(put_back: Place) -> None:
    old = (put_back.where / "repo").read_bytes()
    put_back.commit(20, 21, 22)
    (put_back.where / "repo").write_bytes(old)
    put_back.commit(30)
    age_all(put_back.where, 30 * DAY)
    second = newest_lost(put_back.check_refused(*GC))
    first = newest_lost(put_back.check_refused(*GC, "--abandon-history", second))
    assert first != second
    put_back.check_refused(*GC, "--abandon-history", first)
    words = ("--abandon-history", first, "--abandon-history", f"overwritten/{second}")
    code, document = put_back.run(*GC, *words)
    assert code == 0 and document["snapshots_deleted"] == 9
    put_back.check_sound()


def test_an_older_backup_of_the_line_covers_only_what_is_older(put_back: Place) -> None:
    later_commit(put_back)
    lost = newest_lost(put_back.check_refused(*GC))
    older = put_back.backups()[put_back.backups().index(lost) + 1]
    assert newest_lost(put_back.check_refused(*GC, "--abandon-history", older)) == lost


@pytest.mark.parametrize("name", ["repo.1.x", "", "of the current line"])
def test_what_is_not_lost_cannot_be_given_up(put_back: Place, name: str) -> None:
    """So that the option is of no use in a crontab."""
    later_commit(put_back)
    if name.startswith("of"):
        name = next(one.backup_path or "" for one in put_back.info().latest_updates[1:])
    before = files(put_back.where)
    code, document = put_back.run(*GC, "--abandon-history", name)
    assert (code, document["error"]["kind"]) == (16, "refused")
    assert files(put_back.where) == before


def test_the_lost_line_is_put_back(put_back: Place) -> None:
    """The way back: then the short line is the lost one, and nothing of it is protected."""
    later_expiration(put_back)
    later_commit(put_back)
    lost = newest_lost(put_back.check_refused(*GC))
    shutil.copy(put_back.where / "overwritten" / lost, put_back.where / "repo")
    put_back.check_refused("tag", "create", "new")
    assert put_back.run("status", "set", "online", "--accept-older-repo")[0] == 0
    assert put_back.run(*GC)[0] == 0
    repo = put_back.official()
    assert len(list(repo.ancestry(branch="main"))) == 12


def test_the_repo_file_is_lost_and_created_again(put_back: Place) -> None:
    """As `Repository.open_or_create` does it in a pipeline."""
    (put_back.where / "repo").unlink()
    ic.Repository.open_or_create(storage_of(put_back.where), check_clean_root=False)
    put_back.commit(20)
    error = put_back.check_refused(*GC)
    check_abandoned(put_back, newest_lost(error), 12)


def test_copies_of_lost_races_are_no_alarm(place: Place) -> None:
    """Many, all over the history, and as old as it: of states of the line."""
    for number in range(6):
        place.commit(number)
        for _ in range(3):
            name = backup_name(now())
            (place.where / "overwritten" / name).write_bytes((place.where / "repo").read_bytes())
    repo = place.official()
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[2].id)
    place.commit(20)
    age_all(place.where, 30 * DAY)
    assert place.run("tag", "create", "new")[0] == 0
    place.check_sound()
    code, document = place.run(*GC)
    assert code == 0 and document["snapshots_deleted"] == 2
    place.check_sound()


@pytest.mark.parametrize("how", ["cut", "cleared"])
def test_a_log_that_ends_early_is_no_alarm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    place = Place(tmp_path / "repo", capsys, num_updates_per_repo_info_file=6)
    for number in range(12):
        place.commit(number)
        name = backup_name(now())
        (place.where / "overwritten" / name).write_bytes((place.where / "repo").read_bytes())
    repo = place.official()
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[2].id)
    place.commit(20)
    age_all(place.where, 30 * DAY)
    if how == "cleared":
        (place.where / "overwritten" / str(place.info().repo_before_updates)).unlink()
    else:
        from dataclasses import replace

        from icectl.format.repo import encode_repo

        info = place.info()
        cut = replace(info, latest_updates=info.latest_updates[:4], repo_before_updates=None)
        (place.where / "repo").write_bytes(encode_repo(cut))
        if how == "cut":
            for name in place.backups()[-4:]:
                (place.where / "overwritten" / name).unlink()
    assert place.run("tag", "create", "new")[0] == 0
    findings = place.run("validate")[1]["findings"]
    assert not [one for one in findings if one["code"] == "ICE0020"]


def test_an_unreadable_copy_that_the_log_does_not_name(place: Place, tmp_path: Path) -> None:
    """It may be the only trace of a lost line: gc stops, a change goes on."""
    place.commit(*range(3))
    name = backup_name(now())
    (place.where / "overwritten" / name).write_bytes(b"")
    repo = place.official()
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[1].id)
    place.commit(20)
    age_all(place.where, 30 * DAY)
    assert place.run("tag", "create", "new")[0] == 0
    place.check_refused(*GC)
    findings = place.run("validate")[1]["findings"]
    assert {one["code"]: one["object"] for one in findings} == {"ICE0015": f"overwritten/{name}"}
    known = tmp_path / "known"
    known.write_text(f"overwritten/{name}\n")
    assert place.run(*GC, "--known-missing", str(known))[0] == 0


def test_lost_backups_that_protect_nothing_are_trimmed_by_age(place: Place) -> None:
    """A line that only expired and tagged lists nothing that the current one does not."""
    place.commit(*range(4))
    old = (place.where / "repo").read_bytes()
    repo = place.official()
    for number in range(3):
        repo.create_tag(f"t{number}", repo.lookup_branch("main"))
    age_all(place.where, 30 * DAY)
    (place.where / "repo").write_bytes(old)
    place.commit(20)
    there = len(place.backups())
    place.check_sound()
    code, document = place.run(*GC, "--overwritten-older-than", "7d")
    assert code == 0 and document["backups_deleted"] == 3
    assert len(place.backups()) == there - 3
    place.check_sound()


def test_writers_that_commit_during_the_look(place: Place) -> None:
    """States that came after `repo` was read are part of the line."""
    place.commit(*range(4))
    repo = place.official()
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[1].id)
    committed = 0

    def commit_meanwhile(request: Request) -> None:
        nonlocal committed
        if request.method == "list" and request.path == "overwritten" and committed < 6:
            committed += 3
            place.commit(*range(100 + committed, 103 + committed))

    _, deleted = collect(FaultyStorage(LocalStorage(place.where), before=commit_meanwhile))
    assert committed == 6
    assert sum(deleted.count.values())
    assert len(list(place.official().ancestry(branch="main"))) == 4 + 6


def test_a_failed_delete_leaves_the_backups(put_back: Place) -> None:
    """They protect what is left, so that the same word is needed once more."""
    later_commit(put_back)
    lost = newest_lost(put_back.check_refused(*GC))
    backups = put_back.backups()
    storage = FaultyStorage(
        LocalStorage(put_back.where), before=fail_for_good("delete_many", "snapshots/")
    )
    _, deleted = collect(storage, now() - 7 * DAY * 1_000_000, abandon_history=(lost,))
    assert deleted.failures and not deleted.backups
    assert {*put_back.backups()} >= {*backups}
    put_back.check_refused(*GC)
    check_abandoned(put_back, lost)


def run_gc(where: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run([*GC, *words, "-r", str(where), "--json"], {})
    return code, json.loads(capsys.readouterr().err)["error"]["kind"]


def test_refs_of_version_1_put_back_after_a_migration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "repo"
    repo = create(where, 1)
    for number in range(3):
        with commit(repo, str(number)) as root:
            root.attrs["number"] = number
    shutil.copytree(where / "refs", tmp_path / "refs")
    ic.upgrade_icechunk_repository(open_official(where), dry_run=False)
    repo = open_official(where)
    for number in range(3, 6):
        with commit(repo, str(number)) as root:
            root.attrs["number"] = number
    (where / "repo").unlink()
    shutil.copytree(tmp_path / "refs", where / "refs", dirs_exist_ok=True)
    age_all(where, 30 * DAY)
    there = files(where)
    assert run_gc(where, capsys) == (13, "damaged")
    assert files(where) == there


def test_a_gap_in_the_log_does_not_hide_a_lost_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "repo"
    config = ic.RepositoryConfig(num_updates_per_repo_info_file=2)
    repo = ic.Repository.create(storage_of(where), config=config)

    def commit_some(repo: Any, numbers: range) -> None:
        for number in numbers:
            with commit(repo, str(number)) as root:
                root.attrs["number"] = number

    commit_some(repo, range(3))
    old = (where / "repo").read_bytes()
    commit_some(repo, range(3, 8))
    (where / "repo").write_bytes(old)
    before = {*(where / "overwritten").iterdir()}
    commit_some(open_official(where), range(8, 16))
    lost_link = sorted({*(where / "overwritten").iterdir()} - before)[3]
    lost_link.unlink()
    excused = tmp_path / "known-missing"
    excused.write_text(f"overwritten/{lost_link.name}\n")
    age_all(where, 30 * DAY)
    there = files(where)
    for words in ((), ("--known-missing", str(excused))):
        assert run_gc(where, capsys, *words) == (13, "damaged")
        assert files(where) == there
