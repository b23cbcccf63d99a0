"""Random operations of the official package and of icectl on one repository, and accidents.

Three promises hold after each step of a random walk:

- Nothing is lost: icectl deletes no snapshot that a backup outside the current line of history
  lists, unless the operator gives that history up (`gc --abandon-history`).
- Nothing healthy is refused or blamed: every command succeeds, and `validate --fail-on warning`
  passes, whatever the official package wrote and whichever backups a lifecycle rule removed.
- The official package goes on: it opens the repository, reads every ref, commits, and its gc
  deletes what icectl's gc deletes.

A walk that fails prints its seed and its steps. The slow test takes `ICECTL_RANDOM_WALKS` walks,
from the seed `ICECTL_RANDOM_SEED` on.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.format.repo import decode_repo
from icectl.model.repo import Availability, RepoInfo
from icectl.repository.backups import made_at
from tests.gc.repositories import files, live, now, official_gc
from tests.official import copied, ic, official_report, open_official, read_everything
from tests.official.histories import (
    CONCURRENT_V1,
    CONCURRENT_V2,
    STEPS_V1,
    STEPS_V2,
    RandomHistory,
    commit,
    create,
)

OFFICIAL_V1 = STEPS_V1 | CONCURRENT_V1 | {"config": 1}
OFFICIAL_V2 = STEPS_V2 | CONCURRENT_V2 | {"config": 1, "metadata": 1, "flag": 1}
OURS_V1 = {"our_gc": 5, "our_expire": 2, "our_ref": 3, "our_config": 1}
OURS_V2 = OURS_V1 | {"our_metadata": 1, "our_status": 1, "our_flag": 1}
ACCIDENTS = {"put_back": 3, "clear_backups": 3}
WEIGHTS = {1: OFFICIAL_V1 | OURS_V1 | {"migrate": 3}, 2: OFFICIAL_V2 | OURS_V2 | ACCIDENTS}

DAMAGED = 13
BACKUP = re.compile(r"overwritten/(repo\.[0-9]+\.[0-9A-Z]+)")
READ_ONLY = ("status", "set", "read-only", "--reason", "for a moment")
ACCEPT = ("status", "set", "online", "--accept-older-repo")
PUT_BACK = "ICE0020"
READS = (
    ("log",),
    ("show", "main"),
    ("ls", "main"),
    ("branch", "list"),
    ("tag", "list"),
    ("stats",),
    ("config", "get"),
    ("doctor", "--read-only"),
)
READS_V2 = (("ops-log",), ("status",), ("metadata", "get"), ("flags", "list"))

Icectl = Callable[..., tuple[int, str, str]]


@pytest.fixture
def icectl(capsys: pytest.CaptureFixture[str]) -> Icectl:
    def call(*words: str) -> tuple[int, str, str]:
        code = run(list(words), {})
        out, err = capsys.readouterr()
        return code, out, err

    return call


class FaultyRepositoryError(Exception):
    """The official package wrote what its own readers cannot find; the walk ends there."""


class RandomWalk(RandomHistory):
    """Steps of the official package, steps of icectl, and accidents."""

    def __init__(self, where: Path, seed: int, spec_version: int, icectl: Icectl) -> None:
        super().__init__(create(where, spec_version), seed)
        self.where = where
        self.icectl = icectl
        self.parents: dict[int, int | None] = {}
        """Each operation that ever was in the ops log, by its time, and the one before it."""
        self.states: dict[int, bytes] = {}
        """The repo file after each step, by the time of its newest operation."""
        self.observe()

    def take(self, steps: int) -> None:
        self.step_commit()
        self.observe()
        for _ in range(steps):
            self.repo = open_official(self.where)
            weights = WEIGHTS[int(self.repo.spec_version)]
            (kind,) = self.random.choices(list(weights), list(weights.values()))
            getattr(self, f"step_{kind}")()
            self.observe()
            self.look_for_faults()
            if kind in {*ACCIDENTS, *OURS_V2} or self.random.random() < 0.2:
                self.check_validate()
        self.check_validate()
        self.check_reads()

    # The history of the repo file. Whoever has seen all of it knows what a backup belongs to.

    def repo_file(self) -> RepoInfo | None:
        path = self.where / "repo"
        return decode_repo(path.read_bytes()) if path.exists() else None

    def observe(self) -> None:
        info = self.repo_file()
        if info is None:
            return
        times = [update.updated_at for update in info.latest_updates]
        for time, before in zip(times, [*times[1:], None], strict=True):
            if self.parents.get(time) is None:
                self.parents[time] = before
        self.states[times[0]] = (self.where / "repo").read_bytes()

    def line(self, at: int | None) -> set[int]:
        """The operations up to this one."""
        line: set[int] = set()
        while at is not None:
            line.add(at)
            at = self.parents.get(at)
        return line

    def current_line(self) -> set[int]:
        info = self.repo_file()
        return self.line(newest(info) if info else None)

    def backups(self) -> dict[Path, RepoInfo]:
        """From the oldest state to the newest."""
        found = {
            path: decode_repo(path.read_bytes())
            for path in (self.where / "overwritten").glob("repo.*")
        }
        return dict(sorted(found.items(), key=lambda item: newest(item[1])))

    def lost_history(self) -> dict[Path, RepoInfo]:
        """The backups outside the current line of history."""
        line = self.current_line()
        return {path: info for path, info in self.backups().items() if newest(info) not in line}

    def protected(self, lost: Iterable[RepoInfo]) -> set[str]:
        """The snapshots that these backups list, as far as they are there."""
        listed = {f"snapshots/{one.id}" for info in lost for one in info.snapshots}
        return listed & files(self.where)

    def is_older_than(self, lost: Iterable[RepoInfo]) -> bool:
        info = self.repo_file()
        return info is not None and any(newest(info) < newest(backup) for backup in lost)

    # The checks.

    def expect(self, holds: bool, problem: str, **facts: Any) -> None:
        assert holds, f"{problem}: {facts}"

    def run_ours(self, *words: str) -> None:
        """A command that writes, with the word of the operator where it is needed."""
        code, _ = self.run_guarded(words)
        if code == DAMAGED:
            older = self.is_older_than(self.lost_history().values())
            self.expect(older, "refused without a reason", words=words)
            if self.random.random() < 0.5:
                return
            self.succeed(*ACCEPT)
            self.succeed(*words)
        if words[:3] == READ_ONLY[:3]:
            self.succeed("status", "set", "online")
        self.check_official_goes_on()

    def succeed(self, *words: str) -> None:
        code, err = self.run_guarded(words)
        self.expect(code == 0, "refused", words=words, code=code, err=err)

    def run_guarded(self, words: Sequence[str], abandoned: Collection[str] = ()) -> tuple[int, str]:
        """Run a command; whatever it does, nothing of a lost history may go but what the
        operator gave up."""
        lost = self.lost_history()
        given_up = {
            time
            for path, info in lost.items()
            if path.name in abandoned
            for time in self.line(newest(info))
        }
        kept = {path: info for path, info in lost.items() if newest(info) not in given_up}
        protected, before = self.protected(kept.values()), files(self.where)
        command = [*words, *(f"--abandon-history={name}" for name in abandoned)]
        code, out, err = self.icectl(*command, "-r", str(self.where), "--json")
        self.note("icectl", words=command, code=code, lost_backups=len(lost))
        after = files(self.where)
        gone = protected - after
        self.expect(not gone, "lost history", words=command, gone=gone)
        self.check_lost_backups(kept)
        allowed = {0, DAMAGED} if lost else {0}
        self.expect(code in allowed, "refused", words=command, code=code, out=out, err=err)
        if code:
            self.expect(after == before, "refused and deleted", words=command, gone=before - after)
        else:  # nobody puts back what was given up
            for time in given_up - self.current_line():
                self.states.pop(time, None)
        self.observe()
        return code, err

    def check_lost_backups(self, lost: dict[Path, RepoInfo]) -> None:
        """A backup goes only where it lists nothing that the repository does not list itself."""
        alone = {
            path: self.protected([info]) - self.listed()
            for path, info in lost.items()
            if not path.exists()
        }
        self.expect(not any(alone.values()), "lost backups", alone=alone)

    def listed(self) -> set[str]:
        info = self.repo_file()
        return {f"snapshots/{one.id}" for one in info.snapshots} if info else set()

    def reachable(self) -> set[str]:
        return {f"snapshots/{id_}" for id_ in live(self.where)["snapshots"]}

    def check_official_goes_on(self) -> None:
        self.repo = open_official(self.where)
        unreadable = [
            (snapshot, key, value)
            for snapshot, content in live(self.where)["snapshots"].items()
            for key, value in content.items()
            if value.startswith("!")
        ]
        self.expect(not unreadable, "unreadable", unreadable=unreadable)
        with commit(self.repo, self.fresh_name("afterwards ")) as root:
            root.attrs["afterwards"] = self.counter
        self.observe()

    def check_validate(self) -> None:
        code, out, err = self.icectl(
            "validate", "--level", "chunks", "--fail-on", "warning", "--json", "-r", str(self.where)
        )
        self.expect(code in (0, 3), "validate failed", code=code, err=err)
        findings = [
            (one["code"], one["severity"], one["object"], one["detail"])
            for one in json.loads(out)["findings"]
            if one["severity"] != "info"
        ]
        lost = self.lost_history().values()
        if self.protected(lost) - self.reachable() or self.is_older_than(lost):
            self.expect([one[0] for one in findings] == [PUT_BACK], "not found", findings=findings)
        else:
            self.expect(not findings, "blamed", findings=findings)

    def check_reads(self) -> None:
        for words in READS if self.repo.spec_version == 1 else READS + READS_V2:
            code, out, err = self.icectl(*words, "-r", str(self.where))
            if words[0] == "doctor" and self.is_older_than(self.lost_history().values()):
                continue  # it reports that
            self.expect(code == 0, "refused", words=words, code=code, out=out, err=err)

    def look_for_faults(self) -> None:
        """Two rebased sessions that recreate one array leave two nodes with one path (ICE0107)."""
        self.repo = open_official(self.where)
        for branch in sorted(self.repo.list_branches()):
            nodes = self.repo.inspect_snapshot(self.repo.lookup_branch(branch))["nodes"]
            paths = [node["path"] for node in nodes]
            if len(set(paths)) < len(paths):
                raise FaultyRepositoryError

    # More steps of the official package.

    def step_config(self) -> None:
        config = self.repo.config
        config.inline_chunk_threshold_bytes = self.random.choice([0, 64, 512])
        # Never so few that an operation is gone from the file before it is observed.
        config.num_updates_per_repo_info_file = self.random.choice([10, 20, 1000])
        self.repo = self.repo.reopen(config=config)
        self.repo.save_config()
        self.note("config", updates=config.num_updates_per_repo_info_file)

    def step_metadata(self) -> None:
        self.repo.update_metadata({self.fresh_name("key "): [self.counter, None, {"x": 1.5}]})
        self.note("metadata")

    def step_flag(self) -> None:
        self.repo.set_feature_flag("move_node", False)
        self.repo.set_feature_flag("move_node", self.random.choice([True, None]))
        self.note("flag")

    def step_migrate(self) -> None:
        self.repo = ic.upgrade_icechunk_repository(self.repo, dry_run=False)
        self.note("migrate")

    # The steps of icectl.

    def step_our_gc(self) -> None:
        cutoff, in_between = now(), self.random.random() < 0.3
        if in_between:
            snapshots = (self.where / "snapshots").iterdir()
            times = sorted(path.stat().st_mtime_ns // 1000 for path in snapshots)
            cutoff = self.random.choice(times)
        words = ["gc", "--older-than", as_text(cutoff), "--allow-recent", "--yes"]
        if self.repo.spec_version >= 2 and self.random.random() < 0.3:
            words += ["--overwritten-older-than", as_text(cutoff)]
            words += self.random.choice([[], ["--truncate-ops-log"]])
        lost, before = self.lost_history(), live(self.where)
        theirs = copied(self.where, self.where.with_name("theirs"))
        official_gc(theirs, cutoff)
        expected = files(theirs)
        shutil.rmtree(theirs)

        protected = self.protected(lost.values()) - self.reachable()
        alone, there = protected - self.listed(), files(self.where)
        code, err = self.run_guarded(words)
        # Young snapshots stay, but not what they need of older manifests and chunks.
        self.expect(not alone or files(self.where) == there, "lost history", alone=alone)
        if code == DAMAGED:
            older = self.is_older_than(lost.values())
            self.expect(bool(protected) or older, "refused without a reason", words=words, err=err)
            if self.random.random() < 0.5:
                return
            self.give_up(words, err)
        ours = files(self.where)
        self.expect(not expected - ours, "deleted too much", gone=expected - ours)
        # A kept child of a dropped snapshot needs its parent's log from now on: ours keeps it.
        extra = {path for path in ours - expected if not (in_between and path[0] == "t")}
        self.expect(not extra, "deleted too little", left=extra)
        self.expect(live(self.where) == before, "gc changed what refs lead to")
        self.check_official_goes_on()

    def give_up(self, words: Sequence[str], err: str) -> None:
        """Follow the hints, as an operator does who wants none of the lost lines back."""
        code, abandoned = DAMAGED, list[str]()
        while code == DAMAGED:
            error = json.loads(err)["error"]
            is_older = ACCEPT[-1] in error["hint"]
            if is_older:
                self.expect(self.is_older_than(self.lost_history().values()), "not older", err=err)
            if is_older and self.random.random() < 0.5:
                self.succeed(*ACCEPT)
            else:
                found = BACKUP.search(error["message"])
                assert found and found[1] not in abandoned, err
                abandoned.append(found[1])
            code, err = self.run_guarded(words, abandoned)

    def step_our_expire(self) -> None:
        words = ["expire", "--yes"]
        rules = self.random.choice([("older",), ("last",), ("older", "last")])
        if "older" in rules:
            cutoff = self.pick_snapshot(self.pick_branch()).written_at
            words += ["--older-than", cutoff.isoformat()]
        if "last" in rules:
            words += ["--keep-last", str(self.random.randint(1, 4))]
        for option in ("--delete-expired-branches", "--delete-expired-tags"):
            words += [option] if self.random.random() < 0.2 else []
        self.run_ours(*words)

    def step_our_ref(self) -> None:
        target = self.pick_snapshot(self.pick_branch()).id
        choices = [
            ("branch", "create", self.fresh_name("branch"), target),
            ("tag", "create", self.fresh_name("tag"), target),
            ("branch", "reset", self.pick_branch(), target),
        ]
        if branches := sorted(self.repo.list_branches() - {"main"}):
            choices.append(("branch", "delete", self.random.choice(branches)))
        if tags := sorted(self.repo.list_tags()):
            choices.append(("tag", "delete", self.random.choice(tags)))
        self.run_ours(*self.random.choice(choices))

    def step_our_config(self) -> None:
        key = self.random.choice(["inline_chunk_threshold_bytes", "num_updates_per_repo_info_file"])
        value = self.random.choice(["10", "100", "null"])
        self.run_ours("config", "set", key, value)

    def step_our_metadata(self) -> None:
        words = ("metadata", "set", "key", str(self.random.randint(0, 99)))
        self.run_ours(*words)

    def step_our_status(self) -> None:
        self.run_ours(*READ_ONLY)

    def step_our_flag(self) -> None:
        words = ("flags", "set", "create_tag", self.random.choice(["on", "default"]))
        self.run_ours(*words)

    # Accidents.

    def step_put_back(self) -> None:
        """An older repo file, from a backup or from a copy that somebody kept."""
        info = self.repo_file()
        assert info is not None
        backups = {newest(info): path.read_bytes() for path, info in self.backups().items()}
        choices = self.states | backups
        del choices[newest(info)]
        times = sorted(choices)
        if not times:
            return
        time = self.random.choice(times)
        if self.can_be_put_back(choices[time]):
            (self.where / "repo").write_bytes(choices[time])
            self.note("put_back", number=times.index(time), of=len(times), backup=time in backups)

    def can_be_put_back(self, data: bytes) -> bool:
        """Whether everything that this repo file leads to is still there."""
        info = decode_repo(data)
        if info.status.availability != Availability.ONLINE or info.disabled_feature_flags:
            return False  # for a moment; later steps could not go on
        other = copied(self.where, self.where.with_name("other"))
        (other / "repo").write_bytes(data)
        try:
            official_report(other)
            snapshots = read_everything(open_official(other))["snapshots"]
            return not any(v.startswith("!") for one in snapshots.values() for v in one.values())
        except ic.IcechunkError:
            return False
        finally:
            shutil.rmtree(other)

    def step_clear_backups(self) -> None:
        """As a lifecycle rule does it: the oldest go, or all of them."""
        backups = sorted(self.backups(), key=lambda path: made_at(path.name) or 0)
        count = self.random.choice([len(backups), self.random.randint(0, len(backups))])
        for path in backups[:count]:
            path.unlink()
        self.note("clear_backups", number=count, of=len(backups))


def newest(info: RepoInfo) -> int:
    return info.latest_updates[0].updated_at


def as_text(time: int) -> str:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (epoch + datetime.timedelta(microseconds=time)).isoformat()


def walk(where: Path, seed: int, spec_version: int, icectl: Icectl, steps: int = 30) -> None:
    history = RandomWalk(where, seed, spec_version, icectl)
    try:
        history.take(steps)
    except FaultyRepositoryError:
        pass
    except Exception as error:
        log = "\n".join(json.dumps(step, default=str) for step in history.log)
        error.add_note(f"seed {seed}, spec version {spec_version}:\n{log}")
        raise


@pytest.mark.parametrize(
    "seed",
    [seed if seed < 10 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(20)],
)
@pytest.mark.parametrize("spec_version", [1, 2])
def test_random_operations(tmp_path: Path, icectl: Icectl, spec_version: int, seed: int) -> None:
    walk(tmp_path / "repo", seed, spec_version, icectl)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_operations(tmp_path: Path, icectl: Icectl, part: int) -> None:
    count = int(os.environ.get("ICECTL_RANDOM_WALKS", "160"))
    start = int(os.environ.get("ICECTL_RANDOM_SEED", "1000"))
    for seed in range(start, start + count)[part::4]:
        where = tmp_path / str(seed) / "repo"
        walk(where, seed, 1 + seed // 4 % 2, icectl, steps=50)
        shutil.rmtree(where.parent)
