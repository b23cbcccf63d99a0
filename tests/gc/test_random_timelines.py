"""Random histories with restored `repo` files, lost races and cleared backups.

What is lost is known without a look at any ops log: a backup is a copy of a state, byte for byte,
and the test knows which states the current timeline consists of.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from icectl.format.repo import decode_repo
from icectl.repository.backups import backup_name
from tests.gc.place import Place
from tests.gc.repositories import now
from tests.official import zarr
from tests.repetition import repeated

VALIDATE = ("validate", "--level", "refs", "--fail-on", "warning")
GC = ("gc", "--older-than", "0s", "--allow-recent", "--yes")


class History:
    def __init__(self, place: Place, seed: int, *, with_accidents: bool) -> None:
        self.place = place
        self.random = random.Random(seed)
        self.with_accidents = with_accidents
        self.timeline: list[bytes] = []
        self.restorable = 0
        """From which state of the timeline on nothing was deleted yet."""
        self.number = 0
        self.refused = self.collected = self.repaired = 0
        self.cut_off: list[list[bytes]] = []
        """The timelines before an older state was put back."""
        self.between: list[bytes] = []
        """States between two steps of a repair, in which a part of the lost lines is recovered."""
        self.recovered: list[tuple[bytes, set[str]]] = []
        """The state after a repair, and the lost backups that it recovered."""
        self.remember()

    @property
    def repo(self) -> Path:
        return self.place.where / "repo"

    def remember(self) -> None:
        if not self.timeline or self.timeline[-1] != self.repo.read_bytes():
            self.timeline.append(self.repo.read_bytes())

    def lost(self) -> dict[str, set[str]]:
        """Which snapshots each backup outside the timeline lists, unless they were recovered."""
        found = {}
        recovered = {
            name for state, names in self.recovered if state in self.timeline for name in names
        }
        for name in self.place.backups():
            if name in recovered:
                continue
            data = (self.place.where / "overwritten" / name).read_bytes()
            if data not in self.timeline:
                found[name] = {str(one.id) for one in decode_repo(data).snapshots}
        return found

    def step(self) -> None:
        names = ["commit", "commit", "amend", "reset", "tag", "expire", "lost_race", "gc", "gc"]
        if self.with_accidents:
            names += ["put_back", "clear", "repair"]
        getattr(self, self.random.choice(names))()

    def commit(self, amend: bool = False) -> None:
        self.number += 1
        session = self.place.official().writable_session("main")
        zarr.open_group(session.store, mode="a").attrs["number"] = self.number
        if amend and len(list(self.place.official().ancestry(branch="main"))) > 1:
            session.amend(f"{self.number}")
        else:
            session.commit(f"{self.number}")
        self.remember()

    def amend(self) -> None:
        self.commit(amend=True)

    def reset(self) -> None:
        repo = self.place.official()
        ids = [info.id for info in repo.ancestry(branch="main")]
        repo.reset_branch("main", self.random.choice(ids[:4]))
        self.remember()

    def tag(self) -> None:
        self.number += 1
        code, document = self.place.run("tag", "create", f"t{self.number}")
        if code != 0:
            assert self.with_accidents and code == 13, document
            # `repo` is older than a backup that is not of its timeline.
            code, document = self.place.run("status", "set", "online", "--accept-older-repo")
        assert code == 0, document
        self.remember()

    def expire(self) -> None:
        repo = self.place.official()
        repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
        self.remember()

    def lost_race(self) -> None:
        state = self.random.choice(self.timeline[-3:])
        (self.place.where / "overwritten" / backup_name(now())).write_bytes(state)

    def put_back(self) -> None:
        last = len(self.timeline) - 1
        first = max(self.restorable, last - 6)
        if first < last:
            keep = self.random.randrange(first, last)
            if self.timeline[keep] in self.between:
                return
            self.cut_off.append([*self.timeline])
            self.timeline = self.timeline[: keep + 1]
            self.repo.write_bytes(self.timeline[-1])

    def clear(self) -> None:
        names = self.place.backups()
        for name in names[self.random.randint(len(names) // 2, len(names)) :]:
            (self.place.where / "overwritten" / name).unlink()

    def repair(self) -> None:
        """Afterwards, all that lost states list is reachable, and they need no protection."""
        there, backups = self.place.snapshot_files(), {*self.place.backups()}
        code, document = self.place.run("repair", "--yes")
        assert code == 0, document
        for step in document["steps"]:
            assert step["action"] in ("restore_repo", "recover_branch")
            if step["action"] == "restore_repo":
                name = step["summary"].partition("backup ")[2].partition(",")[0]
                state = (self.place.where / "overwritten" / name).read_bytes()
                line = next(line for line in self.cut_off if state in line)
                self.timeline = line[: line.index(state) + 1]
        if not document["steps"]:
            return
        self.repaired += 1
        for name in sorted({*self.place.backups()} - backups, reverse=True):
            state = (self.place.where / "overwritten" / name).read_bytes()
            if state not in self.timeline:
                self.timeline.append(state)
                self.between.append(state)
        repo = self.place.official()
        kept = {
            one.id
            for kind, refs in (("branch", repo.list_branches()), ("tag", repo.list_tags()))
            for name in refs
            for one in repo.ancestry(**{kind: name})
        }
        listed = {id_ for ids in self.lost().values() for id_ in ids}
        assert listed & there <= kept
        self.remember()
        self.recovered.append((self.timeline[-1], {*self.lost()}))

    def gc(self) -> None:
        lost = self.lost()
        before = self.place.snapshot_files()
        code, document = self.place.run(*GC)
        after = self.place.snapshot_files()
        listed = {id_ for ids in lost.values() for id_ in ids}
        assert not listed & (before - after), "a lost commit was deleted"
        if not lost:
            assert code == 0, document
        if code == 0:
            self.collected += len(before - after)
            self.remember()
            self.restorable = len(self.timeline) - 1
        else:
            assert code == 13, document
            message = document["error"]["message"]
            assert "own copy" in message or "not continue" in message, message
            self.refused += 1

    def abandon(self) -> None:
        """Give up all that is lost, until a plain gc runs."""
        assert self.place.run("status", "set", "online", "--accept-older-repo")[0] == 0
        self.remember()
        words: list[str] = []
        for _ in range(30):
            code, document = self.place.run(*GC, *words)
            if code == 0:
                break
            message = document["error"]["message"]
            assert "not continue" in message, message
            name = message.partition("overwritten/")[2].partition(",")[0]
            assert name in self.lost()
            words += ["--abandon-history", name]
        assert code == 0
        self.remember()


@pytest.mark.parametrize("seed", repeated(range(3), range(3, 6)))
@pytest.mark.parametrize("with_accidents", [False, True], ids=["healthy", "accidents"])
def test_random_timelines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int, with_accidents: bool
) -> None:
    place = Place(tmp_path / "repo", capsys, num_updates_per_repo_info_file=5)
    history = History(place, seed, with_accidents=with_accidents)
    for _ in range(60):
        history.step()
        if not with_accidents:
            code, document = place.run(*VALIDATE)
            assert code == 0, document
    assert history.refused or history.collected or history.repaired
    history.abandon()
    assert place.run(*GC)[0] == 0
    code, document = place.run(*VALIDATE)
    assert code == 0, document
