"""The tour: commands that run on the demo repository, and what they show."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from icectl.errors import IcectlError

POLICY = "--keep-last 3 --keep-weekly 4"
TOUR = (
    ("All commits, including those no longer on any branch", "log --graph --all --oneline"),
    ("The content of the newest version", "ls --tree"),
    ("The changes of the last six commits", "diff main~6 main"),
    ("All operations on the repository, not only commits", "ops-log -n 12"),
    ("Check the repository, including each chunk file", "validate --level chunks"),
    ("Storage usage", "stats"),
    ("All of this as a page for a browser", "report --older-than 14d --gc-older-than 7d --html"),
    ("The snapshots a retention policy would release, and why", f"expire {POLICY} --dry-run"),
    ("Release them", f"expire {POLICY} --yes"),
    ("Objects that are no longer referenced", "gc --older-than 7d --dry-run"),
)
COLLECT = ("Delete them", "gc --older-than 7d --yes")
COLLECT_WITH_SPARK = (
    "Collect the copy with a Spark job: the same plan, the same result",
    "gc --older-than 7d --yes --engine spark",
)
AFTERWARDS = (
    ("Still valid, and smaller; garbage of the last week remains", "validate --level chunks"),
    ("The ops log contains what happened", "ops-log -n 3"),
)


@dataclass(frozen=True, slots=True)
class TourStep:
    command: str
    exit_code: int
    output: str | None
    """Its standard output with --json; otherwise the command writes to the terminal itself."""


@dataclass(frozen=True, slots=True)
class Tour:
    """Announces each command with `say(comment, line)` and runs it in a new process."""

    repository: Path
    environ: Mapping[str, str]
    options: Sequence[str]
    """The options that every command gets, but nobody needs to see."""
    say: Callable[[str, str], None]
    is_shown: bool
    """Whether the commands write to the terminal themselves."""
    without_spark: str | None
    """Why Spark cannot be used; None if it can."""
    report: Path | None = None
    """The page that the tour writes; None if charts cannot be drawn."""

    def run(self) -> list[TourStep]:
        self.say("", f"export ICECTL_REPO={shlex.quote(str(self.repository))}")
        self.say("", "")
        steps = [step for meaning, line in TOUR for step in self._begin(meaning, line)]
        if self.without_spark is None:
            copy = self._copy_repository()
            steps.append(self._call(*COLLECT))
            steps.append(self._call(*COLLECT_WITH_SPARK, "-r", str(copy)))
        else:
            steps.append(self._call(*COLLECT))
            self.say(f"The Spark job is skipped: {self.without_spark}", "")
            self.say("", "")
        return steps + [self._call(*step) for step in AFTERWARDS]

    def _begin(self, meaning: str, line: str) -> list[TourStep]:
        if not line.startswith("report "):
            return [self._call(meaning, line)]
        return [] if self.report is None else [self._call(meaning, line, str(self.report))]

    def _call(self, meaning: str, line: str, *more: str) -> TourStep:
        words = [*line.split(), *more]
        shown = shlex.join(["icectl", *words])
        self.say(meaning, shown)
        done = subprocess.run(
            [sys.executable, "-m", "icectl.cli.main", *words, *self.options],
            env={**self.environ, "ICECTL_REPO": str(self.repository), "ICECTL_PAGER": "cat"},
            stdin=subprocess.DEVNULL,
            stdout=None if self.is_shown else subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        self.say("", "")
        if done.returncode:
            raise IcectlError(f"{shown} failed with exit code {done.returncode}")
        return TourStep(shown, done.returncode, done.stdout)

    def _copy_repository(self) -> Path:
        """Copy with the times of the files, because gc deletes by age."""
        copy = self.repository.with_name(f"{self.repository.name}-for-spark")
        names = shlex.join(["cp", "-a", str(self.repository), str(copy)])
        self.say("Make a copy for the other engine", names)
        self.say("", "")
        try:
            shutil.copytree(self.repository, copy)
        except OSError as error:
            raise IcectlError(f"{copy} cannot be written: {error}") from None
        return copy
