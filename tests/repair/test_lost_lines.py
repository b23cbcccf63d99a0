"""Lines of history that an older `repo` cut off: recovered by repair, and never reported again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.ops.repair.run import RepairOptions, plan_repair
from icectl.storage.local import LocalStorage
from tests.gc.place import Place
from tests.gc.repositories import age_all, live, official_gc
from tests.official.histories import commit
from tests.repair.helpers import official, versions

DAY = 86400
GC = ("gc", "--older-than", "0s", "--allow-recent", "--yes")
REPAIR = ("repair", "--yes")


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path / "repo", capsys)


def lose(place: Place, *changes: Callable[[Place], object]) -> None:
    """Make changes, and put the state before them back."""
    old = (place.where / "repo").read_bytes()
    for change in changes:
        change(place)
    (place.where / "repo").write_bytes(old)


def commits(*numbers: int) -> Callable[[Place], object]:
    return lambda place: place.commit(*numbers)


def tag(name: str, age: int) -> Callable[[Place], object]:
    def create(place: Place) -> None:
        place.official().create_tag(name, list(place.official().ancestry(branch="main"))[age].id)

    return create


def settings(place: Place) -> None:
    """The last operation of a line is in no backup, so that another one follows."""
    place.official().update_metadata({"last": 1})


def recover(place: Place) -> list[str]:
    """The branches that repair made; everything is sound then."""
    before = {*place.official().list_branches()}
    code, document = place.run(*REPAIR)
    assert (code, document["left"]) == (0, []), document
    check_quiet(place)
    return sorted({*place.official().list_branches()} - before)


def check_quiet(place: Place) -> None:
    code, document = place.run("validate", "--level", "chunks", "--fail-on", "warning")
    assert code == 0, document["findings"]
    code, document = place.run(*REPAIR)
    assert (code, document["steps"], document["left"]) == (0, [], [])


def expire_all(place: Place) -> None:
    """All but the tips of refs."""
    repo = place.official()
    assert repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)


def delete_recovered(place: Place) -> None:
    for name in place.official().list_branches():
        if name.startswith("recovered-"):
            place.official().delete_branch(name)


def run(*words: str) -> Callable[[Place], object]:
    def act(place: Place) -> None:
        code, document = place.run(*words)
        assert code == 0, document

    return act


LATER: dict[str, tuple[Callable[[Place], object], ...]] = {
    "official expire": (expire_all,),
    "official expire and gc": (expire_all, lambda place: official_gc(place.where)),
    "expire": (run("expire", "--keep-last", "1", "--yes"),),
    "expire and gc": (run("expire", "--keep-last", "1", "--yes"), run(*GC)),
    "branch deleted": (delete_recovered,),
    "branch deleted and gc": (delete_recovered, run(*GC)),
    "all": (delete_recovered, expire_all, run(*GC), lambda place: official_gc(place.where)),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("updates_per_file", [3, 1000])
def test_a_recovered_line_is_never_reported_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], later: str, updates_per_file: int
) -> None:
    place = Place(tmp_path / "repo", capsys, num_updates_per_repo_info_file=updates_per_file)
    place.commit(*range(4))
    lose(place, commits(10, 11), tag("old", 4), tag("new", 0), settings)
    place.commit(20, 21)
    names = {name.rpartition("-")[0] for name in recover(place)}
    assert names in ({"recovered-main", "recovered-old"}, {"recovered-new", "recovered-old"})
    for step in LATER[later]:
        step(place)
        check_quiet(place)
    age_all(place.where, 30 * DAY)
    before = live(place.where)
    code, document = place.run(*GC)
    assert code == 0, document
    assert live(place.where) == before
    check_quiet(place)


def ids(place: Place) -> set[str]:
    return {one.id for one in place.official().ancestry(branch="main")}


UNRECOVERED: dict[str, tuple[Callable[[Place], object], ...]] = {
    "commits": (commits(10, 11, 12),),
    "only a tag of an old commit": (tag("old", 3), settings),
    "only a setting": (settings, settings),
}


@pytest.mark.parametrize("what", UNRECOVERED)
def test_an_unrecovered_line_keeps_what_it_needs(place: Place, what: str) -> None:
    """Whatever releases it, until it is recovered."""
    place.commit(*range(4))
    shared = ids(place)
    lose(place, *UNRECOVERED[what])
    place.commit(20, 21)
    place.official().create_branch(
        "by-chance", list(place.official().ancestry(branch="main"))[5].id
    )
    place.official().delete_branch("by-chance")
    expire_all(place)
    age_all(place.where, 30 * DAY)
    before = place.snapshot_files()
    place.check_refused(*GC)
    code, document = place.run("validate", "--level", "refs")
    assert code == 3 and [one["code"] for one in document["findings"]] == ["ICE0020"]
    assert recover(place)
    repo = place.official()
    reached = {one.id for name in repo.list_branches() for one in repo.ancestry(branch=name)}
    assert reached >= shared
    for step in LATER["all"]:
        step(place)
        check_quiet(place)
    assert place.snapshot_files() < before


def test_a_part_of_the_line_is_recovered(place: Place) -> None:
    """By hand: the rest of the line still protects all of it."""
    place.commit(*range(4))
    lost: list[str] = []

    def branch_off(place: Place) -> None:
        repo = place.official()
        repo.create_branch("side", repo.lookup_branch("main"))

    def keep(place: Place) -> None:
        lost.append(place.official().lookup_branch("main"))

    lose(place, commits(10), keep, branch_off, commits(11), settings)
    place.commit(20)
    code, document = place.run("branch", "create", "mine", lost[0], "--adopt")
    assert code == 0, document
    expire_all(place)
    place.check_refused(*GC)
    recover(place)
    assert place.run(*GC)[0] == 0


@pytest.mark.parametrize("continued", [False, True])
def test_each_of_several_lines_is_recovered(place: Place, continued: bool) -> None:
    """With its last commit, which no backup lists."""
    place.commit(*range(4))
    for number in (10, 20, 30):
        lose(place, commits(number, number + 1, number + 2))
    if continued:
        place.commit(40, 41)
    old = versions(official(place.where))
    recover(place)
    repo = place.official()
    messages = {
        tuple(one.message for one in list(repo.ancestry(branch=name))[:3])
        for name in repo.list_branches()
    }
    lines = {("12", "11", "10"), ("22", "21", "20"), ("32", "31", "30")}
    assert messages >= lines
    assert versions(official(place.where)).items() >= old.items()
    for step in LATER["all"]:
        step(place)
        check_quiet(place)


def test_a_line_that_left_a_lost_line(place: Place) -> None:
    """The second one begins in the middle of the first."""
    place.commit(*range(3))
    first = (place.where / "repo").read_bytes()
    place.commit(10)
    second = (place.where / "repo").read_bytes()
    place.commit(11, 12)
    (place.where / "repo").write_bytes(second)
    place.commit(21, 22)
    (place.where / "repo").write_bytes(first)
    place.commit(30, 31)
    recover(place)
    repo = place.official()
    tips = {next(repo.ancestry(branch=name)).message for name in repo.list_branches()}
    assert tips == {"12", "22", "31"}
    for step in LATER["all"]:
        step(place)
        check_quiet(place)


def lose_the_tip_of_another_branch(place: Place) -> set[str]:
    """A line whose last commit, which no backup lists, does not follow the others of the line."""
    place.commit(*range(3))
    repo = place.official()
    repo.create_branch("dev", list(repo.ancestry(branch="main"))[1].id)
    lost: set[str] = set()

    def commit_to_dev(place: Place) -> None:
        with commit(place.official(), "dev", branch="dev") as root:
            root.create_array("dev", shape=(4,), chunks=(2,), dtype="i8")[:] = 1

    def keep(place: Place) -> None:
        lost.update(place.official().lookup_branch(name) for name in ("main", "dev"))

    lose(place, commits(10), commit_to_dev, keep)
    place.commit(20)
    return lost


@pytest.mark.parametrize("num_steps", [1, 2])
def test_an_interrupted_repair_does_not_give_up_the_last_commit(
    place: Place, num_steps: int
) -> None:
    lost = lose_the_tip_of_another_branch(place)
    storage = LocalStorage(place.where)
    plan = plan_repair(storage, RepairOptions(), storage.read_clock())
    assert len(plan.chosen) == 2
    for step in plan.chosen[:num_steps]:
        step.apply(storage)
    age_all(place.where, 30 * DAY)
    place.run(*GC)
    assert place.snapshot_files() >= lost
    recover(place)
    repo = place.official()
    assert {repo.lookup_branch(name) for name in repo.list_branches()} >= lost


@pytest.mark.parametrize("later", [(), ("expire", "--keep-last", "1", "--yes")])
@pytest.mark.parametrize("others", [0, 1])
def test_an_undone_recovery_protects_the_line_again(
    place: Place, later: tuple[str, ...], others: int
) -> None:
    place.commit(*range(4))
    lost: set[str] = set()
    lose(place, commits(10, 11), lambda place: lost.update(ids(place)), settings)
    place.commit(20)
    recover(place)
    place.commit(*range(30, 30 + others))
    code, document = place.run("undo", f"@{others}", "--yes")
    assert code == 0 and document["removed_snapshots"], document
    place.commit(40)
    if later:
        assert place.run(*later)[0] == 0
    age_all(place.where, 30 * DAY)
    place.check_refused(*GC)
    code, document = place.run("validate", "--level", "refs")
    assert code == 3 and [one["code"] for one in document["findings"]] == ["ICE0020"]
    assert recover(place)
    assert place.run(*GC)[0] == 0
    assert place.snapshot_files() >= lost
    for step in LATER["all"]:
        step(place)
        check_quiet(place)


def test_an_undone_recovery_of_a_tagged_commit_protects_it_again(place: Place) -> None:
    """The commit had expired since the fork, so that its recovery put it back on the list."""
    place.commit(*range(4))
    tagged = list(place.official().ancestry(branch="main"))[2].id
    lose(place, tag("old", 2), settings)
    place.commit(20)
    expire_all(place)
    before = len(place.info().latest_updates)
    recover(place)
    code, document = place.run(
        "restore", "--to", f"@{len(place.info().latest_updates) - before}", "--yes"
    )
    assert code == 0 and tagged in document["removed_snapshots"], document
    age_all(place.where, 30 * DAY)
    place.check_refused(*GC)
    assert recover(place)
    assert place.run(*GC)[0] == 0
    assert tagged in place.snapshot_files()


def test_a_restored_state_before_the_recovery_protects_the_line_again(place: Place) -> None:
    """Though the recovered branch was not needed any more, as main led to its commits."""
    place.commit(*range(4))
    lost: set[str] = set()
    lose(place, commits(10, 11), lambda place: lost.update(ids(place)), settings)
    place.commit(20)
    before = len(place.info().latest_updates)
    (name,) = recover(place)
    repo = place.official()
    repo.reset_branch("main", repo.lookup_branch(name))
    repo.delete_branch(name)
    code, document = place.run(
        "restore", "--to", f"@{len(place.info().latest_updates) - before}", "--yes"
    )
    assert code == 0 and document["removed_snapshots"], document
    age_all(place.where, 30 * DAY)
    place.check_refused(*GC)
    assert recover(place)
    assert place.run(*GC)[0] == 0
    assert place.snapshot_files() >= lost
