"""Random operations, undone and restored in random order.

After each undo: the last operation leaves no trace but the log; `validate` finds nothing; gc keeps
what refs lead to and is never refused; and the official package reads everything and goes on.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from icectl.format.repo import decode_repo
from icectl.model.repo import Availability, RepoInfo
from tests.gc.place import Place
from tests.gc.repositories import live
from tests.official import ic, open_official, read_everything
from tests.official.histories import CONCURRENT_V2, STEPS_V2, RandomHistory, commit
from tests.repetition import repeated
from tests.undo.operations import check_usable, expire, save_config
from tests.undo.states import official_state, own_state

OFFICIAL = STEPS_V2 | CONCURRENT_V2 | {"metadata": 1, "flag": 1, "config": 1}
OURS = {"undo_last": 8, "undo_any": 8, "restore": 5, "our_expire": 2, "our_gc": 2}
WEIGHTS = OFFICIAL | OURS
CONFLICT, REFUSED = 11, 16


class UndoWalk(RandomHistory):
    def __init__(self, place: Place, seed: int) -> None:
        super().__init__(place.official(), seed)
        self.place = place
        self.undone = 0

    def take(self, steps: int) -> None:
        self.step_commit()
        for _ in range(steps):
            self.go_online()
            self.repo = open_official(self.place.where)
            (kind,) = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            getattr(self, f"step_{kind}")()
            self.check()

    def go_online(self) -> None:
        if self.place.info().status.availability != Availability.ONLINE:
            assert self.run("status", "set", "online")[0] == 0

    def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        code, document = self.place.run(*words)
        self.note("icectl", words=words, code=code, error=document.get("error"))
        return code, document

    def check(self) -> None:
        code, document = self.run("validate", "--level", "chunks", "--fail-on", "warning")
        assert code == 0, document["findings"]
        content = read_everything(open_official(self.place.where))["snapshots"]
        assert not any(v.startswith("!") for one in content.values() for v in one.values())

    def step_undo_last(self) -> None:
        self.undo(0)

    def step_undo_any(self) -> None:
        self.undo(self.random.randrange(8))

    def undo(self, number: int) -> None:
        updates = self.run("ops-log")[1]["updates"]
        if number >= len(updates):
            return
        info = self.place.info()
        code, document = self.run("undo", f"@{number}", "--yes", "--undelete-tag")
        assert code in (0, CONFLICT, REFUSED, 12), document
        if code:
            assert self.place.info() == info
        if code == 12:
            assert not updates[number]["undoable"]
        if number == 0 and updates[0]["undoable"] and not document.get("missing"):
            # Nothing came later, so that nothing is in the way.
            assert code == 0, document
            before = next(one for one in updates[1:] if one["backup_path"] is not None)
            self.check_state(self.state_of(before), document)
        self.undone += code == 0
        self.after_change()

    def step_restore(self) -> None:
        updates = self.run("ops-log")[1]["updates"]
        number = self.random.randrange(min(12, len(updates)))
        target = self.state_of(updates[number])
        words = ["restore", "--to", f"@{number}", "--yes", "--undelete-tag"]
        if self.random.random() < 0.3:
            words += [
                "--only",
                self.random.choice(["branch:main", "history", "metadata", "config"]),
            ]
        code, document = self.run(*words)
        assert code in (0, REFUSED, 12) or (code == CONFLICT and "--only" in words), document
        if code == 0 and "--only" not in words:
            self.check_state(target, document)
            self.undone += 1
        self.after_change()

    def state_of(self, update: dict[str, Any]) -> RepoInfo:
        """The state after an operation, as its writer copied it."""
        name = update["backup_path"]
        path = self.place.where / (f"overwritten/{name}" if name else "repo")
        return decode_repo(path.read_bytes())

    def check_state(self, expected: RepoInfo, document: dict[str, Any]) -> None:
        """As it was, but for names of tags, and unreachable snapshots that gc took."""
        left_out = {*document["left_out_snapshots"]}
        found, was = own_state(self.place.info()), own_state(expected)
        burnt = {*found.deleted_tags}
        assert burnt >= {*was.deleted_tags} - {ref.name for ref in was.tags}
        ids = {str(one.id) for one in found.snapshots}
        if left_out:
            was = replace(was, snapshots=tuple(one for one in was.snapshots if str(one.id) in ids))
        assert replace(found, deleted_tags=()) == replace(was, deleted_tags=())

    def after_change(self) -> None:
        if self.random.random() < 0.4:
            self.check()
        if self.random.random() < 0.15:
            self.step_our_gc()

    def step_our_expire(self) -> None:
        words = ["expire", "--yes", "--keep-last", str(self.random.randint(1, 4))]
        for option in ("--delete-expired-branches", "--delete-expired-tags"):
            words += [option] if self.random.random() < 0.2 else []
        code, document = self.run(*words)
        assert code == 0, document

    def step_our_gc(self) -> None:
        self.go_online()
        before = live(self.place.where)
        code, document = self.run("gc", "--older-than", "0s", "--allow-recent", "--yes")
        assert code == 0, document
        assert live(self.place.where) == before

    def step_metadata(self) -> None:
        self.repo.update_metadata({self.random.choice("abc"): self.random.randint(0, 9)})

    def step_flag(self) -> None:
        self.repo.set_feature_flag("move_node", self.random.choice([True, None]))

    def step_config(self) -> None:
        config = self.repo.config
        config.inline_chunk_threshold_bytes = self.random.choice([0, 64, 512])
        config.num_updates_per_repo_info_file = self.random.choice([10, 1000])
        self.repo = self.repo.reopen(config=config)
        self.repo.save_config()


def touch_branch(place: Place, number: int) -> None:
    repo = place.official()
    repo.create_branch(f"b{number}", list(repo.ancestry(branch="main"))[1].id)


def commit_on_branch(place: Place, number: int, *, amend: bool = False) -> None:
    with commit(place.official(), f"{number}", branch=f"old{number}", amend=amend) as root:
        root.attrs["number"] = number


EACH: dict[str, Callable[[Place, int], object]] = {
    "commit": commit_on_branch,
    "amend": partial(commit_on_branch, amend=True),
    "branch created": touch_branch,
    "branch deleted": lambda place, number: place.official().delete_branch(f"old{number}"),
    "branch reset": lambda place, number: place.official().reset_branch(
        f"old{number}", place.official().lookup_branch("main")
    ),
    "tag created": lambda place, number: place.official().create_tag(
        f"t{number}", place.official().lookup_branch("main")
    ),
    "config": lambda place, number: save_config(place),
    "metadata": lambda place, number: place.official().update_metadata({f"k{number}": number}),
    "flags": lambda place, number: place.official().set_feature_flag("move_node", False),
    "status": lambda place, number: place.run("status", "set", "read-only"),
    "expiration": lambda place, number: expire(place),
}
"""One operation of each kind, on a ref or a key of its own."""


def undo_each_in_any_order(place: Place, seed: int) -> None:
    """Each is undone where it is in the log by then; the state is that before all of them."""
    chance = random.Random(seed)
    place.commit(*range(4))
    repo = place.official()
    for number in range(len(EACH)):
        repo.create_branch(f"old{number}", list(repo.ancestry(branch="main"))[1].id)
        commit_on_branch(place, number)
    before = official_state(place.where)
    # Nobody else writes to a repository that is read-only.
    kinds = [*chance.sample(sorted(EACH.keys() - {"status"}), len(EACH) - 1), "status"]
    made: list[tuple[str, int]] = []
    for number, kind in enumerate(kinds):
        known = newest(place)
        EACH[kind](place, number)
        assert newest(place) != known, kind
        made.append((kind, newest(place)))
    chance.shuffle(made)
    for kind, time in made:
        updates = place.run("ops-log")[1]["updates"]
        number = next(n for n, one in enumerate(updates) if time_of(one) == time)
        code, document = place.run("undo", f"@{number}", "--yes", "--while-read-only")
        assert code == 0, (kind, made, document)
        assert document["missing"] == []
    after = official_state(place.where)
    burnt = {*after.pop("deleted_tags")} - {*before.pop("deleted_tags")}
    assert burnt == {f"t{kinds.index('tag created')}"}
    assert after == before, made
    check_usable(place)


def newest(place: Place) -> int:
    return place.info().latest_updates[0].updated_at


def time_of(update: dict[str, Any]) -> int:
    moment = datetime.fromisoformat(update["updated_at"])
    return round((moment - datetime.fromtimestamp(0, UTC)) / timedelta(microseconds=1))


@pytest.mark.parametrize("seed", range(3))
def test_any_order(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    undo_each_in_any_order(Place(tmp_path / "repo", capsys), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_any_order_at_length(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    undo_each_in_any_order(Place(tmp_path / "repo", capsys), seed)


def walk(place: Place, seed: int, steps: int) -> None:
    walking = UndoWalk(place, seed)
    try:
        walking.take(steps)
    except ic.IcechunkError as error:
        if "conflict" not in str(error).lower():
            raise
    except Exception as error:
        log = "\n".join(json.dumps(step, default=str) for step in walking.log)
        error.add_note(f"seed {seed}:\n{log}")
        raise
    assert walking.undone


@pytest.mark.parametrize("seed", repeated(range(5), range(5, 10)))
def test_random_undo(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    walk(Place(tmp_path / "repo", capsys), seed, 40)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_undos(tmp_path: Path, capsys: pytest.CaptureFixture[str], part: int) -> None:
    count = int(os.environ.get("ICECTL_RANDOM_WALKS", "80"))
    for seed in range(1000, 1000 + count)[part::4]:
        walk(Place(tmp_path / str(seed), capsys), seed, 60)
