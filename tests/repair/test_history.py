"""Unreadable snapshots and lost logs anywhere in a history."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.format.transaction_log import decode_transaction_log
from icectl.model.ids import INITIAL_SNAPSHOT_ID
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.official import ic, linear_history, open_official
from tests.official.histories import commit
from tests.repair.helpers import (
    LOSSY,
    check_survivors,
    commits_work,
    content,
    findings,
    official,
    repair,
    versions,
)
from tests.repetition import repeated
from tests.validate.damage import Patient, copied_with_source

HURT: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "foreign": lambda path: path.write_bytes(
        (path.parent / min(one.name for one in path.parent.iterdir() if one != path)).read_bytes()
    ),
}


@pytest.mark.parametrize("hurt", HURT)
@pytest.mark.parametrize("age", repeated([0, 1, 4], [2, 3]))
def test_an_unreadable_snapshot_of_any_age(
    hurt: str, age: int, whole: Path, tmp_path: Path
) -> None:
    """The whole repository has 5 snapshots on main; tags and dev point at the second newest."""
    where = copied_with_source(whole, tmp_path / "repo")
    before = versions(official(where))
    patient = Patient(where)
    lost = patient.history[age]
    HURT[hurt](where / "snapshots" / lost)
    plan = repair(where, LOSSY, dry_run=True)
    done = repair(where, LOSSY)
    assert (plan.left, done.left, findings(where)) == ((), (), [])
    after = check_survivors(before, where, done)
    assert before.keys() - after == ({lost} if lost != str(INITIAL_SNAPSHOT_ID) else set())
    commits_work(where)
    assert findings(where) == []


@pytest.mark.parametrize("number", repeated([1, 2, 6, 8, 13, 15], [3, 4, 5, 7, 9, 10, 11, 12, 14]))
def test_several_unreadable_snapshots_and_logs(number: int, whole: Path, tmp_path: Path) -> None:
    """Of each of the newest four, the snapshot or only the log is lost."""
    where = copied_with_source(whole, tmp_path / "repo")
    before = versions(official(where))
    history = Patient(where).history[:4]
    for place, snapshot_id in enumerate(history):
        (where / "transactions" / snapshot_id).unlink()
        if number >> place & 1:
            (where / "snapshots" / snapshot_id).write_bytes(b"")
    done = repair(where, LOSSY)
    assert done.left == (), done.left
    assert findings(where) == []
    check_survivors(before, where, done)
    commits_work(where)


def test_tags_stay_unless_they_are_named(whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    lost = Patient(where).history[1]
    (where / "snapshots" / lost).unlink()
    done = repair(where)
    steps = [(step.action, step.object, step.done) for step in done.steps]
    assert steps == [
        ("reset_branch", "branch:dev", True),
        ("delete_tag", "tag:kept", False),
        ("delete_tag", "tag:other", False),
    ]
    assert [one.code for one in done.left] == ["ICE0101"]
    assert official(where).list_tags() == {"kept", "other"}


def logs(where: Path) -> dict[str, Any]:
    found = {
        path.name: decode_transaction_log(path.read_bytes())
        for path in (where / "transactions").iterdir()
    }
    # Spec version 1 has no moves; some writers list none, and some have no list.
    return {id_: replace(log, moved_nodes=log.moved_nodes or ()) for id_, log in found.items()}


def rich_history(where: Path, spec_version: int) -> None:
    """Every kind of change, in commits that a log has to explain."""
    repo = linear_history(where, 1, spec_version)
    with commit(repo, "arrays") as root:
        for name in ("one", "two"):
            root.create_array(f"g/{name}", shape=(8, 8), chunks=(2, 4), dtype="i4")[...] = 1
        root.create_array("small", shape=(4,), chunks=(1,), dtype="i1")[:] = 2
        root.create_array("scalar", shape=(), dtype="i4")[...] = 2
    with commit(repo, "chunks and attributes") as root:
        root["g/one"][2:4] = 7
        root["g"].attrs["x"] = 1
        root["g/two"].attrs["x"] = 1
        root["scalar"][...] = 3
    with commit(repo, "resize") as root:
        root["g/one"].resize((4, 8))
        root["g/two"].resize((12, 8))
        root["g/two"][8:] = 9
    with commit(repo, "delete and create again") as root:
        del root["small"]
        root.create_array("small", shape=(4,), chunks=(1,), dtype="i1")[:] = 5
        del root["g/one"]
        root.create_group("h")
    if spec_version == 2:
        session = repo.rearrange_session("main")
        session.move("/g", "/moved")
        session.commit("moved")
    with commit(repo, "last") as root:
        root["small"][1:3] = 8


@pytest.mark.parametrize("spec_version", [1, 2])
def test_rebuilt_logs_are_those_that_were_lost(spec_version: int, tmp_path: Path) -> None:
    where = tmp_path / "repo"
    rich_history(where, spec_version)
    before, original = versions(official(where)), logs(where)
    for path in (where / "transactions").iterdir():
        path.unlink()
    done = repair(where)
    assert done.left == ()
    assert {step.action for step in done.steps} == {"rebuild_transaction_log"}
    rebuilt = logs(where)
    original.pop(str(INITIAL_SNAPSHOT_ID), None)
    assert rebuilt == dict(original.items())
    assert findings(where) == []
    assert versions(official(where)) == before
    commits_work(where)


def test_a_log_of_released_commits(tmp_path: Path) -> None:
    """After an expiration, the logs of released snapshots explain a child on its new parent."""
    where = tmp_path / "repo"
    rich_history(where, 2)
    import datetime

    repo = official(where)
    history = list(repo.ancestry(branch="main"))
    cutoff = history[1].written_at + datetime.timedelta(microseconds=1)
    repo.expire_snapshots(cutoff)
    repo.garbage_collect(cutoff)
    before = versions(official(where))
    info = open_repository(LocalStorage(where)).info
    assert info is not None
    pruned = max((one.pruned_ancestor_tx_logs or () for one in info.snapshots), key=len)
    assert len(pruned) > 3
    for count in range(1, len(pruned) + 1):
        for lost in itertools.islice(itertools.combinations(pruned, count), 4):
            kept = {id_: (where / "transactions" / str(id_)).read_bytes() for id_ in lost}
            for id_ in lost:
                (where / "transactions" / str(id_)).unlink()
            done = repair(where)
            assert done.left == (), (done.left, lost)
            assert versions(official(where)) == before
            for id_, data in kept.items():
                (where / "transactions" / str(id_)).write_bytes(data)


@pytest.mark.parametrize("hurt", HURT)
def test_a_lost_tip_of_v1(hurt: str, tmp_path: Path) -> None:
    where = tmp_path / "repo"
    repo = linear_history(where, 4, 1)
    history = [one.id for one in repo.ancestry(branch="main")]
    before = versions(official(where))
    HURT[hurt](where / "snapshots" / history[0])
    done = repair(where)
    assert [(step.action, step.done) for step in done.steps] == [("reset_branch", True)]
    assert done.left == ()
    assert open_official(where).lookup_branch("main") == history[1]
    check_survivors(before, where, done)
    commits_work(where)
    assert findings(where) == []


def test_a_lost_tip_of_v1_whose_parent_is_unknown(whole_v1: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole_v1, tmp_path / "repo")
    tip = Patient(where).tip
    (where / "snapshots" / tip).unlink()
    before = content(where)
    done = repair(where, LOSSY)
    assert done.steps == ()
    assert any("spec version 1" in note for note in done.notes)
    assert [one.code for one in done.left] == ["ICE0101"]
    assert content(where) == before


def test_the_middle_of_a_v1_history(tmp_path: Path) -> None:
    where = tmp_path / "repo"
    repo = linear_history(where, 4, 1)
    history = [one.id for one in repo.ancestry(branch="main")]
    (where / "snapshots" / history[2]).unlink()
    before = content(where)
    done = repair(where, LOSSY)
    assert done.steps == ()
    assert any("spec version 1" in note for note in done.notes)
    assert content(where) == before
    assert ic is not None
